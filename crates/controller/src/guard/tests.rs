//! Tests of the guard, over a source that the test controls.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dogwatch_core::{Gvk, ObjectKey};
use dogwatch_informer::{Health, InformerMonitor, InformerStopped, NotSynced, Registration, StoreProgress};
use dogwatch_workqueue::WorkQueue;
use futures_core::future::BoxFuture;

use super::cache_scope::COMPARISONS;
use super::returns::REMEMBERED;
use super::*;
use crate::causes::{Cause, ObjectEvent};
use crate::source::{Cache, Source};

const LIMIT: Duration = Duration::from_secs(30);

/// A source with a version for each namespace and a count of rewinds of its history.
#[derive(Clone, Default)]
struct At(Arc<Inner>);

#[derive(Default)]
struct Inner {
    kind: Gvk,
    versions: Mutex<HashMap<String, u64>>,
    held: Mutex<BTreeSet<String>>,
    given_away: Mutex<BTreeSet<String>>,
    admits: Mutex<HashMap<String, Option<bool>>>,
    rewinds: AtomicU64,
    is_rewound: AtomicBool,
    published: Notify,
}

impl At {
    fn reach(&self, namespace: &str, version: u64) {
        self.0.versions.lock().insert(namespace.to_owned(), version);
        self.0.published.notify_waiters();
    }

    fn hold(&self, key: &str) {
        self.0.held.lock().insert(key.to_owned());
    }
}

impl Cache for At {
    fn name(&self) -> &str {
        "things"
    }

    fn health(&self) -> Health {
        unreachable!("the health of a reflector may be ahead of the cache")
    }

    fn monitor(&self) -> InformerMonitor {
        unreachable!("the guard does not call this")
    }

    fn start(&self) {}

    fn synced(&self) -> BoxFuture<'_, Result<(), NotSynced>> {
        Box::pin(async { Ok(()) })
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        Box::pin(pending())
    }
}

impl Source<&'static str> for At {
    fn cache(&self) -> &dyn Cache {
        self
    }

    fn kind(&self) -> &Gvk {
        &self.0.kind
    }

    fn watch(&self, _: &str, _: &KeyQueue<&'static str>) -> Result<Registration, InformerStopped> {
        unreachable!("the guard does not call this")
    }

    fn replay(&self, _: &KeyQueue<&'static str>, _: &Arc<Cause>) {
        unreachable!("the guard does not call this")
    }

    fn admits(&self, object: &Written) -> Option<bool> {
        self.0.admits.lock().get(object.key.as_str()).copied().unwrap_or(Some(true))
    }

    fn concerns(&self, _: &dyn std::any::Any, _: &&'static str) -> Option<bool> {
        unreachable!("the guard does not call this")
    }

    fn holds(&self, object: &Written, key: Option<&&'static str>) -> bool {
        let is_given_away = self.0.given_away.lock().contains(object.key.as_str());
        self.0.held.lock().contains(object.key.as_str()) && !(is_given_away && key.is_some())
    }

    fn progress(&self, key: Option<&ObjectKey>) -> Option<StoreProgress> {
        let versions = self.0.versions.lock();
        let version = match key {
            Some(key) => *versions.get(key.namespace().unwrap())?,
            None => *versions.values().min()?,
        };
        let mut progress = StoreProgress::default();
        progress.version = version.to_string().into();
        progress.rewinds = self.0.rewinds.load(Ordering::Relaxed);
        progress.is_rewound = self.0.is_rewound.load(Ordering::Relaxed);
        Some(progress)
    }

    fn published(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.published.notified())
    }
}

fn write(key: &str, version: &str) -> Write {
    let key: ObjectKey = key.parse().expect("a key");
    let object = Written { key, uid: "u".to_owned(), version: version.into(), labels: None };
    Write { source: 0, version: version.into(), object: Some(Arc::new(object)), concerns: Some(true) }
}

/// A guard over one source, with its task, and the queue that it puts keys back into.
struct Fixture {
    at: At,
    guard: Arc<Guard<&'static str>>,
    sources: Arc<Vec<Box<dyn Source<&'static str>>>>,
    queue: KeyQueue<&'static str>,
}

impl Fixture {
    fn new() -> Self {
        let at = At::default();
        at.reach("one", 5);
        at.reach("two", 5);
        let guard = Arc::new(Guard::new(LIMIT, Counter::noop()));
        let sources: Arc<Vec<Box<dyn Source<&'static str>>>> = Arc::new(vec![Box::new(at.clone())]);
        let queue = WorkQueue::builder().build_with_notes();
        tokio::spawn({
            let (guard, sources, queue) = (Arc::clone(&guard), Arc::clone(&sources), queue.clone());
            async move { guard.run(&sources, &queue).await }
        });
        Self { at, guard, sources, queue }
    }

    fn record(&self, key: &'static str, writes: Vec<Write>) {
        self.guard.record(&key, writes, &self.sources, &self.queue);
    }

    /// Returns true if the key has to wait.
    fn parks(&self, key: &'static str) -> bool {
        self.parks_with(key, &mut Causes::default())
    }

    /// Returns true if the key has to wait, with these causes.
    fn parks_with(&self, key: &'static str, causes: &mut Causes) -> bool {
        self.guard.park(&key, 7, causes, &self.sources).is_some()
    }

    /// Returns the keys that came back.
    async fn back(&self) -> Vec<&'static str> {
        tokio::time::sleep(Duration::from_nanos(1)).await;
        std::iter::from_fn(|| self.queue.try_take().map(|it| *it.key())).collect()
    }

    fn is_empty(&self) -> bool {
        let state = self.guard.state();
        state.keys.is_empty() && state.scopes.is_empty() && state.limits.is_empty()
    }

    /// Returns the number of pending writes of the key.
    fn pending(&self, key: &'static str) -> usize {
        self.guard.state().keys[key].scopes.values().map(|it| it.orders.len()).sum()
    }

    /// Returns true if no missing object is remembered.
    fn misses_nothing(&self) -> bool {
        self.guard.state().returns.is_empty()
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_for_its_own_writes_and_no_other_key_does() {
    let fixture = Fixture::new();
    fixture.at.hold("one/x");
    fixture.record("a", vec![write("one/x", "7")]);
    assert!(!fixture.parks("b"));
    assert!(fixture.parks("a"));
    fixture.at.reach("two", 100);
    fixture.at.reach("one", 6);
    assert_eq!(fixture.back().await, [] as [&str; 0], "another namespace does not count for this one");
    fixture.at.reach("one", 7);
    assert_eq!(fixture.back().await, ["a"]);
    assert!(!fixture.parks("a") && fixture.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_not_parked_does_not_come_back_if_the_object_is_in_the_cache() {
    let fixture = Fixture::new();
    fixture.at.hold("one/x");
    fixture.record("a", vec![write("one/x", "7")]);
    fixture.at.reach("one", 7);
    assert_eq!(fixture.back().await, [] as [&str; 0]);
    assert!(fixture.is_empty(), "a write that was shown is forgotten");
}

/// Another client deleted the object between the write and the next list: no event will ever report
/// it.
#[tokio::test(start_paused = true)]
async fn a_key_whose_object_is_missing_is_reconciled_again() {
    let fixture = Fixture::new();
    fixture.record("a", vec![write("one/x", "7")]);
    fixture.at.reach("one", 9);
    assert_eq!(fixture.back().await, ["a"]);
    fixture.record("a", vec![write("one/x", "8")]);
    assert_eq!(fixture.back().await, ["a"], "the cache was ahead of the report");
    assert!(fixture.is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_objects_that_mapped_to_the_key_when_written_are_missed() {
    for (concerns, held, given_away, expected) in [
        (Some(true), true, false, false),
        (Some(true), true, true, true),
        (Some(true), false, false, true),
        (Some(false), false, false, false),
        (Some(false), true, true, false),
        (None, true, true, false),
        (None, false, false, true),
    ] {
        let fixture = Fixture::new();
        if held {
            fixture.at.hold("one/x");
        }
        if given_away {
            fixture.at.0.given_away.lock().insert("one/x".to_owned());
        }
        let expected: &[&str] = if expected { &["a"] } else { &[] };
        let case = format!("concerns {concerns:?}, held {held}, given away {given_away}");
        fixture.record("a", vec![Write { concerns, ..write("one/x", "7") }]);
        fixture.at.reach("one", 7);
        assert_eq!(fixture.back().await, expected, "{case}");
        fixture.record("a", vec![Write { concerns, ..write("one/x", "6") }]);
        assert_eq!(fixture.back().await, expected, "{case}, and the cache was ahead of the report");
        assert!(fixture.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_for_the_newest_of_writes_reported_out_of_order() {
    let fixture = Fixture::new();
    fixture.at.hold("one/x");
    fixture.record("a", vec![write("one/x", "11"), write("one/x", "9")]);
    assert_eq!(fixture.pending("a"), 1);
    fixture.at.reach("one", 10);
    assert!(fixture.parks("a"));
    fixture.at.reach("one", 11);
    assert_eq!(fixture.back().await, ["a"]);
    assert!(fixture.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_does_not_wait_for_an_object_that_the_source_cannot_contain() {
    let fixture = Fixture::new();
    fixture.at.0.admits.lock().insert("one/x".to_owned(), Some(false));
    fixture.record("a", vec![write("one/x", "7"), write("elsewhere/x", "7")]);
    assert!(!fixture.parks("a") && fixture.is_empty());
    // If only the server knows, the absence of the object says nothing.
    fixture.at.0.admits.lock().insert("one/x".to_owned(), None);
    fixture.record("a", vec![write("one/x", "7")]);
    fixture.at.reach("one", 7);
    assert_eq!(fixture.back().await, [] as [&str; 0]);
}

/// The cache holds the object as it was before: a reconcile that reads it would repeat the write.
#[tokio::test(start_paused = true)]
async fn a_key_waits_until_an_object_that_it_took_out_of_the_selector_has_left() {
    let fixture = Fixture::new();
    fixture.at.0.admits.lock().insert("one/x".to_owned(), Some(false));
    fixture.at.hold("one/x");
    fixture.record("a", vec![write("one/x", "7")]);
    assert!(fixture.parks("a"));
    fixture.at.0.held.lock().clear();
    fixture.at.reach("one", 7);
    assert_eq!(fixture.back().await, ["a"]);
    assert!(fixture.is_empty() && fixture.misses_nothing(), "its absence is expected");
    // It is not in the cache yet, but a write that put it there is awaited.
    fixture.at.0.admits.lock().clear();
    fixture.record("a", vec![write("one/x", "8")]);
    fixture.at.0.admits.lock().insert("one/x".to_owned(), Some(false));
    fixture.record("a", vec![write("one/x", "9")]);
    fixture.at.reach("one", 8);
    assert!(fixture.parks("a"));
    fixture.at.reach("one", 9);
    assert_eq!(fixture.back().await, ["a"]);
    // And at the time limit the key is reconciled anyway.
    fixture.at.hold("one/x");
    fixture.record("a", vec![write("one/x", "10")]);
    assert!(fixture.parks("a"));
    tokio::time::sleep(LIMIT).await;
    assert_eq!(fixture.back().await, ["a"]);
}

/// A no-op write returns the same version each time, and the reconciler reports it each time.
#[tokio::test(start_paused = true)]
async fn one_missing_state_brings_a_key_back_once() {
    let fixture = Fixture::new();
    fixture.record("a", vec![write("one/x", "7")]);
    fixture.at.reach("one", 9);
    assert_eq!(fixture.back().await, ["a"]);
    for _ in 0..3 {
        fixture.record("a", vec![write("one/x", "7"), write("one/y", "4")]);
        let first = fixture.back().await;
        assert!(first.len() <= 1, "{first:?}");
        fixture.record("a", vec![write("one/x", "7"), write("one/y", "4")]);
        assert_eq!(fixture.back().await, [] as [&str; 0], "the same states are missing as before");
    }
    assert!(!fixture.parks("a"));
    // A reconcile that misses nothing ends it.
    fixture.at.hold("one/x");
    fixture.record("a", vec![write("one/x", "7")]);
    assert!(fixture.is_empty() && fixture.misses_nothing());
    fixture.at.0.held.lock().clear();
    fixture.record("a", vec![write("one/x", "7")]);
    assert_eq!(fixture.back().await, ["a"]);
    fixture.record("a", vec![]);
    assert!(fixture.is_empty() && fixture.misses_nothing());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_remembered_about_a_key_that_another_replica_owns() {
    let fixture = Fixture::new();
    fixture.at.reach("one", 9);
    fixture.record("a", vec![write("one/x", "7")]);
    assert_eq!(fixture.back().await, ["a"]);
    assert!(!fixture.misses_nothing());
    fixture.guard.forget_returns(&"a");
    assert!(fixture.is_empty() && fixture.misses_nothing());
}

/// A reconciler that creates an object with a generated name at each call, because the cache never
/// shows one.
#[tokio::test(start_paused = true)]
async fn new_states_that_are_all_missing_bring_a_key_back_ever_later() {
    let fixture = Fixture::new();
    fixture.at.reach("one", 1_000_000);
    let start = Instant::now();
    let mut calls = 0;
    while start.elapsed() < Duration::from_secs(3_600) {
        calls += 1;
        fixture.record("a", vec![write(&format!("one/x{calls}"), &calls.to_string())]);
        let item = tokio::time::timeout(Duration::from_secs(120), fixture.queue.take()).await;
        assert_eq!(item.expect("the key comes back").map(|it| *it.key()), Some("a"));
    }
    assert!((50..100).contains(&calls), "{calls} calls in an hour");
    assert!(fixture.guard.state().returns["a"].states.len() <= REMEMBERED);
    // Pending writes that are shown end it too.
    fixture.at.hold("one/y");
    fixture.record("a", vec![write("one/y", "1000001")]);
    assert!(!fixture.misses_nothing());
    fixture.at.reach("one", 1_000_001);
    assert_eq!(fixture.back().await, [] as [&str; 0]);
    assert!(fixture.is_empty() && fixture.misses_nothing());
}

/// Its versions are those of the old history until it has listed again.
#[tokio::test(start_paused = true)]
async fn a_source_that_was_rewound_shows_no_write_before_it_has_listed_again() {
    let fixture = Fixture::new();
    fixture.at.reach("one", 1_000);
    fixture.at.0.rewinds.store(1, Ordering::Relaxed);
    fixture.at.0.is_rewound.store(true, Ordering::Relaxed);
    fixture.record("a", vec![write("one/x", "500")]);
    assert_eq!(fixture.back().await, [] as [&str; 0]);
    assert!(fixture.parks("a"));
    fixture.at.0.is_rewound.store(false, Ordering::Relaxed);
    fixture.at.hold("one/x");
    fixture.at.reach("one", 501);
    assert_eq!(fixture.back().await, ["a"]);
    assert!(fixture.is_empty());
}

#[tokio::test(start_paused = true)]
async fn after_the_limit_a_key_is_reconciled_and_again_when_the_cache_catches_up() {
    let fixture = Fixture::new();
    fixture.record("a", vec![write("one/x", "7")]);
    assert!(fixture.parks("a"));
    tokio::time::sleep(LIMIT * 29 / 30).await;
    assert_eq!(fixture.back().await, [] as [&str; 0]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.back().await, ["a"]);
    assert!(!fixture.parks("a"));
    fixture.at.reach("one", 7);
    assert_eq!(fixture.back().await, ["a"], "the object is missing");
    assert!(fixture.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_for_all_its_writes_and_for_the_newest_of_each_object() {
    let fixture = Fixture::new();
    ["one/x", "one/y", "two/z"].iter().for_each(|it| fixture.at.hold(it));
    let writes = vec![write("one/x", "10"), write("one/x", "11"), write("one/y", "9"), write("two/z", "8")];
    fixture.record("a", writes);
    assert_eq!(fixture.pending("a"), 3);
    assert!(fixture.parks("a"));
    fixture.at.reach("one", 10);
    fixture.at.reach("two", 8);
    assert_eq!(fixture.back().await, [] as [&str; 0]);
    fixture.at.reach("one", 11);
    assert_eq!(fixture.back().await, ["a"]);
    assert!(fixture.is_empty());
}

/// A server that was restored from a backup assigns versions again; those from before may never
/// come again.
#[tokio::test(start_paused = true)]
async fn a_key_does_not_wait_for_writes_from_before_a_rewind() {
    let fixture = Fixture::new();
    fixture.record("a", vec![write("one/x", "1000")]);
    assert!(fixture.parks("a"));
    fixture.at.0.rewinds.store(1, Ordering::Relaxed);
    fixture.at.0.is_rewound.store(true, Ordering::Relaxed);
    fixture.at.reach("two", 6);
    assert_eq!(fixture.back().await, [] as [&str; 0], "the cache still shows the old history");
    assert!(fixture.parks("a"));
    // A write of the new history has a lower version, and is shown later.
    fixture.record("b", vec![write("one/y", "3")]);
    assert!(fixture.parks("b"));
    fixture.at.0.is_rewound.store(false, Ordering::Relaxed);
    fixture.at.hold("one/y");
    fixture.at.reach("one", 1);
    assert_eq!(fixture.back().await, ["a"]);
    fixture.at.reach("one", 3);
    assert_eq!(fixture.back().await, ["b"]);
    assert!(fixture.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_does_not_wait_for_versions_that_cannot_be_compared() {
    let fixture = Fixture::new();
    fixture.record("a", vec![write("one/x", "x7")]);
    assert!(!fixture.parks("a") && fixture.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_write_known_by_its_version_waits_for_every_namespace() {
    let fixture = Fixture::new();
    fixture.record("a", vec![Write { source: 0, version: "7".into(), object: None, concerns: None }]);
    fixture.at.reach("one", 7);
    assert!(fixture.parks("a"));
    fixture.at.reach("two", 7);
    assert_eq!(fixture.back().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_limit_beyond_the_range_of_the_clock_is_never_reached() {
    let fixture = Fixture::new();
    let guard = Guard::new(Duration::MAX, Counter::noop());
    guard.record(&"a", vec![write("one/x", "7")], &fixture.sources, &fixture.queue);
    assert!(guard.park(&"a", 0, &mut Causes::default(), &fixture.sources).is_some());
    assert_eq!(guard.settle(&fixture.sources, &fixture.queue), None);
}

/// Records this many writes of one key, shows the first half of them and then the others. Returns
/// the number of comparisons of cache scopes.
async fn comparisons(count: usize) -> u64 {
    let fixture = Fixture::new();
    let names: Vec<_> = (0..count).map(|it| format!("one/x{it}")).collect();
    names.iter().for_each(|it| fixture.at.hold(it));
    let writes = |first: usize| {
        let version = |at: usize| (first + at).to_string();
        names.iter().enumerate().map(|(at, it)| write(it, &version(at))).collect()
    };
    COMPARISONS.set(0);
    fixture.record("a", writes(1_000_000));
    // Newer writes of the same objects replace them.
    fixture.record("a", writes(2_000_000));
    assert!(fixture.parks("a"));
    fixture.at.reach("one", 2_000_000 + count as u64 / 2);
    assert_eq!(fixture.back().await, [] as [&str; 0]);
    assert!(fixture.parks("a"));
    fixture.at.reach("one", 3_000_000);
    assert_eq!(fixture.back().await, ["a"]);
    assert!(fixture.is_empty());
    // Writes that the caches show when a worker takes the key are forgotten together.
    fixture.record("a", writes(4_000_000));
    fixture.at.reach("one", 5_000_000);
    assert!(!fixture.parks("a") && fixture.is_empty());
    COMPARISONS.get()
}

#[tokio::test(start_paused = true)]
async fn the_work_for_the_writes_of_one_key_grows_with_their_number_and_not_faster() {
    let (few, many) = (comparisons(200).await, comparisons(1_600).await);
    assert!(many <= few * 12, "{few} comparisons for 200 writes, {many} for 1,600");
}

#[tokio::test(start_paused = true)]
async fn a_parked_key_goes_back_with_its_causes() {
    let fixture = Fixture::new();
    fixture.at.hold("one/x");
    fixture.record("a", vec![write("one/x", "7")]);
    let retry = |error: &str| Causes::from(Cause::Retry(error.to_owned()));
    let mut causes = retry("first");
    assert!(fixture.parks_with("a", &mut causes));
    assert_eq!(causes.count(), 1, "they are also shown in the log of the deferral");
    assert!(fixture.parks_with("a", &mut retry("second")));
    // A third cause waits in the queue when the key goes back.
    fixture.queue.add_with_note("a", AddOptions::default(), retry("third"));
    fixture.at.reach("one", 7);
    tokio::time::sleep(Duration::from_nanos(1)).await;
    let item = fixture.queue.try_take().expect("it is back");
    assert_eq!(
        item.note().to_string(),
        "retry after: first, and 3 more; last: waited for informer things to show its own writes"
    );
    assert!(fixture.is_empty());
}

/// The worker is faster than the task that puts keys back.
#[tokio::test(start_paused = true)]
async fn the_causes_of_a_parked_key_are_those_of_the_reconcile_that_comes_before_its_return() {
    let fixture = Fixture::new();
    fixture.at.hold("one/x");
    fixture.record("a", vec![write("one/x", "7")]);
    let retry = |error: &str| Causes::from(Cause::Retry(error.to_owned()));
    assert!(fixture.parks_with("a", &mut retry("first")));
    fixture.at.0.versions.lock().insert("one".to_owned(), 7);
    let mut causes = retry("second");
    assert!(!fixture.parks_with("a", &mut causes));
    assert_eq!(causes.to_string(), "retry after: first, and 1 more; last: retry after: second");
    assert_eq!(fixture.back().await, [] as [&str; 0]);
    assert!(fixture.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_missing_object_is_the_cause_of_the_return() {
    let fixture = Fixture::new();
    fixture.record("a", vec![write("one/x", "7"), write("one/y", "8")]);
    fixture.at.reach("one", 8);
    tokio::time::sleep(Duration::from_nanos(1)).await;
    let item = fixture.queue.try_take().expect("it is back");
    let causes: Vec<_> = item.note().iter().collect();
    let [Cause::Object(first), Cause::Object(last)] = causes[..] else { panic!("{causes:?}") };
    assert_eq!((first.key().as_str(), last.key().as_str()), ("one/x", "one/y"));
    assert_eq!((first.event(), first.informer()), (ObjectEvent::Missing, "things"));
    drop(item);
    fixture.record("a", vec![write("one/z", "6")]);
    let item = fixture.queue.try_take().expect("the cache was ahead of the report");
    assert!(matches!(item.note().first(), Some(Cause::Object(it)) if it.key().as_str() == "one/z"));
}
