//! The body of a response: complete bytes, a document that is indented or compressed on demand, or
//! events as they occur.

use std::fmt;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_core::Stream;
use http_body::{Body, Frame, SizeHint};

use super::document::{Document, Incomplete};
use super::list_memory::ListShare;
use super::pieces::Pieces;

/// The number of bytes compressed per poll: enough to be worth a write, few enough not to delay
/// other streams.
const GZIP_STEP: usize = 256 * 1024;

/// The number of bytes indented, encoded or left out per poll, for the same reason.
const STEP: usize = 64 * 1024;

/// An instruction to cut the connection without another byte: a fault rule demands it, or the rest
/// of a document cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is cut on purpose")]
pub struct Cut;

/// The body of a response. It is pulled: nothing is produced before it is polled, and nothing more
/// after it is dropped.
pub struct ResponseBody {
    inner: Inner,
    /// The memory of a list.
    share: Option<ListShare>,
    /// Set if other tasks have their turn before the next step.
    pauses: bool,
}

type Events = Pin<Box<dyn Stream<Item = Result<Pieces, Cut>> + Send>>;

enum Inner {
    Document(Document),
    Gzip { document: Document, encoder: Option<GzEncoder<Vec<u8>>> },
    Events(Events),
}

impl ResponseBody {
    /// Returns an empty body.
    pub(super) fn empty() -> Self {
        Self::whole(Pieces::default())
    }

    /// Returns a body of these bytes.
    pub(super) fn whole(pieces: Pieces) -> Self {
        Self::document(Document::Ready(pieces))
    }

    /// Returns a body of a document.
    pub(super) fn document(document: Document) -> Self {
        Self::of(Inner::Document(document))
    }

    /// Returns a body of a document, compressed with gzip.
    pub(super) fn gzip(document: Document) -> Self {
        // Level 1, as `defaultGzipContentEncodingLevel` in k8s.io/apiserver v0.36.4
        // pkg/endpoints/handlers/responsewriters/writers.go: most of the gain for the least CPU
        // time.
        let encoder = Some(GzEncoder::new(Vec::new(), Compression::new(1)));
        Self::of(Inner::Gzip { document, encoder })
    }

    /// Returns a body of events as they occur, each batch in one frame.
    pub(super) fn events(events: impl Stream<Item = Result<Pieces, Cut>> + Send + 'static) -> Self {
        Self::of(Inner::Events(Box::pin(events)))
    }

    fn of(inner: Inner) -> Self {
        Self { inner, share: None, pauses: false }
    }

    /// Keeps the memory of a list until the body is dropped.
    pub(super) fn hold(&mut self, share: Option<ListShare>) {
        self.share = share;
    }

    /// Takes the memory of a list, if its mirror limits that: to give it back while the body is
    /// sent.
    pub fn take_share(&mut self) -> Option<ListShare> {
        self.share.take()
    }

    /// Returns true if the body is made while it is read: it holds little memory.
    pub fn is_streamed(&self) -> bool {
        match &self.inner {
            Inner::Document(document) | Inner::Gzip { document, .. } => {
                matches!(document, Document::Produced(..))
            }
            Inner::Events(_) => true,
        }
    }

    /// Returns the number of bytes, if it is known.
    pub(super) fn length(&self) -> Option<u64> {
        match &self.inner {
            Inner::Document(document) => document.length().map(|it| it as u64),
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
        if std::mem::take(&mut self.pauses) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let step = match &mut self.inner {
            Inner::Events(events) => {
                return events.as_mut().poll_next(cx).map(|it| it.map(|it| it.map(Frame::data)));
            }
            Inner::Document(Document::Ready(pieces)) => {
                let pieces = std::mem::take(pieces);
                Ok(pieces.has_remaining().then_some(pieces))
            }
            Inner::Document(document) => document.next_pieces(STEP),
            Inner::Gzip { document, encoder } => compress(document, encoder).map(|it| it.map(Pieces::from)),
        };
        match step {
            Ok(Some(pieces)) if pieces.is_empty() => {
                // The work of this step has produced nothing.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Ok(Some(pieces)) => {
                // A client that gets little of much work asks for more at once.
                self.pauses = self.length().is_none() && pieces.len() < STEP / 2;
                Poll::Ready(Some(Ok(Frame::data(pieces))))
            }
            Ok(None) => Poll::Ready(None),
            Err(Incomplete) => Poll::Ready(Some(Err(Cut))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.length() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.length().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.inner {
            Inner::Document(Document::Ready(_)) => "whole",
            Inner::Document(Document::Indented(_)) => "indented",
            Inner::Document(Document::Produced(..)) => "produced",
            Inner::Gzip { .. } => "gzip",
            Inner::Events(_) => "events",
        };
        f.debug_struct("ResponseBody").field("kind", &kind).field("length", &self.length()).finish()
    }
}

/// Returns the next compressed bytes; `None` when all were returned. They are empty if the encoder
/// has buffered everything.
///
/// # Errors
///
/// Returns an error if the document cannot be completed.
fn compress(
    document: &mut Document,
    encoder: &mut Option<GzEncoder<Vec<u8>>>,
) -> Result<Option<Vec<u8>>, Incomplete> {
    const MEMORY: &str = "writing to memory does not fail";
    let Some(open) = encoder else { return Ok(None) };
    let mut budget = GZIP_STEP;
    while budget > 0 {
        let Some(bytes) = document.next(&mut budget)? else {
            return Ok(encoder.take().map(|it| it.finish().expect(MEMORY)));
        };
        open.write_all(&bytes).expect(MEMORY);
    }
    Ok(Some(std::mem::take(open.get_mut())))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use bytes::Bytes;
    use http_body_util::BodyExt;

    use super::*;

    /// Returns all bytes of a body, and the lengths of its frames.
    async fn read(mut body: ResponseBody) -> (Vec<u8>, Vec<usize>) {
        let (mut all, mut frames) = (Vec::new(), Vec::new());
        while let Some(frame) = body.frame().await {
            let data = frame.expect("no fault").into_data().expect("data").concat();
            frames.push(data.len());
            all.extend_from_slice(&data);
        }
        assert!(body.frame().await.is_none());
        (all, frames)
    }

    fn unpacked(packed: &[u8]) -> Vec<u8> {
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(packed).read_to_end(&mut unpacked).expect("gzip");
        unpacked
    }

    #[tokio::test]
    async fn a_body_is_compressed_in_several_steps() {
        let text: Vec<u8> =
            (0..900_000u32).flat_map(|it| it.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let pieces: Pieces = text.chunks(70_001).map(Bytes::copy_from_slice).collect();
        let (packed, frames) = read(ResponseBody::gzip(Document::Ready(pieces))).await;
        assert!(unpacked(&packed) == text && frames.len() > 4, "{} frames", frames.len());
    }

    #[tokio::test]
    async fn a_document_is_indented_in_several_steps_and_may_be_compressed() {
        let value: serde_json::Value = (0..50_000).map(|it| serde_json::json!([it, { "a": "b" }])).collect();
        let expected = serde_json::to_string_pretty(&value).expect("JSON").into_bytes();
        let json = value.to_string().into_bytes();
        let pieces: Pieces = json.chunks(7_001).map(Bytes::copy_from_slice).collect();
        let body = ResponseBody::document(Document::indented(pieces.clone()));
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (None, false));
        let (indented, frames) = read(body).await;
        assert!(indented == expected, "the output differs");
        assert!(frames.iter().all(|it| *it < STEP + 100), "{frames:?}");
        let (packed, frames) = read(ResponseBody::gzip(Document::indented(pieces))).await;
        assert!(unpacked(&packed) == expected && frames.len() > 4, "{} frames", frames.len());
    }

    #[tokio::test]
    async fn a_complete_body_knows_its_length_and_ends() {
        let mut body = ResponseBody::whole(Pieces::from_iter([Bytes::from("ab"), Bytes::from("c")]));
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(3), false));
        assert!(body.frame().await.is_some() && body.is_end_stream() && body.frame().await.is_none());
        assert!(ResponseBody::empty().is_end_stream());
    }
}
