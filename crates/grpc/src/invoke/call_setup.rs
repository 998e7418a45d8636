//! The start of a call. Its sending and receiving sides are separate: the first one that needs the
//! call starts it.
//!
//! A request whose only message is available (unary and server streaming) is written at once by the
//! task that sends the message, and its response is driven by the task that reads it, without a
//! task in between. A streamed request has its own task, since its caller need not read while it
//! sends.

use std::convert::Infallible;
use std::future::{self, Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use grpc::StatusError;
use http::Response;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tower_service::Service;

use super::head::Head;
use super::upload::{Piece, Upload};
use crate::channel::{Code, Failure, KubeChannel, ResponseBody};

type CallResult = Result<Response<ResponseBody>, Infallible>;

/// The future head of a response. Dropping it cancels the call.
pub(super) type ResponseFuture = Pin<Box<dyn Future<Output = CallResult> + Send>>;

/// The state that the two sides of a call share.
pub(super) struct CallSetup {
    stage: Mutex<SetupStage>,
    /// The reason why our own side ended the call. It takes precedence over the response, which can
    /// only say that the call was cancelled.
    failure: OnceLock<StatusError>,
}

enum SetupStage {
    /// Neither side has started the call.
    Waiting(PendingCall),
    /// Like `Waiting`, and the sending side was dropped: nothing will be sent.
    Silent(PendingCall),
    /// The receiving side has started the call; messages go here.
    Flowing(mpsc::Sender<Piece>),
    /// The sending side has started the call and has what it needs, or the receiving side was
    /// dropped.
    Over,
}

/// A call that has not started.
pub(super) struct PendingCall {
    channel: KubeChannel,
    head: Head,
}

/// The state that the sending side finds.
pub(super) enum SendTarget {
    /// It is the first side, and starts the call.
    Start(PendingCall),
    /// The call has started, and accepts messages.
    Flow(mpsc::Sender<Piece>),
    /// There is no call to send to.
    Nothing,
}

impl CallSetup {
    pub(super) fn new(channel: KubeChannel, head: Head) -> Arc<Self> {
        let stage = Mutex::new(SetupStage::Waiting(PendingCall { channel, head }));
        Arc::new(Self { stage, failure: OnceLock::new() })
    }

    /// Creates a call that failed before it could start.
    pub(super) fn failed(why: StatusError) -> Arc<Self> {
        let setup = Self { stage: Mutex::new(SetupStage::Over), failure: OnceLock::new() };
        setup.fail(why);
        Arc::new(setup)
    }

    /// Records why our side ended the call; the first reason is kept.
    pub(super) fn fail(&self, why: StatusError) {
        let _ = self.failure.set(why);
    }

    pub(super) fn failure(&self) -> Option<&StatusError> {
        self.failure.get()
    }

    /// Called by the sending side with its first message.
    pub(super) fn first_to_send(&self) -> SendTarget {
        match self.replace(SetupStage::Over) {
            SetupStage::Waiting(start) | SetupStage::Silent(start) => SendTarget::Start(start),
            SetupStage::Flowing(sender) => SendTarget::Flow(sender),
            SetupStage::Over => SendTarget::Nothing,
        }
    }

    /// Called when the sending side is dropped without a message: the request consists of its head
    /// only.
    pub(super) fn sender_dropped(&self) {
        let mut stage = self.stage.lock();
        match std::mem::replace(&mut *stage, SetupStage::Over) {
            SetupStage::Waiting(start) => *stage = SetupStage::Silent(start),
            // The sender is dropped with the side that would have used it, and the body ends.
            SetupStage::Flowing(_) | SetupStage::Over => {}
            SetupStage::Silent(start) => *stage = SetupStage::Silent(start),
        }
    }

    /// Called by the receiving side with its first request: returns the future response, unless the
    /// sending side has started the call.
    pub(super) fn first_to_receive(&self) -> Option<ResponseFuture> {
        let mut stage = self.stage.lock();
        let (start, next, body) = match std::mem::replace(&mut *stage, SetupStage::Over) {
            SetupStage::Waiting(start) => {
                let (sender, body) = Upload::flowing();
                (start, SetupStage::Flowing(sender), body)
            }
            SetupStage::Silent(start) => (start, SetupStage::Over, Upload::Ended),
            begun @ (SetupStage::Flowing(_) | SetupStage::Over) => {
                *stage = begun;
                return None;
            }
        };
        *stage = next;
        drop(stage);
        Some(driven(start.call(body)))
    }

    /// Called when the receiving side is dropped.
    pub(super) fn receiver_dropped(&self) {
        drop(self.replace(SetupStage::Over));
    }

    /// The caller drops the previous stage, outside of the lock.
    fn replace(&self, next: SetupStage) -> SetupStage {
        std::mem::replace(&mut *self.stage.lock(), next)
    }
}

impl PendingCall {
    /// Starts a call whose only message is this frame. When this returns, the call is sent, or a
    /// task drives it.
    pub(super) async fn whole(self, frame: Bytes) -> ResponseFuture {
        let at_once = self.channel.ready_endpoints() > 0;
        let mut answer = self.call(Upload::whole(frame));
        if !at_once {
            return driven(answer);
        }
        match poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx))).await {
            Poll::Ready(result) => Box::pin(future::ready(result)),
            Poll::Pending => answer,
        }
    }

    /// Starts a call whose first message is this frame; later ones go to the sender.
    pub(super) fn flowing(self, frame: Bytes) -> (ResponseFuture, mpsc::Sender<Piece>) {
        let (sender, body) = Upload::flowing();
        let first = sender.try_send(Piece::Message { frame, last: false });
        debug_assert!(first.is_ok(), "a new body has room for one message");
        (driven(self.call(body)), sender)
    }

    fn call(mut self, body: Upload) -> ResponseFuture {
        match self.head.with(body) {
            Ok(request) => self.channel.call(request),
            Err(failure) => Box::pin(future::ready(Ok(failure.into_response()))),
        }
    }
}

/// Drives a response in a task of its own, which ends when the result is dropped.
fn driven(answer: ResponseFuture) -> ResponseFuture {
    Box::pin(Driven(tokio::spawn(answer)))
}

struct Driven(JoinHandle<CallResult>);

impl Future for Driven {
    type Output = CallResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CallResult> {
        match ready!(Pin::new(&mut self.0).poll(cx)) {
            Ok(result) => Poll::Ready(result),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // Only this struct aborts the task, and only when dropped: the runtime has stopped
                // it.
                Err(_) => {
                    let why = Failure::new(Code::Cancelled, "the runtime is shutting down", None);
                    Poll::Ready(Ok(why.into_response()))
                }
            },
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.abort();
    }
}
