//! The health of an informer when its collection is gone, when its reflector panics, and after it
//! was stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dogwatch_client::Error;
use dogwatch_core::{ListParams, Reason, ResourceType, WatchParams};
use dogwatch_informer::{HealthState, Index, ListWatch, Lists, SharedInformer, Watches};
use futures_core::future::BoxFuture;

use crate::live::Live;
use crate::script::{MINUTE, SECOND, Thing};

async fn followed(source: impl ListWatch<Thing>) -> SharedInformer<Thing> {
    let informer = SharedInformer::new(source);
    informer.start();
    informer.synced().await.expect("the informer syncs");
    informer
}

/// The informer retries every 30 s; a reader of the health must not see another state in between.
#[tokio::test(start_paused = true)]
async fn a_collection_is_reported_gone_until_it_is_back_and_counters_continue() {
    let live = Live::new(&["a@1"]);
    let informer = followed(live.clone()).await;
    live.expire();
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(informer.health().relists, 1);

    live.refuse(Some(Reason::NotFound));
    tokio::time::sleep(4 * MINUTE).await;
    let asked = live.lists();
    for second in 0..300 {
        tokio::time::sleep(SECOND).await;
        let health = informer.health();
        assert_eq!(health.state, HealthState::NotServed, "after {second} s: {health}");
        assert!(health.problem.is_some() && health.synced && !health.is_ok(), "{health}");
    }
    assert!(
        (9..=11).contains(&(live.lists() - asked)),
        "expected a list every 30 s, got {}",
        live.lists() - asked
    );

    live.refuse(None);
    tokio::time::sleep(MINUTE).await;
    let health = informer.health();
    assert!(health.is_ok() && health.synced, "{health}");
    assert_eq!(health.relists, 2);
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_is_gone_is_reported_as_retrying_once_the_server_rejects_requests() {
    let live = Live::new(&["a@1"]);
    let informer = followed(live.clone()).await;
    live.refuse(Some(Reason::NotFound));
    tokio::time::sleep(4 * MINUTE).await;
    live.refuse(Some(Reason::Forbidden));
    tokio::time::sleep(MINUTE).await;
    let health = informer.health();
    assert!(matches!(health.state, HealthState::Retrying { .. }), "{health}");
    assert!(health.to_string().contains("grant the verbs"), "{health}");
}

/// A source that panics while `broken` is set.
#[derive(Clone)]
struct Fragile {
    live: Live,
    broken: Arc<AtomicBool>,
}

impl ListWatch<Thing> for Fragile {
    fn resource(&self) -> &ResourceType {
        self.live.resource()
    }

    fn list(&self, params: ListParams) -> Lists<Thing> {
        self.live.list(params)
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'static, Result<Watches<Thing>, Error>> {
        if self.broken.load(Ordering::Relaxed) {
            // Unlike `panic!`, this prints nothing.
            std::panic::resume_unwind(Box::new("a bug in the source"));
        }
        self.live.watch(params)
    }

    fn lacks_initial_events(&self) -> bool {
        true
    }
}

/// The health used to remain "synced" for half a minute, because the last health of the reflector
/// that had panicked was still shown.
#[tokio::test(start_paused = true)]
async fn a_source_that_panics_is_reported_as_a_problem_and_the_reflector_is_restarted() {
    let source = Fragile { live: Live::new(&["a@1"]), broken: Arc::default() };
    let informer = followed(source.clone()).await;
    assert!(informer.health().is_ok());
    source.broken.store(true, Ordering::Relaxed);
    source.live.expire();
    for _ in 0..100 {
        tokio::time::sleep(SECOND).await;
        assert_eq!(informer.store().len(), 1, "known objects are kept");
    }
    let health = informer.health();
    assert!(matches!(health.state, HealthState::Retrying { .. }), "{health}");
    assert!(health.to_string().contains("the reflector of things failed"), "{health}");
    let older = source.live.listed_at().into_iter().skip(1).find(|it| it != "1");
    assert_eq!(older, None, "no list may be older than the known state");

    source.broken.store(false, Ordering::Relaxed);
    source.live.put("b@9");
    tokio::time::sleep(MINUTE).await;
    assert!(informer.health().is_ok(), "{}", informer.health());
    assert_eq!(informer.store().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_informer_is_not_synced() {
    let live = Live::new(&["a@1"]);
    let informer = followed(live.clone()).await;
    informer.stop().await;
    let health = informer.health();
    assert_eq!(
        (health.state, health.is_ok(), health.to_string().as_str()),
        (HealthState::Stopped, false, "stopped")
    );
}

/// If the index function panics for one object, the object is still stored and delivered, and the
/// panic is counted.
#[tokio::test(start_paused = true)]
async fn an_index_function_that_panics_stops_nothing() {
    let live = Live::new(&["a@1", "bad@2", "c@3"]);
    let informer = SharedInformer::new(live.clone());
    let index = Index::new("name", |it: &Thing| {
        if &*it.metadata.name == "bad" {
            std::panic::resume_unwind(Box::new("a bug in the index"));
        }
        [it.metadata.name.to_string()]
    });
    informer.add_index(index).expect("the index name is free");
    informer.start();
    informer.synced().await.expect("the informer syncs");
    live.put("bad@4");
    live.put("d@5");
    informer.wait_until(&"5".into()).await.expect("the informer follows");
    let store = informer.store();
    assert_eq!((store.len(), store.index_panics()), (4, 2));
    assert_eq!(store.index_values("name").expect("the index exists"), ["a", "c", "d"]);
    assert!(informer.health().is_ok(), "{}", informer.health());
}

/// A watcher of the health is woken when there is something to show, and not otherwise, up to the
/// end.
#[tokio::test(start_paused = true)]
async fn health_can_be_waited_for_through_failures_removals_and_the_end() {
    let live = Live::new(&["a@1"]);
    live.refuse(Some(Reason::Forbidden));
    let informer = SharedInformer::new(live.clone());
    let mut health = informer.health_watch();
    assert_eq!(health.get().state, HealthState::Starting);
    informer.start();
    let problem = health.wait_for(|it| it.problem.is_some()).await.expect("the informer runs");
    assert!(problem.to_string().contains("Access Denied"), "{problem}");
    live.refuse(None);
    assert!(health.wait_for(|it| it.is_ok()).await.is_some());

    {
        let mut waiting = std::pin::pin!(health.changed());
        live.put("b@2");
        informer.wait_until(&"2".into()).await.expect("the informer follows");
        assert!(futures_util::poll!(waiting.as_mut()).is_pending(), "an event does not wake the watcher");
        live.refuse(Some(Reason::NotFound));
        assert!(waiting.await, "the watches have ended");
    }

    // The reflector that found the collection gone is not the one that finds it again.
    assert!(health.wait_for(|it| it.state == HealthState::NotServed).await.is_some());
    live.refuse(None);
    let back = health.wait_for(|it| it.is_ok()).await.expect("the collection is back");
    assert_eq!((back.synced, informer.store().len()), (true, 2));

    let mut other = informer.health_watch();
    drop(informer);
    assert_eq!(
        health.wait_for(|it| it.state == HealthState::Stopped).await.map(|it| it.is_ok()),
        Some(false)
    );
    assert!(other.changed().await && !other.changed().await, "the end is the last change");
    assert_eq!(health.wait_for(|it| it.is_ok()).await, None);

    let never_started = SharedInformer::new(live);
    let mut health = never_started.health_watch();
    drop(never_started);
    assert!(health.changed().await && !health.changed().await);
    assert_eq!(health.get().state, HealthState::Stopped);
}
