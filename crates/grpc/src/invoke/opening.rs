//! The beginning of a call. Its two sides are apart and either may move first: whichever needs the call first begins it.
//!
//! A request whose only message is there (unary, and a stream of answers) is written in one go by the task that sends the message, and
//! its answer is driven by the task that reads it: there is no task between. A request that is sent little by little has one, since its caller
//! need not read while it sends.

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

type Answered = Result<Response<ResponseBody>, Infallible>;

/// The head of an answer, to come. Dropping it cancels the call.
pub(super) type Answer = Pin<Box<dyn Future<Output = Answered> + Send>>;

/// What the two sides of a call share.
pub(super) struct Opening {
    stage: Mutex<Stage>,
    /// Why our own side ended the call. It wins over whatever the answer says, which can only be that we went away.
    failure: OnceLock<StatusError>,
}

enum Stage {
    /// Nobody has begun.
    Waiting(Start),
    /// As `Waiting`, and the sending side is gone: nothing will be sent.
    Silent(Start),
    /// The receiving side has begun; messages go here.
    Flowing(mpsc::Sender<Piece>),
    /// The sending side has begun and has what it needs, or the receiving side is gone.
    Over,
}

/// A call that has not begun.
pub(super) struct Start {
    channel: KubeChannel,
    head: Head,
}

/// What the sending side finds.
pub(super) enum Found {
    /// It is the first, and begins the call.
    Start(Start),
    /// The call has begun, and takes messages.
    Flow(mpsc::Sender<Piece>),
    /// There is nobody to send to.
    Nothing,
}

impl Opening {
    pub(super) fn new(channel: KubeChannel, head: Head) -> Arc<Self> {
        let stage = Mutex::new(Stage::Waiting(Start { channel, head }));
        Arc::new(Self { stage, failure: OnceLock::new() })
    }

    /// A call that failed before it could begin.
    pub(super) fn failed(why: StatusError) -> Arc<Self> {
        let opening = Self { stage: Mutex::new(Stage::Over), failure: OnceLock::new() };
        opening.fail(why);
        Arc::new(opening)
    }

    /// Notes that our side ended the call, and why; the first reason stays.
    pub(super) fn fail(&self, why: StatusError) {
        let _ = self.failure.set(why);
    }

    pub(super) fn failure(&self) -> Option<&StatusError> {
        self.failure.get()
    }

    /// For the sending side, with its first message.
    pub(super) fn first_to_send(&self) -> Found {
        match self.replace(Stage::Over) {
            Stage::Waiting(start) | Stage::Silent(start) => Found::Start(start),
            Stage::Flowing(sender) => Found::Flow(sender),
            Stage::Over => Found::Nothing,
        }
    }

    /// For the sending side, when it goes without a message: the request is its head alone.
    pub(super) fn nothing_to_send(&self) {
        let mut stage = self.stage.lock();
        match std::mem::replace(&mut *stage, Stage::Over) {
            Stage::Waiting(start) => *stage = Stage::Silent(start),
            // The sender goes with the side that was to use it, and the body ends.
            Stage::Flowing(_) | Stage::Over => {}
            Stage::Silent(start) => *stage = Stage::Silent(start),
        }
    }

    /// For the receiving side, with its first question: the answer to come, unless the sending side has begun.
    pub(super) fn first_to_receive(&self) -> Option<Answer> {
        let mut stage = self.stage.lock();
        let (start, next, body) = match std::mem::replace(&mut *stage, Stage::Over) {
            Stage::Waiting(start) => {
                let (sender, body) = Upload::flowing();
                (start, Stage::Flowing(sender), body)
            }
            Stage::Silent(start) => (start, Stage::Over, Upload::Ended),
            begun @ (Stage::Flowing(_) | Stage::Over) => {
                *stage = begun;
                return None;
            }
        };
        *stage = next;
        drop(stage);
        Some(driven(start.call(body)))
    }

    /// For the receiving side, when it goes.
    pub(super) fn nobody_receives(&self) {
        drop(self.replace(Stage::Over));
    }

    /// What was there is dropped by the caller, outside of the lock.
    fn replace(&self, next: Stage) -> Stage {
        std::mem::replace(&mut *self.stage.lock(), next)
    }
}

impl Start {
    /// Begins a call whose only message is this frame. When this returns, it is on its way, or somebody drives it there.
    pub(super) async fn whole(self, frame: Bytes) -> Answer {
        let at_once = self.channel.ready_endpoints() > 0;
        let mut answer = self.call(Upload::whole(frame));
        if !at_once {
            return driven(answer);
        }
        match poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx))).await {
            Poll::Ready(answered) => Box::pin(future::ready(answered)),
            Poll::Pending => answer,
        }
    }

    /// Begins a call whose first message is this frame; those after it go to the sender.
    pub(super) fn flowing(self, frame: Bytes) -> (Answer, mpsc::Sender<Piece>) {
        let (sender, body) = Upload::flowing();
        let first = sender.try_send(Piece::Message { frame, last: false });
        debug_assert!(first.is_ok(), "a new body has room for one message");
        (driven(self.call(body)), sender)
    }

    fn call(mut self, body: Upload) -> Answer {
        match self.head.with(body) {
            Ok(request) => self.channel.call(request),
            Err(failure) => Box::pin(future::ready(Ok(failure.into_response()))),
        }
    }
}

/// An answer that comes nearer by itself, in a task that ends with whoever waits for it.
fn driven(answer: Answer) -> Answer {
    Box::pin(Driven(tokio::spawn(answer)))
}

struct Driven(JoinHandle<Answered>);

impl Future for Driven {
    type Output = Answered;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answered> {
        match ready!(Pin::new(&mut self.0).poll(cx)) {
            Ok(answered) => Poll::Ready(answered),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // Nobody but us could have stopped it, and we still wait: the runtime has.
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
