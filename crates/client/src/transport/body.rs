//! Bodies on their way up: counted while they last, their errors sorted, and drained before a retry.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::error::TransportError;
use crate::body::ResponseBody;

/// The most that is read of an answer nobody wants (rule RQ-10).
const DRAIN_BYTES: usize = 2 * 1024;

/// The longest that an unwanted answer is waited for: past that, a new connection is the cheaper way.
const DRAIN_TIME: Duration = Duration::from_millis(250);

/// Reads the short rest of an answer that will not be used, so that its connection can be used again (rule RQ-10).
///
/// Gives up after 2 KiB or a quarter of a second, or at an error; then the answer is dropped, which cancels it.
pub async fn drain(mut body: ResponseBody) {
    let reading = async {
        let mut left = DRAIN_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // Whether it ended or ran out of time, the body is dropped here.
    let _ = tokio::time::timeout(DRAIN_TIME, reading).await;
}

/// A body of hyper with sorted errors, which holds `P` until it ends or is dropped.
pub(super) struct Counted<P> {
    inner: Incoming,
    place: Option<P>,
}

impl<P> Counted<P> {
    pub(super) fn new(inner: Incoming, place: P) -> Self {
        // A body without content may never be polled: its place is free at once.
        let place = if inner.is_end_stream() { None } else { Some(place) };
        Self { inner, place }
    }
}

impl<P: Unpin> Body for Counted<P> {
    type Data = Bytes;
    type Error = TransportError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransportError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) || self.inner.is_end_stream() {
            self.place = None;
        }
        polled.map_err(TransportError::in_body)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::stream;
    use http_body_util::StreamBody;

    use super::*;
    use crate::body::boxed;

    fn chunks(count: usize) -> (ResponseBody, Arc<AtomicUsize>) {
        let read = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&read);
        let frames = (0..count).map(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[0; 1024])))
        });
        (boxed(StreamBody::new(stream::iter(frames))), read)
    }

    #[tokio::test]
    async fn rq_10_a_short_rest_is_read_and_a_long_one_is_given_up() {
        let (body, read) = chunks(2);
        drain(body).await;
        assert_eq!(read.load(Ordering::Relaxed), 2);
        let (body, read) = chunks(100);
        drain(body).await;
        assert_eq!(read.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn rq_10_a_body_that_never_ends_is_not_waited_for() {
        let never = stream::pending::<Result<Frame<Bytes>, Infallible>>();
        drain(boxed(StreamBody::new(never))).await;
    }
}
