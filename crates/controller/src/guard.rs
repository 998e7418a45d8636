//! The consistency guard: no reconcile from a cache that is older than what the reconciler itself wrote before.
//!
//! ```text
//! a reconcile wrote ─► record ─► the cache has come that far ─┬─► a key that was parked goes back into the queue
//!                                                             └─► the object is not there: the key is looked at again
//! a worker takes the key meanwhile ─► park ─────────────────────► at the limit it is let through, and counted
//! ```
//!
//! A reconciler that reads a stale cache creates what it has created already, or undoes what others did since. The version that a
//! write returned says how far the cache must have come, in the namespace of the object. A key that has to wait takes no
//! worker and is no failure: it is put back by [`Guard::run`], which is woken by the caches.
//!
//! Only an object that concerned the key when it was written is missed. A reconciler that writes objects of other keys at each call
//! would otherwise be called for ever.

use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dogwatch_core::{ObjectKey, ResourceVersion};
use dogwatch_workqueue::{AddOptions, WorkQueue};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use metrics::Counter;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::reconciler::{Key, Write, Written};
use crate::source::Source;

type Sources<K> = [Box<dyn Source<K>>];

/// The writes that the caches do not show yet, by the key under which they were made.
#[derive(Debug)]
pub(crate) struct Guard<K> {
    /// How long a key waits for a cache.
    limit: Duration,
    state: Mutex<State<K>>,
    /// Rung when there is something more to wait for.
    recorded: Notify,
    /// Keys that were let through although a cache did not show what was written.
    overdue: Counter,
}

#[derive(Debug)]
struct State<K> {
    /// Each line is of one source and namespace, and in the order of the versions: what a cache shows first comes first.
    /// Ordered, since keys are put back line by line.
    lines: BTreeMap<Line, BTreeMap<Place, Awaited<K>>>,
    keys: HashMap<K, Waiting>,
    /// When keys that still wait are let through.
    limits: BTreeMap<(Instant, u64), K>,
    next: u64,
}

/// One source, and the namespace that was written to: of several namespaces each is followed by itself. A write of which only the
/// version is known waits for the whole source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    source: usize,
    namespace: Option<String>,
    whole: bool,
}

/// The digits of a version, behind their number, so that the order of places is that of versions; then a number of our own.
type Place = (usize, String, u64);

/// A write that a cache is to show.
#[derive(Debug)]
struct Awaited<K> {
    key: K,
    object: Option<Arc<Written>>,
    /// Whether the object must be in the cache then, unless it was deleted.
    is_expected: bool,
    /// Whether it concerned the key, and so has to do so still.
    concerned: bool,
    /// How often the server's history had been taken back when it was written. What was written before that happens again may
    /// never be shown.
    rewinds: u64,
}

impl<K: Key> Awaited<K> {
    /// Whether the key has to be looked at again, given that the cache has come far enough.
    fn is_missing(&self, source: &dyn Source<K>) -> bool {
        let object = self.object.as_ref().filter(|_| self.is_expected);
        object.is_some_and(|it| !source.holds(it, self.concerned.then_some(&self.key)))
    }
}

/// The writes under one key. There is at most one for each source and object, so they are bounded by what a key writes.
#[derive(Debug, Default)]
struct Waiting {
    writes: Vec<(Line, Place, Option<ObjectKey>)>,
    /// Until when the key must wait; `None` when it need not any more. A limit beyond all times is never reached.
    until: Option<Limit>,
    /// A worker has taken the key in vain; this is the priority with which it goes back.
    parked: Option<i32>,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    At(Instant, u64),
    Never,
}

impl<K: Key> Guard<K> {
    pub(crate) fn new(limit: Duration, overdue: Counter) -> Self {
        let state = State { lines: BTreeMap::new(), keys: HashMap::new(), limits: BTreeMap::new(), next: 0 };
        Self { limit, state: Mutex::new(state), recorded: Notify::new(), overdue }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of what was written under the key, which the caller holds.
    pub(crate) fn record(&self, key: &K, writes: Vec<Write>, sources: &Sources<K>, queue: &WorkQueue<K>) {
        let mut look_again = false;
        for write in writes {
            let source = &sources[write.source];
            let admits = write.object.as_ref().map_or(Some(true), |it| source.admits(it));
            if admits == Some(false) {
                continue;
            }
            let object_key = write.object.as_ref().map(|it| &it.key);
            let is_expected = admits == Some(true) && write.concerns != Some(false);
            let reached = source.version(object_key).map(|it| has_reached(&it, &write.version));
            let awaited = Awaited {
                key: key.clone(),
                object: write.object,
                is_expected,
                concerned: write.concerns == Some(true),
                rewinds: source.cache().health().rewinds,
            };
            match reached {
                // Waiting gives no answer where versions cannot be compared.
                None | Some(None) => {}
                Some(Some(true)) => look_again |= awaited.is_missing(&**source),
                Some(Some(false)) => {
                    let object = awaited.object.as_ref();
                    let line = Line {
                        source: write.source,
                        namespace: object.and_then(|it| it.key.namespace()).map(str::to_owned),
                        whole: object.is_none(),
                    };
                    self.state().insert(line, &write.version, awaited, self.limit);
                    self.recorded.notify_one();
                }
            }
        }
        if look_again {
            queue.add(key.clone());
        }
    }

    /// Decides whether a worker that has taken the key may reconcile it now. If not, the answer is the informer that is behind, and the
    /// key goes back into the queue when that has come far enough.
    pub(crate) fn park<'s>(&self, key: &K, priority: i32, sources: &'s Sources<K>) -> Option<&'s str> {
        let mut state = self.state();
        let waiting = state.keys.get(key)?;
        let behind = waiting.until.and_then(|_| {
            let mut writes = waiting.writes.iter();
            let (line, ..) =
                writes.find(|(line, place, object)| !state.is_over(line, place, object.as_ref(), sources))?;
            Some(line.source)
        });
        match behind {
            Some(source) => {
                let waiting = state.keys.get_mut(key)?;
                waiting.parked = Some(waiting.parked.map_or(priority, |it| it.max(priority)));
                Some(sources[source].cache().name())
            }
            None => {
                // It is looked at now, so whatever the caches show by now need not bring it back.
                state.forget_shown(key, sources);
                None
            }
        }
    }

    /// Puts keys back as the caches come on. It never ends; one task runs it while the workers work.
    pub(crate) async fn run(&self, sources: &Sources<K>, queue: &WorkQueue<K>) {
        loop {
            // Enlisted before the caches are read, so that nothing is missed in between.
            let awaited = self.state().awaited_sources(sources.len());
            let published = awaited.into_iter().map(|it| sources[it].published());
            let mut published: FuturesUnordered<_> = published.collect();
            let next = self.settle(sources, queue);
            tokio::select! {
                biased;
                Some(()) = published.next() => {}
                () = self.recorded.notified() => {}
                () = at(next) => {}
            }
        }
    }

    /// Puts back what need not wait any more. When the next limit is.
    fn settle(&self, sources: &Sources<K>, queue: &WorkQueue<K>) -> Option<Instant> {
        let mut state = self.state();
        let mut back = Vec::new();
        let lines: Vec<_> = state.lines.keys().cloned().collect();
        for line in lines {
            while let Some(awaited) = state.pop_shown(&line, sources) {
                let is_missing = awaited.is_missing(&*sources[line.source]);
                back.extend(state.shown(&awaited.key, is_missing).map(|priority| (awaited.key, priority)));
            }
        }
        let now = Instant::now();
        while let Some(entry) = state.limits.first_entry().filter(|it| it.key().0 <= now) {
            let key = entry.remove();
            if let Some(waiting) = state.keys.get_mut(&key) {
                waiting.until = None;
                self.overdue.increment(1);
                tracing::warn!(?key, limit = ?self.limit, "the cache does not show what was written; the key waits no longer");
                back.extend(waiting.parked.take().map(|priority| (key, priority)));
            }
        }
        let next = state.limits.first_key_value().map(|((at, _), _)| *at);
        drop(state);
        for (key, priority) in back {
            queue.add_with(key, AddOptions { priority, ..AddOptions::default() });
        }
        next
    }
}

impl<K: Key> State<K> {
    fn insert(&mut self, line: Line, version: &ResourceVersion, awaited: Awaited<K>, limit: Duration) {
        self.next += 1;
        let place = (version.as_str().len(), version.as_str().to_owned(), self.next);
        let object = awaited.object.as_ref().map(|it| it.key.clone());
        let key = awaited.key.clone();
        let waiting = self.keys.entry(key.clone()).or_default();
        let known = waiting.writes.iter().position(|(of, _, it)| *of == line && *it == object);
        if let Some(known) = known {
            let (of, at, _) = &waiting.writes[known];
            let before = self.lines.get(of).and_then(|it| it.get(at));
            // Writes that were under way at once may be reported in any order. Versions from before and after the server's history was
            // taken back say nothing about each other; the later report counts then.
            if before.is_some_and(|it| it.rewinds == awaited.rewinds) && *at > place {
                return;
            }
            let (line, place, _) = waiting.writes.swap_remove(known);
            remove(&mut self.lines, &line, &place);
        }
        waiting.writes.push((line.clone(), place.clone(), object));
        if let Some(Limit::At(at, number)) = waiting.until.take() {
            self.limits.remove(&(at, number));
        }
        waiting.until = Some(match Instant::now().checked_add(limit) {
            Some(at) => {
                self.limits.insert((at, self.next), key);
                Limit::At(at, self.next)
            }
            None => Limit::Never,
        });
        self.lines.entry(line).or_default().insert(place, awaited);
    }

    /// The sources that something is expected of.
    fn awaited_sources(&self, count: usize) -> Vec<usize> {
        let mut awaited = vec![false; count];
        self.lines.keys().for_each(|it| awaited[it.source] = true);
        (0..count).filter(|it| awaited[*it]).collect()
    }

    /// Whether a cache shows a write, or never will.
    fn is_over(&self, line: &Line, place: &Place, object: Option<&ObjectKey>, sources: &Sources<K>) -> bool {
        let source = &sources[line.source];
        let version = ResourceVersion::new(&place.1);
        let is_shown = match source.version(object) {
            Some(reached) => has_reached(&reached, &version).unwrap_or(true),
            None => true,
        };
        is_shown || {
            let awaited = self.lines.get(line).and_then(|it| it.get(place));
            awaited.is_none_or(|it| source.cache().health().rewinds != it.rewinds)
        }
    }

    /// Takes the first write of a line, if its cache shows it or never will.
    fn pop_shown(&mut self, line: &Line, sources: &Sources<K>) -> Option<Awaited<K>> {
        let (place, awaited) = self.lines.get(line)?.first_key_value()?;
        let (place, object) = (place.clone(), awaited.object.as_ref().map(|it| it.key.clone()));
        if !self.is_over(line, &place, object.as_ref(), sources) {
            return None;
        }
        let awaited = remove(&mut self.lines, line, &place)?;
        if let Some(waiting) = self.keys.get_mut(&awaited.key) {
            waiting.writes.retain(|(of, at, _)| of != line || *at != place);
        }
        Some(awaited)
    }

    /// A cache shows a write of this key. The priority with which the key is to be queued, if it is.
    fn shown(&mut self, key: &K, look_again: bool) -> Option<i32> {
        let waiting = self.keys.get_mut(key)?;
        if look_again {
            waiting.parked = Some(waiting.parked.map_or(0, |it| it.max(0)));
        }
        if waiting.until.is_some() && !waiting.writes.is_empty() {
            return None;
        }
        let parked = waiting.parked.take();
        self.tidy(key);
        parked
    }

    /// Forgets the writes of a key that the caches show.
    fn forget_shown(&mut self, key: &K, sources: &Sources<K>) {
        let Some(waiting) = self.keys.get(key) else { return };
        let (over, left): (Vec<_>, Vec<_>) = waiting
            .writes
            .iter()
            .cloned()
            .partition(|(line, place, object)| self.is_over(line, place, object.as_ref(), sources));
        over.iter().for_each(|(line, place, _)| drop(remove(&mut self.lines, line, place)));
        if let Some(waiting) = self.keys.get_mut(key) {
            waiting.writes = left;
            waiting.parked = None;
        }
        self.tidy(key);
    }

    /// Forgets a key under which nothing is awaited.
    fn tidy(&mut self, key: &K) {
        if self.keys.get(key).is_some_and(|it| it.writes.is_empty())
            && let Some(Waiting { until: Some(Limit::At(at, number)), .. }) = self.keys.remove(key)
        {
            self.limits.remove(&(at, number));
        }
    }
}

fn remove<K>(
    lines: &mut BTreeMap<Line, BTreeMap<Place, Awaited<K>>>,
    line: &Line,
    place: &Place,
) -> Option<Awaited<K>> {
    let places = lines.get_mut(line)?;
    let removed = places.remove(place);
    if places.is_empty() {
        lines.remove(line);
    }
    removed
}

/// Whether a cache that has come to `reached` shows what was written; `None` where that cannot be told.
fn has_reached(reached: &ResourceVersion, written: &ResourceVersion) -> Option<bool> {
    if reached.is_unset() {
        return Some(false);
    }
    Some(written == reached || written.compare(reached)?.is_le())
}

/// Waits until then; for ever where there is no such time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;
