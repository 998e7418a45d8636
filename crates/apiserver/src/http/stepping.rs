//! A stream that is made step by step: what can be done in place is, and only what may take a while is a future.
//!
//! A future costs room for everything it may ever hold, and a place of its own; nearly all steps need neither. It does not know
//! what the steps are.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::body::Cut;
use super::pieces::Pieces;

/// What is done next.
#[derive(Debug)]
pub(super) enum Step<A> {
    /// This is written.
    Write(Result<Pieces, Cut>),
    /// Something that may take a while.
    Act(A),
    /// Nothing: the task is woken when there is something to do.
    Wait,
    /// Nothing any more.
    End,
}

/// What can be done step by step.
pub(super) trait Stepwise: Sized + Send + Unpin + 'static {
    /// What may take a while.
    type Act: Send;

    /// What to do next. When that is to wait, the task is woken when there is something else to do.
    fn step(&mut self, context: &mut Context<'_>) -> Step<Self::Act>;

    /// Does what may take a while. It is asked for the next step when that is done.
    fn act(&mut self, act: Self::Act) -> impl Future<Output = ()> + Send;
}

/// The stream of what is written in all steps.
pub(super) enum Stepping<W> {
    /// Between two steps.
    Resting(W),
    /// In one that takes a while.
    Acting(Pin<Box<dyn Future<Output = W> + Send>>),
    /// Behind the last.
    Ended,
}

impl<W: Stepwise> Stream for Stepping<W> {
    type Item = Result<Pieces, Cut>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            match this {
                Self::Resting(worker) => match worker.step(context) {
                    Step::Write(write) => return Poll::Ready(Some(write)),
                    Step::Wait => return Poll::Pending,
                    Step::End => *this = Self::Ended,
                    Step::Act(act) => {
                        let Self::Resting(mut worker) = std::mem::replace(this, Self::Ended) else {
                            continue;
                        };
                        *this = Self::Acting(Box::pin(async move {
                            worker.act(act).await;
                            worker
                        }));
                    }
                },
                Self::Acting(act) => *this = Self::Resting(ready!(act.as_mut().poll(context))),
                Self::Ended => return Poll::Ready(None),
            }
        }
    }
}
