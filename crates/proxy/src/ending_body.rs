//! Bodies that end before upstream ends them: when their caller loses a right, or when rules change
//! what callers see.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use dogwatch_client::{BoxError, ResponseBody, boxed};
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Resolves when a body has to end.
pub(crate) type Ending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The time until which a caller may be sent what a body has. Each review extends it.
#[derive(Clone, Debug)]
pub(crate) struct Trust(Arc<Mutex<Instant>>);

impl Trust {
    /// Creates the trust until a time.
    pub(crate) fn until(time: Instant) -> Self {
        Self(Arc::new(Mutex::new(time)))
    }

    /// Returns its end.
    pub(crate) fn end(&self) -> Instant {
        *self.0.lock()
    }

    /// Sets its end.
    pub(crate) fn extend(&self, end: Instant) {
        *self.0.lock() = end;
    }
}

/// Returns a body that ends with `ending`. While `trust` is over, it has nothing to send: `ending`
/// extends the trust, or resolves.
pub(crate) fn ending(body: ResponseBody, ending: Ending, trust: Option<Trust>) -> ResponseBody {
    boxed(EndingBody { body: Some(body), ending, trust, last: None, is_line_complete: true })
}

/// Returns a body of lines that ends with `ending`, and then has `last` as its last line.
pub(crate) fn ending_with_line(body: ResponseBody, ending: Ending, last: Bytes) -> ResponseBody {
    boxed(EndingBody { body: Some(body), ending, trust: None, last: Some(last), is_line_complete: true })
}

struct EndingBody {
    /// `None` when it has ended.
    body: Option<ResponseBody>,
    ending: Ending,
    trust: Option<Trust>,
    /// The line that is sent at the end.
    last: Option<Bytes>,
    /// False while a line was sent in part.
    is_line_complete: bool,
}

impl Body for EndingBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        // Before the next event, which the caller may not see.
        if this.body.is_some() && this.ending.as_mut().poll(context).is_ready() {
            this.body = None;
            let last = this.last.take().filter(|_| this.is_line_complete);
            return Poll::Ready(last.map(|it| Ok(Frame::data(it))));
        }
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        // The review that was begun above wakes the reader when it has ended.
        if this.trust.as_ref().is_some_and(|it| it.end() <= Instant::now()) {
            return Poll::Pending;
        }
        let frame = std::task::ready!(Pin::new(body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(byte) = frame.data_ref().and_then(|it| it.last())
        {
            this.is_line_complete = *byte == b'\n';
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Some(body) if self.last.is_none() => body.size_hint(),
            _ => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dogwatch_client::RequestBody;
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    fn event() -> ResponseBody {
        boxed(RequestBody::from("an event\n"))
    }

    #[tokio::test]
    async fn a_body_ends_before_its_next_event() {
        let open = ending(event(), Box::pin(std::future::pending()), None);
        assert_eq!(open.collect().await.unwrap().to_bytes(), "an event\n");
        let ended = ending(event(), Box::pin(std::future::ready(())), None);
        assert!(ended.collect().await.unwrap().to_bytes().is_empty());
    }

    /// A client stops reading, its right is revoked, and it reads again: what was written since
    /// waits for the review.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_read_after_the_trust_waits_for_the_review() {
        let trust = Trust::until(Instant::now() + Duration::from_secs(10));
        let reviewed = trust.clone();
        let review = async move {
            tokio::time::sleep_until(reviewed.end()).await;
            tokio::time::sleep(Duration::from_secs(3)).await;
            reviewed.extend(Instant::now() + Duration::from_secs(10));
            std::future::pending().await
        };
        let mut body = ending(event(), Box::pin(review), Some(trust));
        tokio::time::advance(Duration::from_secs(60)).await;
        let early = futures_util::future::poll_immediate(body.frame()).await;
        assert!(early.is_none(), "the review has only begun");
        let began = Instant::now();
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "an event\n");
        assert!(began.elapsed() >= Duration::from_secs(3));
    }

    #[tokio::test]
    async fn the_last_line_follows_a_complete_one_only() {
        for (first, expected) in [("an event\n", "an event\nlast\n"), ("an eve", "an eve")] {
            let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
            let frames = [Ok::<_, BoxError>(Frame::data(Bytes::from(first)))];
            let frames = futures_util::stream::StreamExt::chain(
                futures_util::stream::iter(frames),
                futures_util::stream::pending(),
            );
            let body: ResponseBody = boxed(StreamBody::new(frames));
            let end = Box::pin(async { drop(receiver.await) });
            let mut body = ending_with_line(body, end, Bytes::from("last\n"));
            let mut text = body.frame().await.unwrap().unwrap().into_data().unwrap().to_vec();
            drop(sender);
            text.extend(body.collect().await.unwrap().to_bytes());
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }
}
