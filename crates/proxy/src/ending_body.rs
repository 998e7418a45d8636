//! Bodies that end before upstream ends them: when their caller loses a right, or when rules change
//! what callers see.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use dogwatch_client::{BoxError, ResponseBody, boxed};
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::event_boundaries::EventBoundaries;

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

/// The error of a body that was cut: it is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rules of the proxy have changed, and what was sent is not what the caller sees now")]
pub(crate) struct RulesChanged;

/// Returns the body of a watch from memory, whose frames are complete events, that ends with
/// `ending`. While `trust` is over, it has nothing to send: `ending` extends it, or resolves.
pub(crate) fn ending(body: ResponseBody, ending: Ending, trust: Trust) -> ResponseBody {
    EndingBody::boxed(body, ending, EndKind::Complete(trust))
}

/// Returns a body that fails with `ending`: a client must not take the part that was sent for the
/// complete document.
pub(crate) fn cut_at(body: ResponseBody, ending: Ending) -> ResponseBody {
    EndingBody::boxed(body, ending, EndKind::Cut)
}

/// Returns the body of a watch that ends with `ending`: its last event is the one that was sent in
/// part then, and an error follows it.
pub(crate) fn ending_watch(body: ResponseBody, ending: Ending, events: EventBoundaries) -> ResponseBody {
    EndingBody::boxed(body, ending, EndKind::LastEvent(events))
}

struct EndingBody {
    /// `None` when it has ended.
    body: Option<ResponseBody>,
    ending: Ending,
    /// Set once `ending` has resolved.
    has_ended: bool,
    kind: EndKind,
}

/// The end of a body that ends early.
enum EndKind {
    /// It is complete, and has nothing to send while the trust is over.
    Complete(Trust),
    /// It fails.
    Cut,
    /// The client gets an event with an error.
    LastEvent(EventBoundaries),
}

impl EndingBody {
    fn boxed(body: ResponseBody, ending: Ending, kind: EndKind) -> ResponseBody {
        boxed(Self { body: Some(body), ending, has_ended: false, kind })
    }
}

impl Body for EndingBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        // Before the next event, which the caller may not see.
        this.has_ended = this.has_ended || this.ending.as_mut().poll(context).is_ready();
        if this.has_ended {
            let last = match &this.kind {
                EndKind::LastEvent(events) if !events.is_between() => None,
                EndKind::LastEvent(events) => Some(Some(Ok(Frame::data(events.expired_event())))),
                EndKind::Cut if body.is_end_stream() => Some(None),
                EndKind::Cut => Some(Some(Err(RulesChanged.into()))),
                EndKind::Complete(_) => Some(None),
            };
            if let Some(last) = last {
                this.body = None;
                return Poll::Ready(last);
            }
        }
        if let EndKind::Complete(trust) = &this.kind
            && trust.end() <= Instant::now()
        {
            // The review that was begun above wakes the reader when it has ended.
            return Poll::Pending;
        }
        let frame = ready!(Pin::new(body).poll_frame(context));
        let EndKind::LastEvent(events) = &mut this.kind else { return Poll::Ready(frame) };
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| match frame.into_data() {
                Ok(mut data) if this.has_ended => {
                    data.truncate(events.pass_event(&data));
                    Frame::data(data)
                }
                Ok(data) => {
                    events.pass(&data);
                    Frame::data(data)
                }
                Err(other) => other,
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.body, &self.kind) {
            (Some(body), EndKind::Complete(_) | EndKind::Cut) => body.size_hint(),
            _ => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dogwatch_client::RequestBody;
    use dogwatch_wire::WatchEvent;
    use futures_util::{StreamExt, stream};
    use http::header::CONTENT_TYPE;
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    fn event() -> ResponseBody {
        boxed(RequestBody::from("an event\n"))
    }

    #[tokio::test]
    async fn a_body_ends_before_its_next_event() {
        let trust = || Trust::until(Instant::now() + Duration::from_secs(10));
        let open = ending(event(), Box::pin(std::future::pending()), trust());
        assert_eq!(open.collect().await.unwrap().to_bytes(), "an event\n");
        let ended = ending(event(), Box::pin(std::future::ready(())), trust());
        assert!(ended.collect().await.unwrap().to_bytes().is_empty());
    }

    /// Regression test: the rules changed while a list was passed on, and its response ended as if
    /// it were complete.
    #[tokio::test]
    async fn a_document_that_is_cut_fails() {
        let open = cut_at(event(), Box::pin(std::future::pending()));
        assert_eq!(open.collect().await.unwrap().to_bytes(), "an event\n");
        let error = cut_at(event(), Box::pin(std::future::ready(()))).collect().await.unwrap_err();
        assert!(error.to_string().contains("rules"), "{error}");

        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let mut body = cut_at(event(), Box::pin(async { drop(receiver.await) }));
        assert!(body.frame().await.unwrap().is_ok());
        drop(sender);
        assert!(body.frame().await.is_none(), "it was sent completely");
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
        let mut body = ending(event(), Box::pin(review), trust);
        tokio::time::advance(Duration::from_secs(60)).await;
        let early = futures_util::future::poll_immediate(body.frame()).await;
        assert!(early.is_none(), "the review has only begun");
        let began = Instant::now();
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "an event\n");
        assert!(began.elapsed() >= Duration::from_secs(3));
    }

    /// The first part of a body is sent, then the rules change, and then the second part arrives.
    async fn cut(content_type: &str, first: &[u8], second: &[u8]) -> Vec<u8> {
        let headers = [(CONTENT_TYPE, content_type.parse().unwrap())].into_iter().collect();
        let events = EventBoundaries::of(&headers).unwrap();
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let frames = [first, second].map(|it| Ok::<_, BoxError>(Frame::data(Bytes::copy_from_slice(it))));
        let frames = stream::iter(frames).chain(stream::pending());
        let end = Box::pin(async { drop(receiver.await) });
        let mut body = ending_watch(boxed(StreamBody::new(frames)), end, events);
        let mut bytes = body.frame().await.unwrap().unwrap().into_data().unwrap().to_vec();
        drop(sender);
        bytes.extend(body.collect().await.unwrap().to_bytes());
        bytes
    }

    #[tokio::test]
    async fn a_watch_ends_after_a_complete_event_and_then_has_an_error() {
        let json = "application/json";
        for (first, second, expected) in
            [("a\n", "b\n", "a\n"), ("a\nb", "c\nd\n", "a\nbc\n"), ("a", "\n", "a\n")]
        {
            let text = String::from_utf8(cut(json, first.as_bytes(), second.as_bytes()).await).unwrap();
            let error = text.strip_prefix(expected).unwrap();
            let event: serde_json::Value = serde_json::from_str(error).unwrap();
            assert_eq!((&event["type"], &event["object"]["code"]), (&"ERROR".into(), &410.into()), "{text}");
        }
        let protobuf = "application/vnd.kubernetes.protobuf;stream=watch";
        let bytes = cut(protobuf, b"\0\0\0\x03a", b"bc\0\0\0\x01x").await;
        let error = bytes.strip_prefix(b"\0\0\0\x03abc").unwrap();
        let mut seen = Vec::new();
        let mut decoder = dogwatch_wire::WatchDecoder::<serde_json::Value>::protobuf();
        decoder.feed(error, |it| seen.push(it.unwrap())).unwrap();
        assert!(matches!(&seen[..], [WatchEvent::Error(status)] if status.code == 410), "{seen:?}");
    }
}
