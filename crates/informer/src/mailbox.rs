//! Between an informer and one handler: a mailbox with a policy for what happens when the handler is slower than the changes.
//!
//! The informer's task puts batches in, the handler's task takes them out. It is the only thing the two share. The lock is held
//! to move pointers, never to merge, to wait or to call.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use dogwatch_core::Object;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::backlog::{Backlog, Batch, Hand, KeyHasher, Next};
use crate::change::Change;
use crate::metrics::HandlerMetrics;
use crate::numbers::Number;

/// What happens to changes that a handler has no time for yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// Consecutive updates of one object become one, from the oldest state to the newest. Nothing else is merged: a slow handler
    /// still receives every addition and every deletion, in order, so what it reads is a shorter history that could have happened.
    ///
    /// Only states between two updates are dropped. The state in which an object was added, the one that the handler knew before
    /// an update, and the last one before a deletion are all delivered, with the owners and labels that they had. A handler
    /// that must see the states in between too, because it derives keys from them (an owner that had a child only for a moment),
    /// uses [`Grow`](Self::Grow) and is quick: it puts keys into a queue that drops duplicates.
    ///
    /// At most three changes wait for each object that existed since the handler last read, and a few thousand beyond that. The
    /// backlog is merged when a second batch of changes arrives before the handler took the first; a handler that takes each
    /// batch before the next one arrives receives every change. Objects come in the order in which each first had a change.
    #[default]
    Coalesce,
    /// Every change is kept until the handler receives it, in the order of the server. Memory has no bound.
    Grow,
    /// Every change is delivered, and the informer waits when more than this many of them wait: its store then stands still, and so does
    /// every handler once it was told what the store shows. What the store applies at once is put in at once, so as
    /// many changes as one batch has may wait beyond the number.
    Block(usize),
}

/// How far behind a handler is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lag {
    /// How many changes it still has to be told of, with those it is being told of. Some of them may yet be merged.
    pub pending: usize,
    /// For how long the oldest of those that wait has waited.
    pub oldest: Option<Duration>,
    /// How many calls of the handler have panicked.
    pub panics: u64,
}

/// How far a handler has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// It was told of everything of the first list.
    pub(crate) synced: bool,
    /// It will not be called any more.
    pub(crate) ended: bool,
}

/// What a handler that comes late is told first: built by its own task, since there may be much of it.
pub(crate) struct Replay<T> {
    /// How many changes it will be.
    pub(crate) len: usize,
    pub(crate) build: Box<dyn FnOnce() -> Vec<Change<T>> + Send>,
}

/// One handler's mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    name: Arc<str>,
    /// The number that is its name, where it was given none.
    _number: Option<Number>,
    overflow: Overflow,
    hasher: KeyHasher,
    metrics: HandlerMetrics,
    /// Looked at before each call, so that nothing is told any more once `remove` has returned.
    removed: AtomicBool,
    panics: AtomicU64,
    progress: watch::Sender<Progress>,
    state: Mutex<State<T>>,
}

struct State<T> {
    backlog: Backlog<T>,
    /// What comes before the backlog, and since when it waits.
    replay: Option<(Replay<T>, Instant)>,
    /// How many changes the reader has in hand.
    in_hand: usize,
    /// The place in the line after everything of the first list, once that is known.
    synced_at: Option<u64>,
    /// The place in the line after the last resync.
    resynced_to: u64,
    /// Nothing more will come.
    closed: bool,
    /// Whether the reader has begun.
    reading: bool,
    reader: Option<Waker>,
    /// The informer's task, when it waits for room.
    writer: Option<Waker>,
}

impl<T: Object> Mailbox<T> {
    pub(crate) fn new(
        name: Arc<str>,
        number: Option<Number>,
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
                in_hand: 0,
                synced_at: None,
                resynced_to: 0,
                closed: false,
                reading: false,
                reader: None,
                writer: None,
            }),
        }
    }

    /// Has a handler told first of what is there already. To be called before anything is put in.
    pub(crate) fn replay(&self, replay: Replay<T>, since: Instant) {
        let mut state = self.state();
        state.backlog = Backlog::new(self.overflow == Overflow::Coalesce, replay.len);
        state.replay = Some((replay, since));
        wake(state, |it| &mut it.reader);
    }

    /// Puts a batch in; wakes the reader. What comes after the end is dropped.
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

    /// Puts every object in again, unless the informer waits for room, or what was put in so the last time still waits: a handler
    /// that is slower than its resyncs would be further behind after each of them.
    pub(crate) fn push_resync(&self, batch: &Arc<Batch<T>>) {
        if self.is_full() {
            return;
        }
        let mut state = self.state();
        if state.replay.is_some() || state.backlog.front_place() < state.resynced_to {
            return;
        }
        state.resynced_to = state.backlog.next_place() + batch.len() as u64;
        drop(state);
        self.push(batch);
    }

    /// Says, once, that the first list is whole: the handler is synced when it was told of what is in now.
    pub(crate) fn first_list_is_in(&self) {
        let mut state = self.state();
        state.synced_at = Some(state.backlog.next_place());
        wake(state, |it| &mut it.reader);
    }

    /// Takes up to `limit` changes, and tells by it that those taken before are done. `false`: there will be no more.
    pub(crate) fn poll_take(&self, limit: usize, hand: &mut Hand<T>, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            let mut state = self.state();
            state.reading = true;
            state.in_hand = 0;
            if self.is_removed() {
                return Poll::Ready(false);
            }
            if let Some((replay, since)) = state.replay.take() {
                state.in_hand = replay.len;
                drop(state);
                let batch = Batch::new((replay.build)(), since, self.hasher.clone());
                self.state().backlog.prepend(batch);
                continue;
            }
            if state.synced_at.is_some_and(|place| place <= state.backlog.front_place()) {
                state.synced_at = None;
                drop(state);
                self.progress.send_modify(|it| it.synced = true);
                continue;
            }
            let oldest = state.backlog.oldest();
            match state.backlog.next(limit, hand) {
                Next::Taken => {
                    state.in_hand = hand.changes().len();
                    let pending = state.pending();
                    hand.waiting = pending;
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
                Next::Fold(lifted) => {
                    drop(state);
                    let folded = lifted.fold();
                    self.state().backlog.lower(folded);
                }
            }
        }
    }

    /// Waits, under [`Overflow::Block`], until there is room for more. Only one may wait.
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

    /// Whether the informer has to wait for room.
    pub(crate) fn is_full(&self) -> bool {
        self.is_blocking() && !self.is_removed() && {
            let state = self.state();
            !state.closed && !self.has_room(state.pending())
        }
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// Says that the handler will not be called any more. The informer forgets it when it next has something to deliver.
    pub(crate) fn ended(&self) {
        self.removed.store(true, Ordering::Release);
        let state = {
            let mut state = self.state();
            state.closed = true;
            state.in_hand = 0;
            if let Some(writer) = state.writer.take() {
                writer.wake();
            }
            (std::mem::replace(&mut state.backlog, Backlog::new(false, 0)), state.replay.take())
        };
        // What was dropped may be much: not under the lock.
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
    /// Nothing more will come; what is in is still told.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        wake(state, |it| &mut it.reader);
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Object> State<T> {
    fn pending(&self) -> usize {
        self.backlog.len() + self.in_hand + self.replay.as_ref().map_or(0, |(replay, _)| replay.len)
    }
}

/// Lets go of the lock, then wakes whom it names.
fn wake<T>(mut state: MutexGuard<'_, State<T>>, whom: impl FnOnce(&mut State<T>) -> &mut Option<Waker>) {
    let waker = whom(&mut state).take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// What can be asked of a mailbox without knowing what is in it.
pub(crate) trait Subscription: Send + Sync {
    fn name(&self) -> &str;
    fn progress(&self) -> watch::Receiver<Progress>;
    fn lag(&self) -> Lag;
    /// Drops what waits and ends the handler after the call that is under way.
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

    fn remove(&self) {
        self.removed.store(true, Ordering::Release);
        let mut state = self.state();
        state.closed = true;
        let (reading, writer) = (state.reading, state.writer.take());
        wake(state, |it| &mut it.reader);
        if let Some(writer) = writer {
            writer.wake();
        }
        if !reading {
            self.ended();
        }
    }
}

impl<T> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("in_hand", &self.in_hand).finish_non_exhaustive()
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

    /// Somebody who waits, and whether they were woken.
    #[derive(Debug, Default)]
    struct Sleeper(AtomicBool);

    impl Wake for Sleeper {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[derive(Clone, Debug)]
    enum Deed {
        Push(u8),
        FirstList,
        Take(usize),
        Room,
        Remove,
        Close,
    }

    fn deed() -> impl Strategy<Value = Deed> {
        prop_oneof![
            6 => (1u8..4).prop_map(Deed::Push),
            1 => Just(Deed::FirstList),
            8 => (1usize..4).prop_map(Deed::Take),
            4 => Just(Deed::Room),
            1 => Just(Deed::Remove),
            1 => Just(Deed::Close),
        ]
    }

    fn mailbox(overflow: Overflow) -> Mailbox<ConfigMap> {
        let resource = ResourceType::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
        let name = Arc::from("test");
        let metrics = InformerMetrics::new("test", &resource).handler(&name);
        Mailbox::new(name, None, overflow, KeyHasher::default(), metrics)
    }

    /// Additions of objects that nobody has heard of.
    fn additions(count: u8, made: &mut u32) -> Vec<Change<ConfigMap>> {
        let mut one = || {
            *made += 1;
            let mut map = ConfigMap::default();
            map.metadata.name = Some(made.to_string());
            Change::Added { object: Arc::new(map), initial: false }
        };
        (0..count).map(|_| one()).collect()
    }

    /// A mailbox with who reads it and who waits for room in it.
    struct Scene {
        mailbox: Mailbox<ConfigMap>,
        hand: Hand<ConfigMap>,
        reader: Option<Arc<Sleeper>>,
        writer: Option<Arc<Sleeper>>,
        made: u32,
        told: u32,
        over: bool,
    }

    impl Scene {
        fn perform(&mut self, deed: &Deed) {
            match deed {
                Deed::Push(count) => {
                    let changes = additions(*count, &mut self.made);
                    let batch = Batch::new(changes, Instant::now(), self.mailbox.hasher.clone());
                    self.mailbox.push(&Arc::new(batch));
                }
                Deed::FirstList => self.mailbox.first_list_is_in(),
                Deed::Take(limit) if !self.over => {
                    let sleeper = Arc::new(Sleeper::default());
                    let waker = Arc::clone(&sleeper).into();
                    let taken =
                        self.mailbox.poll_take(*limit, &mut self.hand, &mut Context::from_waker(&waker));
                    self.reader = taken.is_pending().then_some(sleeper);
                    self.over = taken == Poll::Ready(false);
                    if taken == Poll::Ready(true) {
                        self.told += self.hand.changes().len() as u32;
                    }
                }
                Deed::Take(_) => {}
                Deed::Room => {
                    let sleeper = Arc::new(Sleeper::default());
                    let waker = Arc::clone(&sleeper).into();
                    let room = self.mailbox.poll_room(&mut Context::from_waker(&waker));
                    self.writer = room.is_pending().then_some(sleeper);
                }
                Deed::Remove => self.mailbox.remove(),
                Deed::Close => {
                    // Who closes it is who would wait for room.
                    self.writer = None;
                    self.mailbox.close();
                }
            }
        }

        /// Who sleeps and was not woken has missed nothing: asked again, there is still nothing for them.
        fn check(&mut self) -> Result<(), TestCaseError> {
            let asleep = |it: &Arc<Sleeper>| !it.0.load(Ordering::Relaxed);
            if let Some(sleeper) = self.reader.clone().filter(asleep) {
                let (waker, before) = (sleeper.into(), *self.mailbox.progress().borrow());
                let again = self.mailbox.poll_take(1, &mut self.hand, &mut Context::from_waker(&waker));
                prop_assert!(again.is_pending(), "the reader sleeps, and there is {again:?}");
                prop_assert_eq!(
                    *self.mailbox.progress().borrow(),
                    before,
                    "the reader slept through the sync"
                );
            }
            if let Some(sleeper) = self.writer.clone().filter(asleep) {
                let waker = sleeper.into();
                let again = self.mailbox.poll_room(&mut Context::from_waker(&waker));
                prop_assert!(again.is_pending(), "the informer sleeps, and there is room");
            }
            Ok(())
        }
    }

    proptest! {
        /// Everything about a mailbox happens under its lock, so that what several threads do is one of these orders.
        #[test]
        fn nobody_sleeps_while_there_is_something_for_them(
            deeds in prop::collection::vec(deed(), 1..60),
            overflow in prop_oneof![
                Just(Overflow::Coalesce), Just(Overflow::Grow), Just(Overflow::Block(0)), Just(Overflow::Block(2))
            ],
            before in 0u8..3,
        ) {
            let (mut made, mailbox) = (0, mailbox(overflow));
            if before > 0 {
                let there = additions(before, &mut made);
                mailbox.replay(Replay { len: there.len(), build: Box::new(|| there) }, Instant::now());
            }
            let mut scene =
                Scene { mailbox, hand: Hand::default(), reader: None, writer: None, made, told: 0, over: false };
            let ends = |it: &Deed| matches!(it, Deed::Remove | Deed::Close);
            let first_end = deeds.iter().position(ends);
            for (number, deed) in deeds.iter().enumerate() {
                // The first list is in once.
                let again = deeds[..number].iter().any(|it| matches!(it, Deed::FirstList));
                if !(again && matches!(deed, Deed::FirstList)) {
                    scene.perform(deed);
                    scene.check()?;
                }
            }
            // Unless it was removed or closed, all is told, once.
            if first_end.is_none() {
                for _ in 0..=scene.made {
                    scene.perform(&Deed::Take(9));
                }
                prop_assert_eq!(scene.told, scene.made);
                prop_assert!(scene.reader.is_some(), "it waits for more");
            }
        }
    }
}
