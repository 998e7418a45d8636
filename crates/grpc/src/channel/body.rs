//! The body of a response: counts the call as in flight until the stream has ended or is dropped.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http_body::{Body, Frame};
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep};

use super::methods::RetryState;
use super::snapshot::Slot;
use super::status::Code;
use crate::load::InFlight;

/// The body of a response.
///
/// The call counts as in flight until its end was read or the body is dropped; dropping it early
/// cancels the call.
///
/// ```
/// use dogwatch_grpc::ResponseBody;
/// use http_body_util::BodyExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let empty = ResponseBody::default(); // what a test double returns
/// let body = empty.collect().await.map_err(|_| "an empty body cannot be interrupted")?;
/// assert!(body.to_bytes().is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct ResponseBody {
    stream: Option<Stream>,
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").field("ended", &self.stream.is_none()).finish()
    }
}

/// A call on an endpoint, until it has ended.
#[derive(Debug)]
pub(crate) struct Call {
    in_flight: InFlight,
    slot: Arc<Slot>,
    /// The status code, once the call has ended.
    code: Option<Code>,
    /// True if no server has processed the call.
    unprocessed: bool,
}

impl Call {
    pub(crate) fn new(slot: Arc<Slot>, in_flight: InFlight) -> Self {
        slot.metrics.begin();
        in_flight.load().count();
        Self { in_flight, slot, code: None, unprocessed: false }
    }

    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Returns true if the status of the call is known.
    pub(crate) fn has_ended(&self) -> bool {
        self.code.is_some()
    }

    /// Records that no server has processed the call, so that it does not count for this endpoint.
    pub(crate) fn was_not_processed(&mut self) {
        self.unprocessed = true;
    }

    /// Records the status of the call.
    pub(crate) fn ended(&mut self, code: Code) {
        if self.code.is_none() {
            self.in_flight.load().record(!code.blames_server());
            self.code = Some(code);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        match self.unprocessed {
            true => self.slot.metrics.end_unprocessed(),
            false => self.slot.metrics.end(self.code),
        }
    }
}

/// The state of a call while its response is received.
pub(crate) struct Stream {
    pub(crate) receive: RecvStream,
    pub(crate) call: Call,
    pub(crate) deadline: Option<Pin<Box<Sleep>>>,
    /// The task that still sends the body of the request.
    pub(crate) sending: Option<AbortHandle>,
    /// The retry budget to update at the end, if the head did not have the status.
    pub(crate) retrying: Option<Arc<RetryState>>,
    pub(crate) data_ended: bool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(sending) = &self.sending {
            sending.abort();
        }
    }
}

impl ResponseBody {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream: Some(stream) }
    }
}

/// A response that was interrupted: by which endpoint, and why.
///
/// With the feature `tonic`, its source is a `tonic::Status`, where tonic's clients find it.
///
/// ```
/// use std::error::Error;
/// use std::iter::successors;
/// use std::net::SocketAddr;
///
/// use dogwatch_grpc::Interrupted;
///
/// /// The endpoint that broke a response, from any error around it.
/// fn endpoint_of(error: &(dyn Error + 'static)) -> Option<SocketAddr> {
///     let mut causes = successors(Some(error), |&it| it.source());
///     causes.find_map(|it| it.downcast_ref()).map(Interrupted::endpoint)
/// }
/// assert_eq!(endpoint_of(&std::fmt::Error), None);
/// ```
#[derive(Debug, thiserror::Error)]
#[error("the response of {endpoint} was interrupted")]
pub struct Interrupted {
    endpoint: SocketAddr,
    code: Code,
    #[source]
    source: Cause,
}

#[cfg(feature = "tonic")]
type Cause = tonic::Status;
#[cfg(not(feature = "tonic"))]
type Cause = std::io::Error;

impl Interrupted {
    fn new(endpoint: SocketAddr, code: Code, why: impl fmt::Display) -> Self {
        Self { endpoint, code, source: cause(endpoint, code, &why) }
    }

    /// Returns the endpoint that sent the response.
    pub fn endpoint(&self) -> SocketAddr {
        self.endpoint
    }

    /// Returns the status code of the call.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns everything in one sentence, as the message of a status.
    #[cfg(feature = "grpc-crate")]
    pub(crate) fn message(&self) -> String {
        #[cfg(feature = "tonic")]
        return self.source.message().to_owned();
        #[cfg(not(feature = "tonic"))]
        return format!("{self}: {}", self.source);
    }
}

#[cfg(feature = "tonic")]
fn cause(endpoint: SocketAddr, code: Code, why: &dyn fmt::Display) -> Cause {
    let message = format!("the response of {endpoint} was interrupted: {why}");
    let mut status = tonic::Status::new(tonic::Code::from_i32(code as i32), message);
    if let Ok(value) = endpoint.to_string().parse() {
        status.metadata_mut().insert(super::status::ENDPOINT, value);
    }
    status
}

#[cfg(not(feature = "tonic"))]
fn cause(_: SocketAddr, _: Code, why: &dyn fmt::Display) -> Cause {
    std::io::Error::other(why.to_string())
}

impl Stream {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Interrupted>>> {
        if let Some(Poll::Ready(())) = self.deadline.as_mut().map(|it| it.as_mut().poll(cx)) {
            return Poll::Ready(Some(Err(
                self.interrupted(Code::DeadlineExceeded, "the deadline has passed")
            )));
        }
        if !self.data_ended {
            match ready!(self.receive.poll_data(cx)) {
                Some(Ok(data)) => {
                    // Fails only for streams that have ended, which is reported below.
                    let _ = self.receive.flow_control().release_capacity(data.len());
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                // A server may stop a request that it need not read to its end, but only after it
                // has sent the status.
                Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => {
                    return Poll::Ready(self.ended());
                }
                Some(Err(error)) => {
                    return Poll::Ready(Some(Err(self.interrupted(Code::of_error(&error), &error))));
                }
                None => self.data_ended = true,
            }
        }
        match ready!(self.receive.poll_trailers(cx)) {
            Ok(Some(trailers)) => {
                let code = Code::of(&trailers).unwrap_or(Code::Unknown);
                if code.at(self.deadline()) != code {
                    return Poll::Ready(Some(Err(self.interrupted(code, "the deadline has passed"))));
                }
                self.note(code);
                Poll::Ready(Some(Ok(Frame::trailers(trailers))))
            }
            Ok(None) => Poll::Ready(self.ended()),
            Err(error) if error.reason() == Some(Reason::NO_ERROR) => Poll::Ready(self.ended()),
            Err(error) => Poll::Ready(Some(Err(self.interrupted(Code::of_error(&error), &error)))),
        }
    }

    /// Handles an end without trailers: an error unless the head had the status.
    fn ended(&mut self) -> Option<Result<Frame<Bytes>, Interrupted>> {
        (!self.call.has_ended()).then(|| Err(self.interrupted(Code::Internal, "it ended without a status")))
    }

    fn note(&mut self, code: Code) {
        self.call.ended(code);
        self.retrying.take().iter().for_each(|it| it.budget.ended(code));
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline.as_ref().map(|it| it.deadline())
    }

    fn interrupted(&mut self, code: Code, why: impl fmt::Display) -> Interrupted {
        let code = code.at(self.deadline());
        self.note(code);
        Interrupted::new(self.call.slot().link.peer(), code, why)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Interrupted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Interrupted>>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(None);
        };
        let frame = ready!(stream.poll(cx));
        if !matches!(&frame, Some(Ok(frame)) if frame.is_data()) {
            self.stream = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_none()
    }
}
