//! The mailbox between an informer and one handler, with a policy for a handler that is slower than
//! the changes.
//!
//! The informer's task puts batches in, the handler's task takes them out, and they share nothing
//! else. The lock is held only to move pointers, never to merge, to wait or to call a handler.

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use dogwatch_core::Object;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::backlog::{Backlog, Batch, KeyHasher, Next, TakenChanges};
use crate::change::Change;
use crate::metrics::HandlerMetrics;
use crate::number_allocator::AllocatedNumber;
use crate::overflow::{Lag, Overflow};
use crate::stats::HandlerStats;

/// The number of mailboxes that the process has created.
static CREATED: AtomicU64 = AtomicU64::new(0);

/// The progress of a handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The handler has received the whole initial list.
    pub(crate) synced: bool,
    /// The handler is not called any more.
    pub(crate) ended: bool,
}

/// The existing objects, which a handler that is added late receives first. Built by the handler's
/// own task, since there may be many.
pub(crate) struct Replay<T> {
    /// The number of changes that `build` returns.
    pub(crate) len: usize,
    pub(crate) build: Box<dyn FnOnce() -> Vec<Change<T>> + Send>,
}

/// The mailbox of one handler.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    /// Unique in the process.
    id: u64,
    name: Arc<str>,
    /// The number that serves as its name, if the handler was not named.
    _number: Option<AllocatedNumber>,
    overflow: Overflow,
    hasher: KeyHasher,
    metrics: HandlerMetrics,
    /// Checked before each call, so that no call begins once `remove` has returned.
    removed: AtomicBool,
    panics: AtomicU64,
    progress: watch::Sender<Progress>,
    state: Mutex<State<T>>,
}

struct State<T> {
    backlog: Backlog<T>,
    /// The changes to deliver before the backlog, and since when they wait.
    replay: Option<(Replay<T>, Instant)>,
    /// The number of changes that the reader has taken and not finished.
    in_progress: usize,
    /// The number of changes that the reader has taken.
    delivered: u64,
    /// The sequence number after the initial list, once it is known.
    synced_at: Option<u64>,
    /// The sequence number after the last resync.
    resynced_to: u64,
    /// Set when no more changes will come.
    closed: bool,
    /// Set once a task calls the handler. A stream is read by its owner.
    served: bool,
    reader: Option<Waker>,
    /// The waker of the informer's task, while it waits for room.
    writer: Option<Waker>,
}

impl<T: Object> Mailbox<T> {
    pub(crate) fn new(
        name: Arc<str>,
        number: Option<AllocatedNumber>,
        overflow: Overflow,
        hasher: KeyHasher,
        metrics: HandlerMetrics,
    ) -> Self {
        Self {
            id: CREATED.fetch_add(1, Ordering::Relaxed),
            name,
            _number: number,
            overflow,
            hasher,
            metrics,
            removed: AtomicBool::new(false),
            panics: AtomicU64::new(0),
            progress: watch::Sender::new(Progress::default()),
            state: Mutex::new(State {
                backlog: Backlog::new(overflow == Overflow::Coalesce, 0),
                replay: None,
                in_progress: 0,
                delivered: 0,
                synced_at: None,
                resynced_to: 0,
                closed: false,
                served: false,
                reader: None,
                writer: None,
            }),
        }
    }

    /// Delivers the existing objects before all changes. Must be called before the first change is
    /// put in.
    pub(crate) fn replay(&self, replay: Replay<T>, since: Instant) {
        let mut state = self.state();
        state.backlog = Backlog::new(self.overflow == Overflow::Coalesce, replay.len);
        state.replay = Some((replay, since));
        wake(state, |it| &mut it.reader);
    }

    /// Puts a batch in and wakes the reader. A closed mailbox drops it.
    pub(crate) fn push(&self, batch: &Arc<Batch<T>>) {
        let mut state = self.state();
        if state.closed {
            return;
        }
        state.backlog.push(batch);
        let pending = state.pending();
        wake(state, |it| &mut it.reader);
        self.metrics.pending(pending);
    }

    /// Puts every object in again, unless the mailbox is full or the last resync is still pending:
    /// a handler that is slower than its resyncs would fall further behind with each of them.
    pub(crate) fn push_resync(&self, batch: &Arc<Batch<T>>) {
        if self.is_full() {
            return;
        }
        let mut state = self.state();
        if state.replay.is_some() || state.backlog.front_sequence() < state.resynced_to {
            return;
        }
        state.resynced_to = state.backlog.next_sequence() + batch.len() as u64;
        drop(state);
        self.push(batch);
    }

    /// Marks the initial list as complete: the handler is synced once it has processed everything
    /// that is in now. Must be called only once.
    pub(crate) fn initial_list_delivered(&self) {
        let mut state = self.state();
        state.synced_at = Some(state.backlog.next_sequence());
        wake(state, |it| &mut it.reader);
    }

    /// Records that a task calls the handler from now on: the handler ends with the task.
    pub(crate) fn begin_serving(&self) {
        self.state().served = true;
    }

    /// Takes up to `limit` changes, and marks those that were taken before as processed. Returns
    /// `false` if there will be no more.
    pub(crate) fn poll_take(
        &self,
        limit: usize,
        current: &mut TakenChanges<T>,
        cx: &mut Context<'_>,
    ) -> Poll<bool> {
        loop {
            let mut state = self.state();
            state.in_progress = 0;
            if self.is_removed() {
                return Poll::Ready(false);
            }
            if let Some((replay, since)) = state.replay.take() {
                state.in_progress = replay.len;
                drop(state);
                let batch = Batch::new((replay.build)(), since, self.hasher.clone());
                self.state().backlog.prepend(batch);
                continue;
            }
            if state.synced_at.is_some_and(|sequence| sequence <= state.backlog.front_sequence()) {
                state.synced_at = None;
                drop(state);
                self.progress.send_modify(|it| it.synced = true);
                continue;
            }
            let oldest = state.backlog.oldest();
            match state.backlog.next(limit, current) {
                Next::Taken => {
                    state.in_progress = current.changes().len();
                    state.delivered += state.in_progress as u64;
                    let pending = state.pending();
                    current.waiting = pending;
                    if self.has_room(pending) {
                        wake(state, |it| &mut it.writer);
                    } else {
                        drop(state);
                    }
                    self.metrics.taken(pending, oldest);
                    return Poll::Ready(true);
                }
                Next::Nothing if state.closed => return Poll::Ready(false),
                Next::Nothing => {
                    state.reader = Some(cx.waker().clone());
                    wake(state, |it| &mut it.writer);
                    self.metrics.pending(0);
                    return Poll::Pending;
                }
                Next::Merge(detached) => {
                    drop(state);
                    let merged = detached.merge();
                    self.state().backlog.reattach(merged);
                }
            }
        }
    }

    /// Waits, under [`Overflow::Block`], until there is room for more. Only one task may wait.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.closed || self.is_removed() || self.has_room(state.pending()) {
            return Poll::Ready(());
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    fn has_room(&self, pending: usize) -> bool {
        !matches!(self.overflow, Overflow::Block(capacity) if pending > capacity)
    }

    pub(crate) fn is_blocking(&self) -> bool {
        matches!(self.overflow, Overflow::Block(_))
    }

    /// Returns true if the informer has to wait for room.
    pub(crate) fn is_full(&self) -> bool {
        self.is_blocking() && !self.is_removed() && {
            let state = self.state();
            !state.closed && !self.has_room(state.pending())
        }
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// Records that the handler is not called any more. The informer drops it at its next delivery.
    pub(crate) fn ended(&self) {
        self.removed.store(true, Ordering::Release);
        let state = {
            let mut state = self.state();
            state.closed = true;
            state.in_progress = 0;
            if let Some(writer) = state.writer.take() {
                writer.wake();
            }
            (std::mem::replace(&mut state.backlog, Backlog::new(false, 0)), state.replay.take())
        };
        // Dropping the backlog may take long, so it happens outside the lock.
        drop(state);
        self.metrics.pending(0);
        self.progress.send_if_modified(|it| !std::mem::replace(&mut it.ended, true));
    }

    /// Counts a call that panicked.
    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        self.metrics.panicked();
    }
}

impl<T> Mailbox<T> {
    /// Closes the mailbox: no more changes will come, and the pending ones are still delivered.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        wake(state, |it| &mut it.reader);
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock()
    }
}

impl<T: Object> State<T> {
    fn pending(&self) -> usize {
        self.backlog.len() + self.in_progress + self.replay.as_ref().map_or(0, |(replay, _)| replay.len)
    }
}

/// Releases the lock, then wakes the selected task.
fn wake<T>(mut state: MutexGuard<'_, State<T>>, select: impl FnOnce(&mut State<T>) -> &mut Option<Waker>) {
    let waker = select(&mut state).take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The operations of a mailbox that do not depend on the type of its objects.
pub(crate) trait Subscription: Send + Sync {
    fn id(&self) -> u64;
    fn name(&self) -> &str;
    fn progress(&self) -> watch::Receiver<Progress>;
    fn lag(&self) -> Lag;
    fn stats(&self) -> HandlerStats;
    /// Returns true if the handler was removed or is not called any more.
    fn has_ended(&self) -> bool;
    /// Drops the pending changes and ends the handler after a running call.
    fn remove(&self);
}

impl<T: Object> Subscription for Mailbox<T> {
    fn id(&self) -> u64 {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    fn lag(&self) -> Lag {
        let state = self.state();
        let replay = state.replay.as_ref().map(|(_, since)| *since);
        Lag {
            pending: state.pending(),
            oldest: replay.or_else(|| state.backlog.oldest()).map(|it| it.elapsed()),
            panics: self.panics.load(Ordering::Relaxed),
        }
    }

    fn stats(&self) -> HandlerStats {
        let state = self.state();
        let replay = state.replay.as_ref();
        let oldest = replay.map(|(_, since)| *since).or_else(|| state.backlog.oldest());
        let received = state.backlog.next_sequence();
        // While the replay is built its changes are in progress, and not in the backlog yet.
        let waiting = (state.pending() - state.in_progress) as u64;
        let building = if state.delivered == 0 { state.in_progress as u64 } else { 0 };
        HandlerStats {
            id: self.id,
            name: self.name.to_string(),
            pending: state.pending(),
            oldest: oldest.map(|it| it.elapsed()),
            received,
            delivered: state.delivered,
            merged: received.saturating_sub(state.delivered + waiting + building),
            panics: self.panics.load(Ordering::Relaxed),
            synced: self.progress.borrow().synced,
        }
    }

    fn has_ended(&self) -> bool {
        self.is_removed()
    }

    fn remove(&self) {
        self.removed.store(true, Ordering::Release);
        let mut state = self.state();
        state.closed = true;
        let (served, writer) = (state.served, state.writer.take());
        wake(state, |it| &mut it.reader);
        if let Some(writer) = writer {
            writer.wake();
        }
        // There is no call to wait for.
        if !served {
            self.ended();
        }
    }
}

impl<T> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("in_progress", &self.in_progress).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
