//! The queue that handles, items and waiting tasks share: the state machine and the waiters, behind
//! one lock.
//!
//! All public methods call in here. It wakes tasks and drops keys and notes only after it has
//! released the lock, and it reads the clock only if a delay or a metric needs it. It owns no task:
//! a task that waits in [`SharedQueue::poll_take`] keeps the timer.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::task::Waker;
use std::time::Duration;

use hashbrown::DefaultHashBuilder;

use crate::clock::Clock;
use crate::entries::Id;
use crate::limiter::RateLimiter;
use crate::lock::{Lock, Locked};
use crate::metrics::QueueMetrics;
use crate::note::Note;
use crate::snapshot::QueueSnapshot;
use crate::state::{AddRequest, QueueState, Taken};
use crate::waiters::{Ticket, Waiters, Wakes};

/// Returns the group of a key as a number; groups with the same number share their turns.
pub(crate) type GroupOf<K> = Box<dyn Fn(&K) -> u64 + Send + Sync>;

/// The number of keys that are added under one lock. Workers get the lock in between.
const BATCH: usize = 64;

pub(crate) struct SharedQueue<K, N = ()> {
    inner: Lock<Inner<K, N>>,
    hasher: DefaultHashBuilder,
    group_of: Option<GroupOf<K>>,
    pub(crate) limiter: Box<dyn RateLimiter<K>>,
    meter: Option<QueueMetrics>,
    clock: Clock,
}

struct Inner<K, N> {
    state: QueueState<K, N>,
    waiters: Waiters,
    /// Set by a shutdown with drain. A plain shutdown clears it.
    draining: bool,
}

/// The result of looking up a key.
pub(crate) enum TakeResult<K, N> {
    Taken(Taken<K, N>),
    /// No key, and none will come.
    Closed,
    /// No key yet: the waker will be called. With an alarm, this task is the timekeeper and has to
    /// look again at that time.
    Wait {
        alarm: Option<u64>,
    },
}

impl<K: Eq + Hash + Clone, N: Note> SharedQueue<K, N> {
    pub(crate) fn new(
        state: QueueState<K, N>,
        limiter: Box<dyn RateLimiter<K>>,
        group_of: Option<GroupOf<K>>,
        name: Option<&str>,
    ) -> Self {
        let inner = Inner { state, waiters: Waiters::default(), draining: false };
        Self {
            inner: Lock::new(inner),
            hasher: DefaultHashBuilder::default(),
            group_of,
            limiter,
            meter: name.map(QueueMetrics::new),
            clock: Clock::default(),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn add(&self, key: K, priority: i32, mut note: N) {
        let request = self.add_request(&key, priority);
        let mut wakes = Wakes::default();
        let mut inner = self.inner.lock();
        let (mut readied, mut new) = self.advance(&mut inner, request.now);
        let added = inner.state.add_noted(key, &mut note, request);
        readied += usize::from(added.readied);
        new += u64::from(added.is_new);
        inner.waiters.wake(readied, &mut wakes);
        self.release(inner, wakes, new);
    }

    pub(crate) fn add_all(&self, keys: impl IntoIterator<Item = K>, priority: i32) {
        let mut keys = keys.into_iter().map(|key| (self.add_request(&key, priority), key)).peekable();
        while keys.peek().is_some() {
            let batch: Vec<_> = keys.by_ref().take(BATCH).collect();
            let mut unused = Vec::new();
            let mut wakes = Wakes::default();
            let mut inner = self.inner.lock();
            let (mut readied, mut new) = self.advance(&mut inner, batch[0].0.now);
            for (request, key) in batch {
                let mut note = N::default();
                let added = inner.state.add_noted(key, &mut note, request);
                unused.extend(added.unused);
                readied += usize::from(added.readied);
                new += u64::from(added.is_new);
            }
            inner.waiters.wake(readied, &mut wakes);
            self.release(inner, wakes, new);
        }
    }

    pub(crate) fn delay(&self, key: K, delay: Duration, priority: i32, mut note: N, replace: bool) {
        let mut request = self.add_request(&key, priority);
        if request.now == 0 {
            request.now = self.clock.now();
        }
        let at = Clock::after(request.now, delay);
        let mut wakes = Wakes::default();
        let mut inner = self.inner.lock();
        let unused = inner.state.delay_noted(key, &mut note, request, at, replace);
        if inner.state.has_delays() {
            inner.waiters.is_due_at(at, &mut wakes);
        }
        self.release(inner, wakes, 0);
        drop(unused);
    }

    pub(crate) fn cancel(&self, key: &K) -> bool {
        let hash = self.hasher.hash_one(key);
        let mut inner = self.inner.lock();
        let (cancelled, unused) = inner.state.cancel(hash, key);
        self.release(inner, Wakes::default(), 0);
        drop(unused);
        cancelled
    }

    /// Takes a key, or registers the task as a waiter if there is none. `ticket` identifies the
    /// waiter; it is `None` while the task does not wait.
    #[inline]
    pub(crate) fn poll_take(&self, ticket: &mut Option<Ticket>, waker: &Waker) -> TakeResult<K, N> {
        let now = self.time();
        let mut wakes = Wakes::default();
        let mut locked = self.inner.lock();
        let (readied, new) = self.advance(&mut locked, now);
        let inner = &mut *locked;
        let result = if let Some(taken) = inner.state.take(now) {
            let was_woken = ticket.take().is_some_and(|it| inner.waiters.leave(it));
            // A waiter that was woken for an earlier key leaves all of these keys to others.
            let others = if was_woken { readied } else { readied.saturating_sub(1) };
            inner.waiters.wake(others, &mut wakes);
            if inner.state.has_delays() {
                inner.waiters.appoint(&mut wakes);
            }
            TakeResult::Taken(taken)
        } else if inner.state.is_stopping() {
            *ticket = None;
            TakeResult::Closed
        } else {
            let mine = inner.waiters.wait(*ticket, waker);
            *ticket = Some(mine);
            let alarm = inner.state.next_due().filter(|at| inner.waiters.keep_time(mine, *at));
            if !inner.state.has_delays() {
                inner.waiters.dismiss();
            }
            TakeResult::Wait { alarm }
        };
        self.release(locked, wakes, new);
        if let (Some(meter), TakeResult::Taken(taken)) = (&self.meter, &result) {
            meter.taken(now.saturating_sub(taken.waiting_since));
        }
        result
    }

    /// Takes a key if one is ready.
    pub(crate) fn try_take(&self) -> Option<Taken<K, N>> {
        let now = self.time();
        let mut wakes = Wakes::default();
        let mut inner = self.inner.lock();
        let (readied, new) = self.advance(&mut inner, now);
        let taken = inner.state.take(now);
        inner.waiters.wake(readied.saturating_sub(1), &mut wakes);
        self.release(inner, wakes, new);
        if let (Some(meter), Some(taken)) = (&self.meter, &taken) {
            meter.taken(now.saturating_sub(taken.waiting_since));
        }
        taken
    }

    /// Removes a waiter that gives up.
    pub(crate) fn abandon(&self, ticket: Ticket) {
        let mut wakes = Wakes::default();
        let mut inner = self.inner.lock();
        let was_woken = inner.waiters.leave(ticket);
        if was_woken && inner.state.ready() > 0 {
            inner.waiters.wake(1, &mut wakes);
        }
        if inner.state.has_delays() {
            inner.waiters.appoint(&mut wakes);
        }
        self.release(inner, wakes, 0);
    }

    pub(crate) fn finish(&self, id: Id) {
        let now = self.time();
        let mut wakes = Wakes::default();
        let mut inner = self.inner.lock();
        // Keys that became due before this moment come before a key that returns to the queue now.
        let (readied, new) = if inner.state.is_dirty(id) { self.advance(&mut inner, now) } else { (0, 0) };
        let finished = inner.state.finish(id);
        inner.waiters.wake(readied + usize::from(finished.readied), &mut wakes);
        if inner.state.is_drained() {
            inner.waiters.wake_drainers(&mut wakes);
        }
        self.release(inner, wakes, new);
        if let Some(meter) = &self.meter {
            meter.finished(now.saturating_sub(finished.held_since));
        }
        drop(finished.unused);
    }

    /// Returns the number of ready keys, and the number of delayed adds.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let mut wakes = Wakes::default();
        let mut inner = self.inner.lock();
        let (readied, new) = self.advance(&mut inner, 0);
        inner.waiters.wake(readied, &mut wakes);
        let counts = (inner.state.ready(), inner.state.delayed());
        self.release(inner, wakes, new);
        counts
    }

    /// Returns the counts, and at most `limit` keys.
    pub(crate) fn snapshot(&self, limit: usize) -> QueueSnapshot<K, N>
    where
        N: Clone,
    {
        let now = self.clock.now();
        let mut wakes = Wakes::default();
        let mut inner = self.inner.lock();
        let (readied, new) = self.advance(&mut inner, now);
        inner.waiters.wake(readied, &mut wakes);
        let mut snapshot = inner.state.snapshot(limit, now);
        self.release(inner, wakes, new);
        // The limiter has a lock of its own.
        snapshot.keys.iter_mut().for_each(|it| it.requeues = self.limiter.requeues(&it.key));
        snapshot
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.inner.lock().state.is_stopping()
    }

    pub(crate) fn stop(&self, draining: bool) {
        let mut wakes = Wakes::default();
        let mut inner = self.inner.lock();
        inner.draining = draining;
        let unused = inner.state.stop();
        inner.waiters.wake_all(&mut wakes);
        inner.waiters.wake_drainers(&mut wakes);
        self.release(inner, wakes, 0);
        drop(unused);
    }

    /// Returns true if the drain is over, complete or ended by a plain shutdown; otherwise the
    /// waker will be called.
    pub(crate) fn poll_drain(&self, waker: &Waker) -> bool {
        let mut inner = self.inner.lock();
        let over = inner.state.is_drained() || !inner.draining;
        if !over {
            inner.waiters.wait_for_drain(waker);
        }
        over
    }

    pub(crate) fn retried(&self) {
        if let Some(meter) = &self.meter
            && !self.is_stopping()
        {
            meter.retried();
        }
    }

    /// Updates the metrics that change with time alone.
    pub(crate) fn refresh(&self) {
        let Some(meter) = &self.meter else { return };
        let now = self.clock.now();
        let mut wakes = Wakes::default();
        let mut inner = self.inner.lock();
        if inner.state.is_stopping() {
            return;
        }
        let (readied, new) = self.advance(&mut inner, now);
        inner.waiters.wake(readied, &mut wakes);
        let (all, longest) = inner.state.unfinished(now);
        self.release(inner, wakes, new);
        meter.unfinished(all, longest);
    }

    fn add_request(&self, key: &K, priority: i32) -> AddRequest {
        let group = self.group_of.as_ref().map(|group_of| group_of(key));
        AddRequest { hash: self.hasher.hash_one(key), group, priority, now: self.time() }
    }

    /// Returns the time for queues with metrics, and zero for others, which need it only if
    /// something is delayed.
    fn time(&self) -> u64 {
        if self.meter.is_some() { self.clock.now() } else { 0 }
    }

    /// Turns the delays that are due into adds; see [`QueueState::advance`]. If `now` is zero, the
    /// clock is read, if needed.
    #[inline]
    fn advance(&self, inner: &mut Inner<K, N>, now: u64) -> (usize, u64) {
        if !inner.state.has_delays() {
            return (0, 0);
        }
        inner.state.advance(if now == 0 { self.clock.now() } else { now })
    }

    /// Releases the lock, and then wakes tasks, updates metrics and drops unneeded notes. `new` is
    /// the number of keys that have outstanding work now and had none before.
    #[inline]
    fn release(&self, mut inner: Locked<'_, Inner<K, N>>, wakes: Wakes, new: u64) {
        let discarded = inner.state.take_discarded_notes();
        match &self.meter {
            None => drop(inner),
            Some(meter) => release_and_report(meter, inner, new),
        }
        wakes.wake();
        drop(discarded);
    }
}

/// Releases the lock and updates the metrics.
#[cold]
fn release_and_report<K: Eq + Clone, N: Note>(
    meter: &QueueMetrics,
    mut inner: Locked<'_, Inner<K, N>>,
    new: u64,
) {
    let changes = inner.state.depth_changes();
    drop(inner);
    meter.added(new);
    changes.into_iter().for_each(|(priority, by)| meter.deepened(priority, by));
}

impl<K, N> fmt::Debug for SharedQueue<K, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedQueue").finish_non_exhaustive()
    }
}
