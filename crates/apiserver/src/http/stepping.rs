//! A stream that is produced step by step: most steps run in place, and only those that may wait
//! are futures.
//!
//! A future needs memory for everything that it may ever hold, and an allocation of its own; nearly
//! all steps need neither. This module does not know the steps.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::body::Cut;
use super::pieces::Pieces;

/// The next step of a stream.
#[derive(Debug)]
pub(super) enum Step<A> {
    /// Yields an item.
    Write(Result<Pieces, Cut>),
    /// Runs an action that may wait.
    Run(A),
    /// Waits: the task is woken when there is something to do.
    Wait,
    /// Lets other tasks have their turn.
    Yield,
    /// Ends the stream.
    End,
}

/// A producer that advances step by step.
pub(super) trait Stepwise: Sized + Send + Unpin + 'static {
    /// An action that may wait.
    type Action: Send;

    /// Returns the next step. If that is [`Step::Wait`], the task of `context` is woken when there
    /// is another.
    fn step(&mut self, context: &mut Context<'_>) -> Step<Self::Action>;

    /// Runs an action; the next step is requested when it completes.
    fn run(&mut self, action: Self::Action) -> impl Future<Output = ()> + Send;
}

/// The stream of the items of all steps.
pub(super) enum StepStream<W> {
    /// Between two steps.
    Idle(W),
    /// Running an action.
    Running(Pin<Box<dyn Future<Output = W> + Send>>),
    /// After the last step.
    Ended,
}

impl<W: Stepwise> Stream for StepStream<W> {
    type Item = Result<Pieces, Cut>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            match this {
                Self::Idle(worker) => match worker.step(context) {
                    Step::Write(write) => return Poll::Ready(Some(write)),
                    Step::Wait => return Poll::Pending,
                    Step::Yield => {
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Step::End => *this = Self::Ended,
                    Step::Run(action) => {
                        let Self::Idle(mut worker) = std::mem::replace(this, Self::Ended) else {
                            continue;
                        };
                        *this = Self::Running(Box::pin(async move {
                            worker.run(action).await;
                            worker
                        }));
                    }
                },
                Self::Running(action) => *this = Self::Idle(ready!(action.as_mut().poll(context))),
                Self::Ended => return Poll::Ready(None),
            }
        }
    }
}
