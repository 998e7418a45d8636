//! A response in small frames, and its share of the memory for lists.
//!
//! A list arrives as one frame of shared pieces. Here it leaves piece by piece, so that it is never
//! copied as a whole, and its share of the memory is given back as it leaves.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use dogwatch_apiserver::mirror::ListShare;
use dogwatch_client::{BoxError, ResponseBody, boxed};
use http_body::{Body, Frame, SizeHint};

/// The number of bytes of a frame. Smaller pieces are copied together, and larger ones split.
const FRAME: usize = 64 * 1024;

/// Returns a body in small frames. `share` is what the response may take.
pub(crate) fn small_frames<B>(body: B, share: Option<ListShare>) -> ResponseBody
where
    B: Body<Data: Buf + Send + Unpin, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let mut small = SmallFrames { body, rest: None, share };
    small.keep_share();
    boxed(small)
}

struct SmallFrames<B: Body> {
    body: B,
    /// The part of the last frame that has not left.
    rest: Option<B::Data>,
    share: Option<ListShare>,
}

impl<B: Body<Data: Buf>> SmallFrames<B> {
    fn remaining(&self) -> Option<u64> {
        let rest = self.rest.as_ref().map_or(0, |it| it.remaining() as u64);
        Some(self.body.size_hint().exact()?.saturating_add(rest))
    }

    /// Gives back the part of the share that the rest of the response does not need.
    fn keep_share(&mut self) {
        let (Some(remaining), Some(share)) = (self.remaining(), &mut self.share) else { return };
        share.keep(usize::try_from(remaining).unwrap_or(usize::MAX));
    }
}

impl<B> Body for SmallFrames<B>
where
    B: Body<Data: Buf + Unpin, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if this.rest.is_none() {
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                Some(Ok(frame)) => frame,
            };
            match frame.into_data() {
                Ok(data) => this.rest = Some(data),
                Err(other) => {
                    let trailers = other.into_trailers().unwrap_or_default();
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
            }
        }
        let Some(rest) = &mut this.rest else { return Poll::Ready(None) };
        // A large piece is shared, not copied.
        let first = rest.chunk().len();
        let length = if first >= FRAME / 2 { first } else { rest.remaining() };
        let bytes = rest.copy_to_bytes(length.min(FRAME));
        if !rest.has_remaining() {
            this.rest = None;
        }
        this.keep_share();
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.remaining().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dogwatch_apiserver::mirror::ListMemory;
    use http_body_util::{BodyExt, Full};

    use super::*;

    #[tokio::test]
    async fn a_large_body_leaves_in_small_frames_and_gives_back_its_share() {
        let text: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        const MEMORY: usize = 40_000 * 1024;
        let memory = ListMemory::new(MEMORY, Duration::ZERO);
        let share = memory.try_take(9_000 * 1024).unwrap();
        // Two pieces of one frame, of which the first is small.
        let data = Bytes::from(text[..10].to_vec()).chain(Bytes::from(text[10..].to_vec()));
        let mut body = small_frames(Full::new(data), Some(share));
        let taken = || MEMORY - memory.available();
        assert_eq!((body.size_hint().exact(), taken()), (Some(4_000_000), 3_907 * 1024));
        let (mut seen, mut before) = (Vec::new(), taken());
        while let Some(frame) = body.frame().await {
            let bytes = frame.unwrap().into_data().unwrap();
            assert!(!bytes.is_empty() && bytes.len() <= FRAME && taken() < before);
            before = taken();
            seen.extend_from_slice(&bytes);
        }
        assert!(seen == text, "the bytes differ");
        drop(body);
        assert_eq!(taken(), 0);
    }
}
