//! The body of an answer: bytes that are there, bytes that are compressed as they are taken, or events as they come.

use std::fmt;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_core::Stream;
use http_body::{Body, Frame, SizeHint};

use super::pieces::Pieces;

/// How much is compressed for one step of an answer: enough to be worth a write, little enough not to hold others up.
const GZIP_STEP: usize = 256 * 1024;

/// The connection is to be cut without another byte: what the fault lab asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is cut on purpose")]
pub struct Cut;

/// The body of an answer. It is pulled: nothing is made before it is asked for, and what is dropped is not made at all.
pub struct AnswerBody {
    inner: Inner,
}

type Events = Pin<Box<dyn Stream<Item = Result<Pieces, Cut>> + Send>>;

enum Inner {
    Whole(Pieces),
    Gzip { pieces: Pieces, encoder: Option<GzEncoder<Vec<u8>>> },
    Events(Events),
}

impl AnswerBody {
    /// A body without a byte.
    pub(super) fn empty() -> Self {
        Self::whole(Pieces::default())
    }

    /// These bytes.
    pub(super) fn whole(pieces: Pieces) -> Self {
        Self { inner: Inner::Whole(pieces) }
    }

    /// These bytes, compressed.
    pub(super) fn gzip(pieces: Pieces) -> Self {
        // Level 1, as the original: most of the gain for the least of the time.
        let encoder = Some(GzEncoder::new(Vec::new(), Compression::new(1)));
        Self { inner: Inner::Gzip { pieces, encoder } }
    }

    /// Events as they come, each batch in one frame.
    pub(super) fn events(events: impl Stream<Item = Result<Pieces, Cut>> + Send + 'static) -> Self {
        Self { inner: Inner::Events(Box::pin(events)) }
    }

    /// How many bytes there are, where that is known.
    pub(super) fn length(&self) -> Option<u64> {
        match &self.inner {
            Inner::Whole(pieces) => Some(pieces.remaining() as u64),
            _ => None,
        }
    }
}

impl Body for AnswerBody {
    type Data = Pieces;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Pieces>, Cut>>> {
        let frame = |pieces: Pieces| pieces.has_remaining().then(|| Ok(Frame::data(pieces)));
        match &mut self.inner {
            Inner::Whole(pieces) => Poll::Ready(frame(std::mem::take(pieces))),
            Inner::Gzip { pieces, encoder } => Poll::Ready(frame(compress(pieces, encoder).into())),
            Inner::Events(events) => events.as_mut().poll_next(cx).map(|it| it.map(|it| it.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.inner, Inner::Whole(pieces) if !pieces.has_remaining())
    }

    fn size_hint(&self) -> SizeHint {
        self.length().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.inner {
            Inner::Whole(_) => "whole",
            Inner::Gzip { .. } => "gzip",
            Inner::Events(_) => "events",
        };
        f.debug_struct("AnswerBody").field("kind", &kind).field("length", &self.length()).finish()
    }
}

/// The next compressed bytes; none when all were given.
fn compress(pieces: &mut Pieces, encoder: &mut Option<GzEncoder<Vec<u8>>>) -> Vec<u8> {
    const MEMORY: &str = "writing to memory does not fail";
    let Some(open) = encoder else { return Vec::new() };
    let mut budget = GZIP_STEP;
    while pieces.has_remaining() && budget > 0 {
        let chunk = pieces.chunk();
        let length = chunk.len().min(budget);
        open.write_all(&chunk[..length]).expect(MEMORY);
        pieces.advance(length);
        budget -= length;
    }
    if pieces.has_remaining() {
        // The encoder may hold everything back; then another step is needed to have anything to give.
        let given = std::mem::take(open.get_mut());
        return if given.is_empty() { compress(pieces, encoder) } else { given };
    }
    encoder.take().map(|it| it.finish().expect(MEMORY)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use bytes::Bytes;
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_compressed_body_is_the_same_bytes_in_several_steps() {
        let text: Vec<u8> =
            (0..900_000u32).flat_map(|it| it.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let pieces: Pieces = text.chunks(70_001).map(Bytes::copy_from_slice).collect();
        let mut body = AnswerBody::gzip(pieces);
        let (mut packed, mut frames) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let data = frame.expect("no fault").into_data().expect("data");
            packed.extend_from_slice(&data.concat());
            frames += 1;
        }
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).expect("gzip");
        assert!(unpacked == text && frames > 4, "{frames} frames");
    }

    #[tokio::test]
    async fn a_whole_body_says_its_length_and_ends() {
        let mut body = AnswerBody::whole(Pieces::from_iter([Bytes::from("ab"), Bytes::from("c")]));
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(3), false));
        assert!(body.frame().await.is_some() && body.is_end_stream() && body.frame().await.is_none());
        assert!(AnswerBody::empty().is_end_stream());
    }
}
