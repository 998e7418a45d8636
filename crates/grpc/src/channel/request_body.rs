//! The body of a request on its way out, which can be rewound as long as the sent data is kept.
//!
//! Data that is available at once, like the whole of a unary request, is sent immediately, in the
//! caller's own task. It is kept by reference until the response begins; of later data, only a
//! limited amount is kept.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::SendStream;
use http::HeaderMap;
use http_body::Body;
use smallvec::SmallVec;

/// An error of the request body.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The number of frames that are collected before the first is sent; more would only delay it.
const MAX_COLLECTED: usize = 4;

#[derive(Debug)]
pub(crate) struct RequestBody<B> {
    /// `None` once it has ended.
    body: Option<B>,
    /// The data from the beginning, while it may be needed again or is not yet sent.
    kept: SmallVec<[Bytes; 1]>,
    trailers: Option<HeaderMap>,
    /// True while `kept` has everything that was taken from the body.
    whole: bool,
    /// The number of `kept` pieces that were sent in this attempt.
    sent: usize,
    /// The number of bytes taken from the body.
    size: usize,
    limit: usize,
}

impl<B> RequestBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    pub(crate) fn new(body: B, limit: usize) -> Self {
        let body = Some(body).filter(|it| !it.is_end_stream());
        Self { body, kept: SmallVec::new(), trailers: None, whole: true, sent: 0, size: 0, limit }
    }

    /// Takes the data that the body has available.
    pub(crate) fn collect_available(&mut self, cx: &mut Context<'_>) -> Result<(), BodyError> {
        while let Some(body) = &mut self.body
            && self.kept.len() < MAX_COLLECTED
            && self.size <= self.limit
        {
            let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else { break };
            if let Some(data) = self.accept(frame)? {
                self.kept.push(data);
            }
        }
        Ok(())
    }

    /// Returns true if there is nothing to send but the head.
    pub(crate) fn is_empty(&self) -> bool {
        self.body.is_none() && self.kept.is_empty() && self.trailers.is_none()
    }

    /// Rewinds to the beginning. Returns false if the beginning is no longer kept.
    pub(crate) fn rewind(&mut self) -> bool {
        if self.whole {
            self.sent = 0;
        }
        self.whole
    }

    /// Returns the rest to be sent, for the task that sends it. It keeps nothing more: there will
    /// be no other attempt.
    pub(crate) fn take_rest(&mut self) -> Self {
        self.kept.drain(..self.sent);
        let (kept, trailers) = (std::mem::take(&mut self.kept), self.trailers.take());
        Self { body: self.body.take(), kept, trailers, whole: false, sent: 0, size: self.size, limit: 0 }
    }

    /// Sends everything, as the peer's window allows. Ready when the end was sent, or when the peer
    /// wants no more.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut SendStream<Bytes>,
    ) -> Poll<Result<(), BodyError>> {
        loop {
            while let Some(data) = self.kept.get(self.sent) {
                self.sent += 1;
                let last = self.body.is_none() && self.sent == self.kept.len() && self.trailers.is_none();
                if stream.send_data(data.clone(), last).is_err() || last {
                    return Poll::Ready(Ok(()));
                }
            }
            let Some(body) = &mut self.body else {
                // If the stream has ended, the response has the reason.
                let _ = match self.trailers.clone() {
                    Some(trailers) => stream.send_trailers(trailers),
                    None => stream.send_data(Bytes::new(), true),
                };
                return Poll::Ready(Ok(()));
            };
            if !ready!(poll_capacity_available(cx, stream)) {
                return Poll::Ready(Ok(()));
            }
            let frame = ready!(Pin::new(body).poll_frame(cx));
            if let Some(data) = self.accept(frame)? {
                if self.size > self.limit {
                    // Too much to rewind: the sent data need not be kept.
                    self.kept.clear();
                    self.sent = 0;
                    self.whole = false;
                }
                self.kept.push(data);
            }
        }
    }

    fn accept(
        &mut self,
        frame: Option<Result<http_body::Frame<Bytes>, B::Error>>,
    ) -> Result<Option<Bytes>, BodyError> {
        let Some(frame) = frame else {
            self.body = None;
            return Ok(None);
        };
        match frame.map_err(Into::into)?.into_data() {
            Ok(data) => {
                self.size = self.size.saturating_add(data.len());
                self.body = self.body.take().filter(|it| !it.is_end_stream());
                Ok(Some(data))
            }
            Err(frame) => {
                self.trailers = frame.into_trailers().ok();
                self.body = None;
                Ok(None)
            }
        }
    }
}

/// Waits until the peer accepts at least one byte; false when it accepts no more. `h2` splits data
/// that exceeds the window.
fn poll_capacity_available(cx: &mut Context<'_>, stream: &mut SendStream<Bytes>) -> Poll<bool> {
    stream.reserve_capacity(1);
    while stream.capacity() == 0 {
        match ready!(stream.poll_capacity(cx)) {
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Poll::Ready(false),
        }
    }
    Poll::Ready(!matches!(stream.poll_reset(cx), Poll::Ready(_)))
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker_ref;
    use http_body_util::{Full, StreamBody};

    use super::*;

    fn collected<B>(body: B, limit: usize) -> RequestBody<B>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<BodyError>,
    {
        let mut body = RequestBody::new(body, limit);
        body.collect_available(&mut Context::from_waker(noop_waker_ref())).unwrap();
        body
    }

    #[test]
    fn a_whole_body_is_available_and_can_be_rewound() {
        let mut body = collected(Full::new(Bytes::from_static(b"hello")), 100);
        assert!(body.body.is_none() && !body.is_empty() && body.rewind());
        assert_eq!(body.kept.as_slice(), [Bytes::from_static(b"hello")]);
        assert!(collected(Full::new(Bytes::new()), 100).is_empty());
    }

    #[test]
    fn available_data_can_be_rewound_whatever_its_size() {
        let mut body = collected(Full::new(Bytes::from_static(b"hello")), 4);
        assert!(body.rewind());
    }

    #[test]
    fn sent_data_is_released_once_there_is_a_response() {
        let mut body = collected(Full::new(Bytes::from_static(b"hello")), 100);
        body.sent = 1;
        let mut rest = body.take_rest();
        assert!(rest.kept.is_empty() && !rest.rewind());
    }

    #[test]
    fn collecting_an_endless_body_stops() {
        let endless = futures_util::stream::repeat_with(|| {
            Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from_static(b"x")))
        });
        let body = collected(StreamBody::new(endless), 100);
        assert_eq!((body.kept.len(), body.body.is_some()), (MAX_COLLECTED, true));
    }
}
