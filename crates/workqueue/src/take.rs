//! The future that waits for a key, and keeps the timer for the other waiters meanwhile.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::task::coop;
use tokio::time::Sleep;

use crate::item::Item;
use crate::note::Note;
use crate::shared_queue::{SharedQueue, TakeResult};
use crate::waiters::Ticket;

/// The future of [`WorkQueue::take`](crate::WorkQueue::take).
///
/// Dropping it at any time loses nothing: a key that it was woken for goes to another waiter. A
/// future that is kept but not polled may be the timekeeper of the others, and delay keys.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_workqueue::WorkQueue;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = WorkQueue::new();
/// // Nothing is lost when the wait is given up.
/// assert!(tokio::time::timeout(Duration::from_secs(1), queue.take()).await.is_err());
/// queue.add_after("web", Duration::from_secs(5));
/// let item = queue.take().await.expect("the queue is not shut down");
/// assert_eq!(*item.key(), "web");
/// # Ok(())
/// # }
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct Take<'a, K: Eq + Hash + Clone, N: Note = ()> {
    queue: &'a Arc<SharedQueue<K, N>>,
    /// The ticket of the waiter, while it waits.
    ticket: Option<Ticket>,
    /// Set while this future is the timekeeper.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'a, K: Eq + Hash + Clone, N: Note> Take<'a, K, N> {
    pub(crate) fn new(queue: &'a Arc<SharedQueue<K, N>>) -> Self {
        Self { queue, ticket: None, timer: None }
    }

    /// Resolves when the timer has reached `at`.
    fn poll_timer(&mut self, at: u64, context: &mut Context<'_>) -> Poll<()> {
        let alarm = self.queue.clock().alarm(at);
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(alarm)));
        if timer.deadline() != alarm {
            timer.as_mut().reset(alarm);
        }
        timer.as_mut().poll(context)
    }
}

impl<'a, K: Eq + Hash + Clone, N: Note> Future for Take<'a, K, N> {
    type Output = Option<Item<'a, K, N>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A worker that always finds a key has to yield to the other tasks of its thread now and
        // then.
        let budget = ready!(coop::poll_proceed(context));
        let this = &mut *self;
        loop {
            match this.queue.poll_take(&mut this.ticket, context.waker()) {
                TakeResult::Taken(taken) => {
                    budget.made_progress();
                    this.timer = None;
                    return Poll::Ready(Some(Item::new(taken, this.queue)));
                }
                TakeResult::Closed => {
                    budget.made_progress();
                    return Poll::Ready(None);
                }
                TakeResult::Wait { alarm: None } => {
                    this.timer = None;
                    return Poll::Pending;
                }
                TakeResult::Wait { alarm: Some(at) } => ready!(this.poll_timer(at, context)),
            }
        }
    }
}

impl<K: Eq + Hash + Clone, N: Note> Drop for Take<'_, K, N> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.queue.abandon(ticket);
        }
    }
}

impl<K: Eq + Hash + Clone, N: Note> fmt::Debug for Take<'_, K, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Take").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}
