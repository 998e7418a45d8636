//! The guard over a source in the hands of a test.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use dogwatch_core::Gvk;
use dogwatch_informer::{Health, InformerStopped, NotSynced, Registration};
use futures_core::future::BoxFuture;

use super::*;
use crate::source::Cache;

const LIMIT: Duration = Duration::from_secs(30);

/// A source whose namespaces are at versions, and whose history was taken back so often.
#[derive(Clone, Default)]
struct At(Arc<Inner>);

#[derive(Default)]
struct Inner {
    versions: Mutex<HashMap<String, u64>>,
    held: Mutex<BTreeSet<String>>,
    given_away: Mutex<BTreeSet<String>>,
    admits: Mutex<HashMap<String, Option<bool>>>,
    rewinds: AtomicU64,
    published: Notify,
}

impl At {
    fn reach(&self, namespace: &str, version: u64) {
        self.0.versions.lock().unwrap().insert(namespace.to_owned(), version);
        self.0.published.notify_waiters();
    }

    fn hold(&self, key: &str) {
        self.0.held.lock().unwrap().insert(key.to_owned());
    }
}

impl Cache for At {
    fn name(&self) -> &str {
        "things"
    }

    fn health(&self) -> Health {
        let mut health = Health::default();
        health.rewinds = self.0.rewinds.load(Ordering::Relaxed);
        health
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
        unreachable!("the guard does not ask")
    }

    fn watch(&self, _: &str, _: &WorkQueue<&'static str>) -> Result<Registration, InformerStopped> {
        unreachable!("the guard does not start anything")
    }

    fn replay(&self, _: &WorkQueue<&'static str>) {
        unreachable!("the guard does not ask")
    }

    fn admits(&self, object: &Written) -> Option<bool> {
        self.0.admits.lock().unwrap().get(object.key.as_str()).copied().unwrap_or(Some(true))
    }

    fn concerns(&self, _: &dyn std::any::Any, _: &&'static str) -> Option<bool> {
        unreachable!("the guard does not ask")
    }

    fn holds(&self, object: &Written, key: Option<&&'static str>) -> bool {
        let is_given_away = self.0.given_away.lock().unwrap().contains(object.key.as_str());
        self.0.held.lock().unwrap().contains(object.key.as_str()) && !(is_given_away && key.is_some())
    }

    fn version(&self, key: Option<&ObjectKey>) -> Option<ResourceVersion> {
        let versions = self.0.versions.lock().unwrap();
        let version = match key {
            Some(key) => *versions.get(key.namespace().unwrap())?,
            None => *versions.values().min()?,
        };
        Some(ResourceVersion::from(version.to_string()))
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

/// A guard over one source with its task, and the queue it puts keys back into.
struct World {
    at: At,
    guard: Arc<Guard<&'static str>>,
    sources: Arc<Vec<Box<dyn Source<&'static str>>>>,
    queue: WorkQueue<&'static str>,
}

impl World {
    fn new() -> Self {
        let at = At::default();
        at.reach("one", 5);
        at.reach("two", 5);
        let guard = Arc::new(Guard::new(LIMIT, Counter::noop()));
        let sources: Arc<Vec<Box<dyn Source<&'static str>>>> = Arc::new(vec![Box::new(at.clone())]);
        let queue = WorkQueue::new();
        tokio::spawn({
            let (guard, sources, queue) = (Arc::clone(&guard), Arc::clone(&sources), queue.clone());
            async move { guard.run(&sources, &queue).await }
        });
        Self { at, guard, sources, queue }
    }

    fn record(&self, key: &'static str, writes: Vec<Write>) {
        self.guard.record(&key, writes, &self.sources, &self.queue);
    }

    /// Whether the key has to wait.
    fn parks(&self, key: &'static str) -> bool {
        self.guard.park(&key, 7, &self.sources).is_some()
    }

    /// The keys that came back.
    async fn back(&self) -> Vec<&'static str> {
        tokio::time::sleep(Duration::from_nanos(1)).await;
        std::iter::from_fn(|| self.queue.try_take().map(|it| *it.key())).collect()
    }

    fn is_empty(&self) -> bool {
        let state = self.guard.state();
        state.keys.is_empty() && state.lines.is_empty() && state.limits.is_empty()
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_for_what_was_written_under_it_and_no_other_does() {
    let world = World::new();
    world.at.hold("one/x");
    world.record("a", vec![write("one/x", "7")]);
    assert!(!world.parks("b"));
    assert!(world.parks("a"));
    world.at.reach("two", 100);
    world.at.reach("one", 6);
    assert_eq!(world.back().await, [] as [&str; 0], "another namespace says nothing about this one");
    world.at.reach("one", 7);
    assert_eq!(world.back().await, ["a"]);
    assert!(!world.parks("a") && world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_no_worker_took_meanwhile_does_not_come_back_if_the_object_is_there() {
    let world = World::new();
    world.at.hold("one/x");
    world.record("a", vec![write("one/x", "7")]);
    world.at.reach("one", 7);
    assert_eq!(world.back().await, [] as [&str; 0]);
    assert!(world.is_empty(), "what was shown is forgotten");
}

/// Between the write and the next list, others deleted the object: no event will ever tell of it.
#[tokio::test(start_paused = true)]
async fn a_key_whose_object_is_not_there_is_looked_at_again() {
    let world = World::new();
    world.record("a", vec![write("one/x", "7")]);
    world.at.reach("one", 9);
    assert_eq!(world.back().await, ["a"]);
    world.record("a", vec![write("one/x", "8")]);
    assert_eq!(world.back().await, ["a"], "the cache was quicker than the reconciler");
    assert!(world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_what_concerned_the_key_when_it_was_written_is_missed() {
    for (concerns, held, given_away, expected) in [
        (Some(true), true, false, false),
        (Some(true), true, true, true),
        (Some(true), false, false, true),
        (Some(false), false, false, false),
        (Some(false), true, true, false),
        (None, true, true, false),
        (None, false, false, true),
    ] {
        let world = World::new();
        if held {
            world.at.hold("one/x");
        }
        if given_away {
            world.at.0.given_away.lock().unwrap().insert("one/x".to_owned());
        }
        let expected: &[&str] = if expected { &["a"] } else { &[] };
        let case = format!("concerns {concerns:?}, held {held}, given away {given_away}");
        world.record("a", vec![Write { concerns, ..write("one/x", "7") }]);
        world.at.reach("one", 7);
        assert_eq!(world.back().await, expected, "{case}");
        world.record("a", vec![Write { concerns, ..write("one/x", "6") }]);
        assert_eq!(world.back().await, expected, "{case}, and the cache was quicker");
        assert!(world.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_are_reported_out_of_order_are_waited_for_up_to_the_newest() {
    let world = World::new();
    world.at.hold("one/x");
    world.record("a", vec![write("one/x", "11"), write("one/x", "9")]);
    assert_eq!(world.guard.state().keys["a"].writes.len(), 1);
    world.at.reach("one", 10);
    assert!(world.parks("a"));
    world.at.reach("one", 11);
    assert_eq!(world.back().await, ["a"]);
    assert!(world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_the_source_cannot_hold_is_not_waited_for() {
    let world = World::new();
    world.at.0.admits.lock().unwrap().insert("one/x".to_owned(), Some(false));
    world.record("a", vec![write("one/x", "7"), write("elsewhere/x", "7")]);
    assert!(!world.parks("a") && world.is_empty());
    // Where only the server knows, its absence says nothing.
    world.at.0.admits.lock().unwrap().insert("one/x".to_owned(), None);
    world.record("a", vec![write("one/x", "7")]);
    world.at.reach("one", 7);
    assert_eq!(world.back().await, [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn after_the_limit_a_key_is_let_through_and_still_looked_at_when_the_cache_comes() {
    let world = World::new();
    world.record("a", vec![write("one/x", "7")]);
    assert!(world.parks("a"));
    tokio::time::sleep(LIMIT * 29 / 30).await;
    assert_eq!(world.back().await, [] as [&str; 0]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.back().await, ["a"]);
    assert!(!world.parks("a"));
    world.at.reach("one", 7);
    assert_eq!(world.back().await, ["a"], "the object is not there");
    assert!(world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn of_several_writes_all_are_waited_for_and_of_one_object_the_newest() {
    let world = World::new();
    ["one/x", "one/y", "two/z"].iter().for_each(|it| world.at.hold(it));
    let writes = vec![write("one/x", "10"), write("one/x", "11"), write("one/y", "9"), write("two/z", "8")];
    world.record("a", writes);
    assert_eq!(world.guard.state().keys["a"].writes.len(), 3);
    assert!(world.parks("a"));
    world.at.reach("one", 10);
    world.at.reach("two", 8);
    assert_eq!(world.back().await, [] as [&str; 0]);
    world.at.reach("one", 11);
    assert_eq!(world.back().await, ["a"]);
    assert!(world.is_empty());
}

/// A server that was restored from a backup gives versions anew; those it took back may never come again.
#[tokio::test(start_paused = true)]
async fn what_was_written_before_the_history_was_taken_back_is_not_waited_for() {
    let world = World::new();
    world.record("a", vec![write("one/x", "1000")]);
    assert!(world.parks("a"));
    world.at.0.rewinds.store(1, Ordering::Relaxed);
    world.at.reach("one", 1);
    assert_eq!(world.back().await, ["a"]);
    assert!(world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn versions_that_cannot_be_compared_are_not_waited_for() {
    let world = World::new();
    world.record("a", vec![write("one/x", "x7")]);
    assert!(!world.parks("a") && world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_write_known_by_its_version_waits_for_every_namespace() {
    let world = World::new();
    world.record("a", vec![Write { source: 0, version: "7".into(), object: None, concerns: None }]);
    world.at.reach("one", 7);
    assert!(world.parks("a"));
    world.at.reach("two", 7);
    assert_eq!(world.back().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_limit_beyond_all_times_is_none() {
    let world = World::new();
    let guard = Guard::new(Duration::MAX, Counter::noop());
    guard.record(&"a", vec![write("one/x", "7")], &world.sources, &world.queue);
    assert!(guard.park(&"a", 0, &world.sources).is_some());
    assert_eq!(guard.settle(&world.sources, &world.queue), None);
}
