//! Known problems of other controller libraries: each test reproduces a report of their users,
//! mostly of kube-rs.

use dogwatch_apiserver::faults::{Rule, Scope};
use dogwatch_controller::{Action, BoxError, Context, Controller, Predicate, Watched};
use dogwatch_core::ObjectKey;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use crate::test_cluster::{Calls, Recording, Running, SECOND, TestCluster, map, name, settle};

/// kube-rs 1590 and its store: a deletion during an interrupted watch yields no event at all.
#[tokio::test(start_paused = true)]
async fn an_object_that_was_deleted_while_the_watch_was_down_is_reconciled() {
    let cluster = TestCluster::with(&["a", "b"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let running = Running::new(Controller::of(&maps).build(Recording(calls.clone())));
    settle().await;
    calls.take();
    cluster.server.faults().pause();
    cluster.delete("a").await;
    cluster.server.expire_history();
    cluster.server.faults().resume();
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(calls.take(), ["a"]);
    running.stop().await.expect("clean shutdown");
}

/// kube-rs: each new list reconciles all objects again, changed or not; a restart of the API server
/// causes a storm.
#[tokio::test(start_paused = true)]
async fn a_new_list_reconciles_only_changed_objects() {
    let names: Vec<_> = (0..50).map(|it| format!("m{it:02}")).collect();
    let cluster = TestCluster::with(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let running = Running::new(Controller::of(&maps).build(Recording(calls.clone())));
    settle().await;
    assert_eq!(calls.take().len(), 50);
    for round in 1..4 {
        cluster.server.faults().pause();
        cluster.put("m07", &round.to_string()).await;
        cluster.server.expire_history();
        cluster.server.faults().resume();
        tokio::time::sleep(60 * SECOND).await;
        assert_eq!(calls.take(), ["m07"]);
    }
    assert_eq!(maps.health().relists, 3);
    running.stop().await.expect("clean shutdown");
}

/// kube-rs 1080: each controller has a cache and a watch of its own.
#[tokio::test(start_paused = true)]
async fn controllers_share_one_cache_and_one_watch() {
    let cluster = TestCluster::with(&["a"]).await;
    let calls = Calls::new();
    let build = |name: &str| {
        Controller::of(&cluster.informers.get::<ConfigMap>()).named(name).build(Recording(calls.clone()))
    };
    let running: Vec<_> = ["one", "two", "three"].map(build).into_iter().map(Running::new).collect();
    settle().await;
    cluster.put("a", "1").await;
    settle().await;
    assert_eq!(calls.take(), ["a"; 6]);
    let asked = cluster.server.requests().resource("configmaps");
    assert_eq!(asked.filter(|it| it.verb == "watch" || it.verb == "list").count(), 1);
    for it in running {
        it.stop().await.expect("clean shutdown");
    }
}

/// kube-rs 1630: a running cache accepts no new subscribers.
#[tokio::test(start_paused = true)]
async fn a_late_controller_reconciles_every_object_once() {
    let cluster = TestCluster::with(&["a", "b"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    maps.start();
    maps.synced().await.expect("synced");
    cluster.create(&map("c")).await;
    settle().await;
    let running = Running::new(Controller::of(&maps).build(Recording(calls.clone())));
    settle().await;
    assert_eq!(calls.take(), ["a", "b", "c"]);
    running.stop().await.expect("clean shutdown");
}

/// kube-rs 926: the controller hangs when more than a hundred reconciles request a requeue at once.
#[tokio::test(start_paused = true)]
async fn hundreds_of_reconciles_may_requeue_at_once() {
    let names: Vec<_> = (0..300).map(|it| format!("m{it:03}")).collect();
    let cluster = TestCluster::with(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let recorded = calls.clone();
    let controller = Controller::of(&maps).workers(300).build(move |key: ObjectKey, context: Context| {
        recorded.add(name(&key));
        let fails = context.attempt() == 0 && key.name().ends_with('7');
        async move {
            tokio::time::sleep(SECOND).await;
            if fails { Err("busy") } else { Ok(Action::RequeueAfter(10 * SECOND)) }.map_err(BoxError::from)
        }
    });
    let running = Running::new(controller);
    tokio::time::sleep(25 * SECOND).await;
    let calls = calls.take();
    for name in &names {
        assert!(calls.iter().filter(|it| *it == name).count() >= 3, "{name}");
    }
    running.stop().await.expect("clean shutdown");
}

/// kube-rs: one backoff for all watches of a controller, so that one rejected watch delays the
/// events of the others by up to half a minute.
#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_delays_no_other() {
    let cluster = TestCluster::with(&["a"]).await;
    let (calls, maps, children) = (Calls::new(), cluster.informer(), cluster.informers.get::<Secret>());
    let running = Running::new(Controller::of(&maps).owns(&children).build(Recording(calls.clone())));
    settle().await;
    calls.take();
    cluster.server.faults().rule(Rule::on("watch").or("list").resource("secrets").refuse(403));
    let secrets = Scope { resource: Some("secrets".to_owned()), ..Scope::default() };
    cluster.server.faults().drop_watches_of(secrets, true);
    tokio::time::sleep(100 * SECOND).await;
    assert!(!children.health().is_ok());
    for round in 0..3 {
        let now = calls.now();
        cluster.put("a", &round.to_string()).await;
        settle().await;
        assert_eq!(calls.take_timed(), [(now, "a".to_owned())]);
    }
    running.stop().await.expect("clean shutdown");
}

/// kube-rs: pending keys have the order of a hash set, and each reconcile starts a millisecond
/// late.
#[tokio::test(start_paused = true)]
async fn keys_are_reconciled_at_once_and_in_the_order_in_which_they_changed() {
    let names: Vec<_> = (0..40).map(|it| format!("m{it:02}")).collect();
    let cluster = TestCluster::with(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let running = Running::new(Controller::of(&maps).build(Recording(calls.clone())));
    settle().await;
    assert_eq!(calls.take(), names);
    let order: Vec<_> = (0..40).map(|it| format!("m{:02}", it * 7 % 40)).collect();
    let now = calls.now();
    for name in &order {
        cluster.put(name, "1").await;
    }
    settle().await;
    assert_eq!(calls.take_timed(), order.into_iter().map(|it| (now, it)).collect::<Vec<_>>());
    running.stop().await.expect("clean shutdown");
}

/// kube-rs: an object that is deleted before it was read leaves its subscriber asleep.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_at_once_does_not_stall_the_controller() {
    let cluster = TestCluster::with(&[]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let running = Running::new(Controller::of(&maps).build(Recording(calls.clone())));
    settle().await;
    cluster.server.faults().pause();
    cluster.create(&map("brief")).await;
    cluster.delete("brief").await;
    cluster.server.faults().resume();
    settle().await;
    calls.take();
    cluster.create(&map("a")).await;
    settle().await;
    assert_eq!(calls.take(), ["a"]);
    running.stop().await.expect("clean shutdown");
}

/// kube-rs' predicates remember a hash for each name, so an identical object that is created again
/// is not seen.
#[tokio::test(start_paused = true)]
async fn an_identical_object_that_is_created_again_passes_its_predicate() {
    let cluster = TestCluster::with(&["a"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let watched = Watched::new(&maps).when(Predicate::labels_changed());
    let running = Running::new(Controller::of(watched).build(Recording(calls.clone())));
    settle().await;
    calls.take();
    for apart in [false, true] {
        cluster.delete("a").await;
        if apart {
            settle().await;
        }
        cluster.create(&map("a")).await;
        settle().await;
        assert!(!calls.take().is_empty());
    }
    running.stop().await.expect("clean shutdown");
}

/// kube-rs 1916 and 297: no backoff for each key; keys that fail often delay the others, or hammer
/// the server.
#[tokio::test(start_paused = true)]
async fn a_key_that_keeps_failing_is_retried_rarely_and_delays_no_other() {
    let cluster = TestCluster::with(&["bad", "good"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let recorded = calls.clone();
    let controller = Controller::of(&maps).build(move |key: ObjectKey, _| {
        recorded.add(name(&key));
        let outcome = if key.name() == "bad" { Err("no") } else { Ok(Action::Done) };
        async move { outcome.map_err(BoxError::from) }
    });
    let running = Running::new(controller);
    tokio::time::sleep(10_000 * SECOND).await;
    let failures = calls.take().iter().filter(|it| *it == "bad").count();
    assert!((25..32).contains(&failures), "{failures}: 5 ms, doubling to 1000 s");
    let now = calls.now();
    cluster.put("good", "1").await;
    settle().await;
    assert_eq!(calls.take_timed(), [(now, "good".to_owned())]);
    running.stop().await.expect("clean shutdown");
}
