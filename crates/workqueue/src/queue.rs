//! The queue as its users see it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::Hash;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::builder::Builder;
use crate::item::Item;
use crate::shared::Shared;
use crate::take::Take;

/// How often client-go brings the metrics of work in progress up to date.
const METRICS_PERIOD: Duration = Duration::from_millis(500);

/// A queue of keys that need work. Clones are handles on the same queue.
///
/// - A key that is added several times before it is taken is handed out once.
/// - A key is never held by two workers. One that is added while a worker holds it is handed out again after that.
/// - Higher priorities come first, but lower ones never starve; within a priority keys come in the order in which they were
///   added, or groups of them by turns ([`Builder::fair_by`]).
/// - Nothing that adds waits or blocks: a queue is bounded by the number of distinct keys.
/// - There is no task behind it. Delays are kept by those who wait in [`take`](Self::take); while nobody does, a delayed
///   key that is due is found by the next call.
///
/// Delays need a tokio runtime with its timer enabled around `take`; everything else runs anywhere.
pub struct WorkQueue<K> {
    shared: Arc<Shared<K>>,
}

/// How a key is added, beyond [`WorkQueue::add`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// Not before this time has passed; zero is now.
    pub after: Duration,
    /// Not before the limiter allows it. Together with `after`, the shorter of both holds.
    pub rate_limited: bool,
    /// Higher is sooner. A key that waits already is moved up by a higher priority, to the end of those that have it, and
    /// never down.
    pub priority: i32,
}

impl<K: Eq + Hash + Clone + Send + Sync + 'static> WorkQueue<K> {
    /// A queue without a name and with every default of [`Builder`].
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A queue with choices.
    pub fn builder() -> Builder<K> {
        Builder::new()
    }

    /// There is work on this key. Ignored after a shutdown, as every kind of add is.
    pub fn add(&self, key: K) {
        self.shared.add(key, 0);
    }

    /// There is work on all of these keys; cheaper than one by one.
    pub fn add_all(&self, keys: impl IntoIterator<Item = K>) {
        self.shared.add_all(keys, 0);
    }

    /// There is work on this key, with a priority, or later.
    pub fn add_with(&self, key: K, options: AddOptions) {
        let AddOptions { after, rate_limited, priority } = options;
        let wait = match rate_limited {
            false => after,
            true if after.is_zero() => self.shared.limiter.when(&key),
            true => self.shared.limiter.when(&key).min(after),
        };
        if rate_limited || !after.is_zero() {
            self.later(key, wait, priority);
        } else {
            self.shared.add(key, priority);
        }
    }

    /// There will be work on this key after `delay`. If it is already delayed, the earlier time holds.
    ///
    /// An [`add`](Self::add) in the meantime does not cancel it, unless the queue was built so
    /// ([`Builder::earliest_wins`]). A shutdown does.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.later(key, delay, 0);
    }

    /// Like [`add_after`](Self::add_after), but this time holds, be it earlier or later than the one before.
    pub fn replace_after(&self, key: K, delay: Duration) {
        self.shared.delay(key, delay, 0, true);
    }

    /// Takes back the delayed add of this key. False when there is none; work that is already due is not taken back.
    pub fn cancel_after(&self, key: &K) -> bool {
        self.shared.cancel(key)
    }

    /// There will be work on this key when the limiter allows it. Each call counts as a failure of the key, until
    /// [`forget`](Self::forget).
    pub fn add_rate_limited(&self, key: K) {
        self.add_with(key, AddOptions { rate_limited: true, ..AddOptions::default() });
    }

    /// The key no longer fails: its next rate-limited add waits the shortest time. This clears the limiter only; what is
    /// queued or delayed stays so.
    pub fn forget(&self, key: &K) {
        self.shared.limiter.forget(key);
    }

    /// How often the key has been added rate-limited since it was last forgotten.
    pub fn requeues(&self, key: &K) -> u32 {
        self.shared.limiter.requeues(key)
    }

    /// How many keys could be taken now. Keys that are held are not among them, not even those that were added again.
    pub fn len(&self) -> usize {
        self.shared.counts().0
    }

    /// Whether no key could be taken now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many delayed adds are pending.
    pub fn delayed(&self) -> usize {
        self.shared.counts().1
    }

    /// Waits for a key to work on. `None` means that the queue was shut down and is empty: there is nothing left to do.
    ///
    /// Cancel-safe: dropping the future loses no key. Whoever waits longest is served first.
    pub fn take(&self) -> Take<'_, K> {
        Take::new(&self.shared)
    }

    /// Takes a key if there is one now.
    pub fn try_take(&self) -> Option<Item<'_, K>> {
        let taken = self.shared.try_take()?;
        Some(Item::new(taken, &self.shared))
    }

    /// Accepts nothing more and forgets what is delayed. What was accepted is still handed out, also keys that go back
    /// into the queue because they were added while a worker held them; then `take` returns `None`.
    ///
    /// Ends every [`shut_down_with_drain`](Self::shut_down_with_drain) that is still waiting.
    pub fn shut_down(&self) {
        self.shared.stop(false);
    }

    /// Shuts down and waits until all that was accepted has been taken and is done.
    ///
    /// It needs workers that go on taking: without, it ends only with [`shut_down`](Self::shut_down). Dropping the future
    /// ends the wait, not the shutdown.
    pub async fn shut_down_with_drain(&self) {
        self.shared.stop(true);
        poll_fn(|context| match self.shared.look_for_drain(context.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Whether the queue was shut down.
    pub fn is_shutting_down(&self) -> bool {
        self.shared.is_stopping()
    }

    /// Brings the two metrics up to date that change while nothing happens: `workqueue_unfinished_work_seconds` and
    /// `workqueue_longest_running_processor_seconds`. Does nothing without a name or after a shutdown.
    ///
    /// Call it before a scrape, or let [`keep_metrics_fresh`](Self::keep_metrics_fresh) call it.
    pub fn refresh_metrics(&self) {
        self.shared.refresh();
    }

    /// Calls [`refresh_metrics`](Self::refresh_metrics) every 500 ms. Whoever polls the future owns it: spawn it where
    /// the workers are spawned, or drop it to stop. It ends by itself within a period after the shutdown, or after the
    /// last handle is gone, which it does not keep alive.
    pub fn keep_metrics_fresh(&self) -> impl Future<Output = ()> + Send + 'static {
        let queue = Arc::downgrade(&self.shared);
        async move {
            loop {
                tokio::time::sleep(METRICS_PERIOD).await;
                match queue.upgrade() {
                    Some(queue) if !queue.is_stopping() => queue.refresh(),
                    _ => return,
                }
            }
        }
    }

    fn later(&self, key: K, delay: Duration, priority: i32) {
        self.shared.retried();
        if delay.is_zero() {
            self.shared.add(key, priority);
        } else {
            self.shared.delay(key, delay, priority, false);
        }
    }
}

impl<K: Eq + Hash + Clone + Send + Sync + 'static> Builder<K> {
    /// Builds the queue.
    pub fn build(self) -> WorkQueue<K> {
        WorkQueue { shared: Arc::new(self.into_shared()) }
    }
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Eq + Hash + Clone + Send + Sync + 'static> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").finish_non_exhaustive()
    }
}
