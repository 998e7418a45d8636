//! The body of a response: complete bytes, bytes that are compressed on demand, or events as they
//! occur.

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

/// The number of bytes compressed per poll: enough to be worth a write, few enough not to delay
/// other streams.
const GZIP_STEP: usize = 256 * 1024;

/// An instruction to cut the connection without another byte, as a fault rule demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is cut on purpose")]
pub struct Cut;

/// The body of a response. It is pulled: nothing is produced before it is polled, and nothing more
/// after it is dropped.
pub struct ResponseBody {
    inner: Inner,
}

type Events = Pin<Box<dyn Stream<Item = Result<Pieces, Cut>> + Send>>;

enum Inner {
    Whole(Pieces),
    Gzip { pieces: Pieces, encoder: Option<GzEncoder<Vec<u8>>> },
    Events(Events),
}

impl ResponseBody {
    /// Returns an empty body.
    pub(super) fn empty() -> Self {
        Self::whole(Pieces::default())
    }

    /// Returns a body of these bytes.
    pub(super) fn whole(pieces: Pieces) -> Self {
        Self { inner: Inner::Whole(pieces) }
    }

    /// Returns a body of these bytes, compressed with gzip.
    pub(super) fn gzip(pieces: Pieces) -> Self {
        // Level 1, as `defaultGzipContentEncodingLevel` in k8s.io/apiserver v0.36.4
        // pkg/endpoints/handlers/responsewriters/writers.go: most of the gain for the least CPU
        // time.
        let encoder = Some(GzEncoder::new(Vec::new(), Compression::new(1)));
        Self { inner: Inner::Gzip { pieces, encoder } }
    }

    /// Returns a body of events as they occur, each batch in one frame.
    pub(super) fn events(events: impl Stream<Item = Result<Pieces, Cut>> + Send + 'static) -> Self {
        Self { inner: Inner::Events(Box::pin(events)) }
    }

    /// Returns the number of bytes, if it is known.
    pub(super) fn length(&self) -> Option<u64> {
        match &self.inner {
            Inner::Whole(pieces) => Some(pieces.remaining() as u64),
            _ => None,
        }
    }
}

impl Body for ResponseBody {
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

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.inner {
            Inner::Whole(_) => "whole",
            Inner::Gzip { .. } => "gzip",
            Inner::Events(_) => "events",
        };
        f.debug_struct("ResponseBody").field("kind", &kind).field("length", &self.length()).finish()
    }
}

/// Returns the next compressed bytes; none when all were returned.
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
        // The encoder may have buffered everything; then another step is needed to produce output.
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
    async fn a_body_is_compressed_in_several_steps() {
        let text: Vec<u8> =
            (0..900_000u32).flat_map(|it| it.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let pieces: Pieces = text.chunks(70_001).map(Bytes::copy_from_slice).collect();
        let mut body = ResponseBody::gzip(pieces);
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
    async fn a_complete_body_knows_its_length_and_ends() {
        let mut body = ResponseBody::whole(Pieces::from_iter([Bytes::from("ab"), Bytes::from("c")]));
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(3), false));
        assert!(body.frame().await.is_some() && body.is_end_stream() && body.frame().await.is_none());
        assert!(ResponseBody::empty().is_end_stream());
    }
}
