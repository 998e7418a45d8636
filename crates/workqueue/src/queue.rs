//! The public queue type.

use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use crate::builder::WorkQueueBuilder;
use crate::item::Item;
use crate::note::Note;
use crate::shared_queue::SharedQueue;
use crate::snapshot::QueueSnapshot;
use crate::take::Take;

/// The interval at which client-go updates the metrics of work in progress:
/// `defaultUnfinishedWorkUpdatePeriod` in `k8s.io/client-go v0.36.4 util/workqueue/queue.go`.
const METRICS_PERIOD: Duration = Duration::from_millis(500);

/// A queue of keys that need work. Clones are handles to the same queue.
///
/// - A key that is added several times before it is taken is handed out once.
/// - A key is never held by two workers. If it is added while a worker holds it, it is handed out
///   again after that.
/// - Higher priorities come first, but lower ones never starve; within a priority, keys are taken
///   in the order in which they were added, or groups of them in turns
///   ([`WorkQueueBuilder::fair_by`]).
/// - Adding never waits or blocks: a queue is bounded by the number of distinct keys.
/// - There is no background task. The tasks that wait in [`take`](Self::take) also wait for the
///   delays; while none does, the next add, take or [`len`](Self::len) finds the delayed keys that
///   are due.
///
/// Delays need a tokio runtime with its timer enabled around `take`; everything else runs anywhere.
///
/// ```
/// use dogwatch_workqueue::WorkQueue;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = WorkQueue::new();
/// queue.add("web");
/// queue.add("api");
/// queue.add("web"); // already waiting
/// queue.shut_down();
///
/// let mut taken = Vec::new();
/// while let Some(item) = queue.take().await {
///     taken.push(*item.key());
/// }
/// assert_eq!(taken, ["web", "api"]);
/// # Ok(())
/// # }
/// ```
///
/// `N` is the type of the [notes](Note) that travel with the keys; by default there are none.
pub struct WorkQueue<K, N = ()> {
    shared: Arc<SharedQueue<K, N>>,
}

/// A handle on a queue that does not keep it alive.
///
/// ```
/// use dogwatch_workqueue::WorkQueue;
///
/// let queue = WorkQueue::new();
/// queue.add("web");
/// let weak = queue.downgrade();
/// assert_eq!(weak.upgrade().map(|it| it.len()), Some(1));
/// drop(queue);
/// assert!(weak.upgrade().is_none());
/// ```
pub struct WeakWorkQueue<K, N = ()> {
    shared: Weak<SharedQueue<K, N>>,
}

/// The options of [`WorkQueue::add_with`].
///
/// ```
/// use dogwatch_workqueue::{AddOptions, WorkQueue};
///
/// let queue = WorkQueue::new();
/// queue.add("ordinary");
/// queue.add_with("urgent", AddOptions { priority: 10, ..AddOptions::default() });
/// assert_eq!(*queue.try_take().expect("two keys are ready").key(), "urgent");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// The delay of the add; zero adds the key now.
    pub after: Duration,
    /// Set to wait until the limiter allows the add. Together with `after`, the shorter of both
    /// applies.
    pub rate_limited: bool,
    /// Higher is sooner. A higher priority moves a key that already waits up, to the end of its new
    /// priority; a lower one never moves it down.
    pub priority: i32,
}

impl<K: Eq + Hash + Clone + Send + Sync + 'static> WorkQueue<K> {
    /// Creates a queue without a name and with every default of [`WorkQueueBuilder`].
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder.
    pub fn builder() -> WorkQueueBuilder<K> {
        WorkQueueBuilder::new()
    }
}

impl<K: Eq + Hash + Clone + Send + Sync + 'static, N: Note> WorkQueue<K, N> {
    /// Adds a key that needs work. Ignored after a shutdown, like every kind of add.
    pub fn add(&self, key: K) {
        self.shared.add(key, 0, N::default());
    }

    /// Adds several keys; cheaper than adding them one by one.
    pub fn add_all(&self, keys: impl IntoIterator<Item = K>) {
        self.shared.add_all(keys, 0);
    }

    /// Adds a key with a priority, a delay or a rate limit.
    pub fn add_with(&self, key: K, options: AddOptions) {
        self.add_with_note(key, options, N::default());
    }

    /// Adds a key with a note for the worker that takes it, in a queue that was built with
    /// [`WorkQueueBuilder::build_with_notes`].
    pub fn add_with_note(&self, key: K, options: AddOptions, note: N) {
        let AddOptions { after, rate_limited, priority } = options;
        let wait = match rate_limited {
            false => after,
            true if after.is_zero() => self.shared.limiter.when(&key),
            true => self.shared.limiter.when(&key).min(after),
        };
        if rate_limited || !after.is_zero() {
            self.later(key, wait, priority, note);
        } else {
            self.shared.add(key, priority, note);
        }
    }

    /// Adds a key after `delay`. If the key is already delayed, the earlier time applies.
    ///
    /// An [`add`](Self::add) in the meantime does not cancel the delay, unless the queue was built
    /// with [`WorkQueueBuilder::earliest_wins`]. A shutdown does.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.later(key, delay, 0, N::default());
    }

    /// Like [`add_after`](Self::add_after), but replaces an existing delay, earlier or later.
    pub fn replace_after(&self, key: K, delay: Duration) {
        self.replace_after_with_note(key, delay, N::default());
    }

    /// Like [`replace_after`](Self::replace_after), with a note, which replaces that of the
    /// existing delay.
    pub fn replace_after_with_note(&self, key: K, delay: Duration, note: N) {
        self.shared.delay(key, delay, 0, note, true);
    }

    /// Cancels the delayed add of this key. Returns false if there is none; work that is already
    /// due is not cancelled.
    pub fn cancel_after(&self, key: &K) -> bool {
        self.shared.cancel(key)
    }

    /// Adds a key when the limiter allows it. Each call counts as a failure of the key, until
    /// [`forget`](Self::forget).
    pub fn add_rate_limited(&self, key: K) {
        self.add_with(key, AddOptions { rate_limited: true, ..AddOptions::default() });
    }

    /// Resets the failures of a key: its next rate-limited add waits the shortest time. This
    /// affects only the limiter; queued and delayed adds stay.
    pub fn forget(&self, key: &K) {
        self.shared.limiter.forget(key);
    }

    /// Returns the number of rate-limited adds of the key since it was last forgotten.
    pub fn requeues(&self, key: &K) -> u32 {
        self.shared.limiter.requeues(key)
    }

    /// Returns the number of keys that can be taken now. Held keys are not counted, even if they
    /// were added again.
    pub fn len(&self) -> usize {
        self.shared.counts().0
    }

    /// Returns true if no key can be taken now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of pending delayed adds.
    pub fn delayed(&self) -> usize {
        self.shared.counts().1
    }

    /// Returns the counts of the queue, and at most `limit` of the keys that workers hold or that
    /// are delayed, for diagnostics.
    ///
    /// It copies these keys and their notes under the lock of the queue, and is meant to be called
    /// a few times a second with a limit of some dozens.
    pub fn snapshot(&self, limit: usize) -> QueueSnapshot<K, N>
    where
        N: Clone,
    {
        self.shared.snapshot(limit)
    }

    /// Waits for a key to work on. Returns `None` when the queue was shut down and is empty. The
    /// task that has waited longest is served first.
    ///
    /// # Cancel safety
    /// This method is cancel safe: dropping the future loses no key.
    pub fn take(&self) -> Take<'_, K, N> {
        Take::new(&self.shared)
    }

    /// Takes a key if one is ready now.
    pub fn try_take(&self) -> Option<Item<'_, K, N>> {
        let taken = self.shared.try_take()?;
        Some(Item::new(taken, &self.shared))
    }

    /// Stops accepting keys and drops delayed adds. Accepted keys are still handed out, including
    /// keys that return to the queue because they were added while a worker held them; then `take`
    /// returns `None`.
    ///
    /// Ends every [`shut_down_with_drain`](Self::shut_down_with_drain) that is still waiting.
    pub fn shut_down(&self) {
        self.shared.stop(false);
    }

    /// Shuts down and waits until all accepted keys have been taken and are done.
    ///
    /// It needs workers that keep taking keys: without them, only [`shut_down`](Self::shut_down)
    /// ends the wait. Dropping the future ends the wait, not the shutdown.
    pub async fn shut_down_with_drain(&self) {
        self.shared.stop(true);
        poll_fn(|context| match self.shared.poll_drain(context.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// Returns true if the queue was shut down.
    pub fn is_shutting_down(&self) -> bool {
        self.shared.is_stopping()
    }

    /// Updates the two metrics that change with time alone: `workqueue_unfinished_work_seconds` and
    /// `workqueue_longest_running_processor_seconds`. Has no effect without a name or after a
    /// shutdown.
    ///
    /// Call it before a scrape, or let [`keep_metrics_fresh`](Self::keep_metrics_fresh) call it.
    pub fn refresh_metrics(&self) {
        self.shared.refresh();
    }

    /// Calls [`refresh_metrics`](Self::refresh_metrics) every 500 ms. The caller owns the future:
    /// spawn it next to the workers, and drop it to stop. It completes within one period after the
    /// shutdown, or after the last queue handle is dropped, which it does not keep alive.
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

    fn later(&self, key: K, delay: Duration, priority: i32, note: N) {
        self.shared.retried();
        if delay.is_zero() {
            self.shared.add(key, priority, note);
        } else {
            self.shared.delay(key, delay, priority, note, false);
        }
    }
}

impl<K: Eq + Hash + Clone + Send + Sync + 'static> WorkQueueBuilder<K> {
    /// Builds the queue.
    pub fn build(self) -> WorkQueue<K> {
        self.build_with_notes()
    }

    /// Builds a queue whose keys have [notes](Note) of the type `N`.
    pub fn build_with_notes<N: Note>(self) -> WorkQueue<K, N> {
        WorkQueue { shared: Arc::new(self.into_shared()) }
    }
}

impl<K, N> WorkQueue<K, N> {
    /// Returns a handle that does not keep the queue alive.
    pub fn downgrade(&self) -> WeakWorkQueue<K, N> {
        WeakWorkQueue { shared: Arc::downgrade(&self.shared) }
    }
}

impl<K, N> WeakWorkQueue<K, N> {
    /// Returns the queue, if a handle on it is left.
    pub fn upgrade(&self) -> Option<WorkQueue<K, N>> {
        self.shared.upgrade().map(|shared| WorkQueue { shared })
    }
}

impl<K, N> Clone for WeakWorkQueue<K, N> {
    fn clone(&self) -> Self {
        Self { shared: Weak::clone(&self.shared) }
    }
}

impl<K, N> fmt::Debug for WeakWorkQueue<K, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakWorkQueue").finish_non_exhaustive()
    }
}

impl<K, N> Clone for WorkQueue<K, N> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Eq + Hash + Clone + Send + Sync + 'static> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, N> fmt::Debug for WorkQueue<K, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").finish_non_exhaustive()
    }
}
