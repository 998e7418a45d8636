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
use std::time::Duration;

use dogwatch_core::Object;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::backlog::{Backlog, Batch, KeyHasher, Next, TakenChanges};
use crate::change::Change;
use crate::metrics::HandlerMetrics;
use crate::number_allocator::AllocatedNumber;
use crate::stats::HandlerStats;

/// The policy for the changes that a handler has not processed yet.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::{HandlerOptions, Overflow, SharedInformer};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// // An audit log receives every state; the informer waits for it if it falls far behind.
/// let options = HandlerOptions::default().name("audit").overflow(Overflow::Block(10_000));
/// let changes = maps.changes_with(options)?;
/// assert_eq!(changes.registration().name(), "audit");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// Consecutive updates of one object become one update from the oldest state to the newest.
    /// Nothing else is merged: a slow handler still receives every addition and every deletion, in
    /// order, so it reads a shorter history that could have happened.
    ///
    /// Only intermediate states of consecutive updates are dropped. The state in which an object
    /// was added, the one that the handler knew before an update, and the last one before a
    /// deletion are all delivered, with their owners and labels. A handler that must see the
    /// intermediate states too, because it derives keys from them (an owner that had a child only
    /// for a moment), uses [`Grow`](Self::Grow) and returns quickly, for example by adding keys to
    /// a deduplicating queue.
    ///
    /// At most three changes wait for each object that existed since the handler last read, plus a
    /// few thousand. The backlog is merged when a second batch of changes arrives before the
    /// handler took the first; a handler that takes each batch before the next one arrives receives
    /// every change. Objects come in the order in which each first had a change.
    #[default]
    Coalesce,
    /// Every change is kept until the handler receives it, in the server's order. Memory is not
    /// bounded.
    Grow,
    /// Every change is delivered, and the informer waits while more than this many changes are
    /// pending: its store then does not change, and no other handler receives changes beyond the
    /// store's state. Batches are put in whole, so the number may be exceeded by one batch.
    Block(usize),
}

/// A handler's backlog.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// let handler = maps.on_add(|_| {})?;
/// maps.start();
/// handler.synced().await?;
/// let lag = handler.lag();
/// println!("{} changes wait, the oldest for {:?}", lag.pending, lag.oldest);
/// assert_eq!(lag.panics, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lag {
    /// The number of changes that the handler has not processed yet, including those it has taken.
    /// Some of them may still be merged.
    pub pending: usize,
    /// The age of the oldest pending change.
    pub oldest: Option<Duration>,
    /// The number of handler calls that have panicked.
    pub panics: u64,
}

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
mod tests {
    use std::task::Wake;

    use dogwatch_core::{Gvk, ResourceType};
    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;

    use super::*;
    use crate::metrics::InformerMetrics;

    /// A waiting task, and whether it was woken.
    #[derive(Debug, Default)]
    struct Sleeper(AtomicBool);

    impl Wake for Sleeper {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[derive(Clone, Debug)]
    enum Operation {
        Push(u8),
        FirstList,
        Take(usize),
        Room,
        Remove,
        Close,
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            6 => (1u8..4).prop_map(Operation::Push),
            1 => Just(Operation::FirstList),
            8 => (1usize..4).prop_map(Operation::Take),
            4 => Just(Operation::Room),
            1 => Just(Operation::Remove),
            1 => Just(Operation::Close),
        ]
    }

    fn mailbox(overflow: Overflow) -> Mailbox<ConfigMap> {
        let resource = ResourceType::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
        let name = Arc::from("test");
        let metrics = InformerMetrics::new("test", &resource).handler(&name);
        Mailbox::new(name, None, overflow, KeyHasher::default(), metrics)
    }

    /// Creates additions of new objects.
    fn additions(count: u8, made: &mut u32) -> Vec<Change<ConfigMap>> {
        let mut one = || {
            *made += 1;
            let mut map = ConfigMap::default();
            map.metadata.name = Some(made.to_string());
            Change::Added { object: Arc::new(map), initial: false }
        };
        (0..count).map(|_| one()).collect()
    }

    /// A mailbox with a reader and a writer that waits for room.
    struct Fixture {
        mailbox: Mailbox<ConfigMap>,
        current: TakenChanges<ConfigMap>,
        reader: Option<Arc<Sleeper>>,
        writer: Option<Arc<Sleeper>>,
        made: u32,
        delivered: u32,
        over: bool,
    }

    impl Fixture {
        fn perform(&mut self, operation: &Operation) {
            match operation {
                Operation::Push(count) => {
                    let changes = additions(*count, &mut self.made);
                    let batch = Batch::new(changes, Instant::now(), self.mailbox.hasher.clone());
                    self.mailbox.push(&Arc::new(batch));
                }
                Operation::FirstList => self.mailbox.initial_list_delivered(),
                Operation::Take(limit) if !self.over => {
                    let sleeper = Arc::new(Sleeper::default());
                    let waker = Arc::clone(&sleeper).into();
                    let taken =
                        self.mailbox.poll_take(*limit, &mut self.current, &mut Context::from_waker(&waker));
                    self.reader = taken.is_pending().then_some(sleeper);
                    self.over = taken == Poll::Ready(false);
                    if taken == Poll::Ready(true) {
                        self.delivered += self.current.changes().len() as u32;
                    }
                }
                Operation::Take(_) => {}
                Operation::Room => {
                    let sleeper = Arc::new(Sleeper::default());
                    let waker = Arc::clone(&sleeper).into();
                    let room = self.mailbox.poll_room(&mut Context::from_waker(&waker));
                    self.writer = room.is_pending().then_some(sleeper);
                }
                Operation::Remove => self.mailbox.remove(),
                Operation::Close => {
                    // The writer closes the mailbox, so it does not wait for room any more.
                    self.writer = None;
                    self.mailbox.close();
                }
            }
        }

        /// Checks that no wake-up was lost: a task that waits and was not woken is polled again and
        /// must still be pending.
        fn check(&mut self) -> Result<(), TestCaseError> {
            let asleep = |it: &Arc<Sleeper>| !it.0.load(Ordering::Relaxed);
            if let Some(sleeper) = self.reader.clone().filter(asleep) {
                let (waker, before) = (sleeper.into(), *self.mailbox.progress().borrow());
                let again = self.mailbox.poll_take(1, &mut self.current, &mut Context::from_waker(&waker));
                prop_assert!(again.is_pending(), "the reader was not woken for {again:?}");
                prop_assert_eq!(
                    *self.mailbox.progress().borrow(),
                    before,
                    "the reader was not woken for the sync"
                );
            }
            if let Some(sleeper) = self.writer.clone().filter(asleep) {
                let waker = sleeper.into();
                let again = self.mailbox.poll_room(&mut Context::from_waker(&waker));
                prop_assert!(again.is_pending(), "the writer was not woken although there is room");
            }
            Ok(())
        }
    }

    proptest! {
        /// All operations of a mailbox happen under its lock, so any interleaving of threads is one
        /// of these sequences.
        #[test]
        fn no_wake_up_is_lost_in_any_sequence_of_operations(
            operations in prop::collection::vec(operation(), 1..60),
            overflow in prop_oneof![
                Just(Overflow::Coalesce), Just(Overflow::Grow), Just(Overflow::Block(0)), Just(Overflow::Block(2))
            ],
            before in 0u8..3,
            served: bool,
        ) {
            let (mut made, mailbox) = (0, mailbox(overflow));
            if served {
                mailbox.begin_serving();
            }
            if before > 0 {
                let there = additions(before, &mut made);
                mailbox.replay(Replay { len: there.len(), build: Box::new(|| there) }, Instant::now());
            }
            let mut fixture =
                Fixture { mailbox, current: TakenChanges::default(), reader: None, writer: None, made, delivered: 0, over: false };
            let ends = |it: &Operation| matches!(it, Operation::Remove | Operation::Close);
            let first_end = operations.iter().position(ends);
            for (number, operation) in operations.iter().enumerate() {
                // The initial list is marked only once.
                let again = operations[..number].iter().any(|it| matches!(it, Operation::FirstList));
                if !(again && matches!(operation, Operation::FirstList)) {
                    fixture.perform(operation);
                    fixture.check()?;
                }
            }
            // Unless it was removed or closed, every change is delivered exactly once.
            if first_end.is_none() {
                for _ in 0..=fixture.made {
                    fixture.perform(&Operation::Take(9));
                }
                prop_assert_eq!(fixture.delivered, fixture.made);
                prop_assert!(fixture.reader.is_some(), "the reader waits for more");
            }
        }
    }
}
