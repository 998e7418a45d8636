//! The run of a controller: which keys it reconciles, in which order, and how many concurrently.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch_apiserver::faults::Rule;
use dogwatch_controller::{Action, BoxError, Context, Controller, LOW_PRIORITY, Reconciler};
use dogwatch_core::ObjectKey;
use dogwatch_informer::Lister;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use tokio::sync::Semaphore;

use crate::test_cluster::{Calls, HOUR, Running, SECOND, TestCluster, name, settle};

/// Records the state of the cache at each call.
struct Reader {
    maps: Lister<ConfigMap>,
    calls: Calls,
}

impl Reconciler for Reader {
    type Error = BoxError;

    async fn reconcile(&self, key: &ObjectKey, _: &Context) -> Result<Action, BoxError> {
        let seen = if self.maps.get(key).is_some() { "there" } else { "gone" };
        self.calls.add(format!("{} is {seen}", key.name()));
        Ok(Action::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_reconciles_the_initial_objects_and_then_the_changes() {
    let cluster = TestCluster::with(&["a", "b"]).await;
    let (maps, calls) = (cluster.informer(), Calls::new());
    let reader = Reader { maps: maps.lister(), calls: calls.clone() };
    let running = Running::new(Controller::of(&maps).build(reader));
    settle().await;
    assert_eq!(calls.take(), ["a is there", "b is there"], "in the order of the list");
    cluster.put("b", "1").await;
    cluster.delete("a").await;
    cluster.create(&crate::test_cluster::map("c")).await;
    settle().await;
    assert_eq!(calls.take(), ["b is there", "a is gone", "c is there"]);
    running.stop().await.expect("clean shutdown");
    cluster.put("b", "2").await;
    settle().await;
    assert_eq!(calls.take(), [] as [&str; 0], "no calls after the stop");
}

#[tokio::test(start_paused = true)]
async fn workers_start_only_after_every_handler_has_the_initial_objects() {
    let cluster = TestCluster::with(&["a"]).await;
    cluster.server.faults().rule(Rule::on("watch").or("list").resource("secrets").delay(10 * SECOND));
    let (maps, secrets, calls) = (cluster.informer(), cluster.informers.get::<Secret>(), Calls::new());
    let recorded = calls.clone();
    let controller = Controller::of(&maps).watches(&secrets, |_| None).build(move |key, _| {
        recorded.add(name(&key));
        async { Ok::<_, BoxError>(Action::Done) }
    });
    let running = Running::new(controller);
    tokio::time::sleep(9 * SECOND).await;
    assert!(maps.is_synced());
    assert_eq!(calls.take(), [] as [&str; 0]);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(calls.take(), ["a"]);
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn a_sync_timeout_names_the_informers_that_did_not_sync_and_why() {
    let cluster = TestCluster::with(&["a"]).await;
    cluster.server.faults().rule(Rule::on("watch").or("list").resource("secrets").refuse(403));
    let (maps, secrets) = (cluster.informer(), cluster.informers.get::<Secret>());
    let controller = Controller::of(&maps)
        .named("certificates")
        .watches(&secrets, |_| None)
        .sync_timeout(30 * SECOND)
        .build(|_, _| async { Ok::<_, BoxError>(Action::Done) });
    let error = Running::new(controller).ended().await.expect_err("secrets are refused").to_string();
    let expected =
        "controller certificates did not start: after 30s, informer secrets is not synced: retrying";
    assert!(error.starts_with(expected), "{error}");
    assert!(error.contains("grant the verbs list and watch on secrets"), "{error}");
    assert!(!error.contains("configmaps"), "synced informers are not named: {error}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_before_the_sync_ends_it_at_once() {
    let cluster = TestCluster::with(&[]).await;
    cluster.server.faults().rule(Rule::on("watch").or("list").refuse(403));
    let controller =
        Controller::of(&cluster.informer()).build(|_, _| async { Ok::<_, BoxError>(Action::Done) });
    let running = Running::new(controller);
    tokio::time::sleep(SECOND).await;
    let begun = tokio::time::Instant::now();
    running.stop().await.expect("clean shutdown");
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_change_supersedes_a_requeue() {
    let cluster = TestCluster::with(&["a"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let recorded = calls.clone();
    let controller = Controller::of(&maps).build(move |key, _| {
        recorded.add(name(&key));
        let first = recorded.clone();
        async move {
            // Only the first call requests another.
            let again = first.take_timed().len() == 1;
            first.add("called");
            Ok::<_, BoxError>(if again { Action::RequeueAfter(HOUR) } else { Action::Done })
        }
    });
    let running = Running::new(controller);
    settle().await;
    assert_eq!(calls.take().len(), 1);
    calls.add("x");
    cluster.put("a", "1").await;
    settle().await;
    assert_eq!(calls.take(), ["called"], "the change triggers a call at once");
    calls.add("x");
    tokio::time::sleep(2 * HOUR).await;
    assert_eq!(calls.take(), ["x"], "the earlier requeue is superseded");
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn a_requeue_runs_when_it_is_due_with_the_same_priority() {
    let cluster = TestCluster::with(&["a"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let recorded = calls.clone();
    let controller = Controller::of(&maps).build(move |_: ObjectKey, context: Context| {
        recorded.add(format!("{} {}", context.priority(), context.attempt()));
        async { Ok::<_, BoxError>(Action::RequeueAfter(10 * SECOND)) }
    });
    let running = Running::new(controller);
    tokio::time::sleep(25 * SECOND).await;
    let calls = calls.take_timed();
    let low = format!("{LOW_PRIORITY} 0");
    assert_eq!(calls.iter().map(|it| &it.1).collect::<Vec<_>>(), [&low, &low, &low]);
    assert_eq!(calls[2].0 - calls[0].0, 20 * SECOND);
    running.stop().await.expect("clean shutdown");
}

/// A fresh change does not wait behind the initial list of a large collection.
#[tokio::test(start_paused = true)]
async fn changed_objects_are_reconciled_before_initial_ones() {
    let names: Vec<_> = (0..12).map(|it| format!("m{it:02}")).collect();
    let cluster = TestCluster::with(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let (calls, maps, gate) = (Calls::new(), cluster.informer(), Arc::new(Semaphore::new(0)));
    let (recorded, open) = (calls.clone(), gate.clone());
    let controller = Controller::of(&maps).build(move |key, _| {
        recorded.add(name(&key));
        let open = open.clone();
        async move {
            open.acquire().await.unwrap().forget();
            Ok::<_, BoxError>(Action::Done)
        }
    });
    let running = Running::new(controller);
    settle().await;
    cluster.put("m07", "1").await;
    cluster.put("m09", "1").await;
    settle().await;
    gate.add_permits(100);
    settle().await;
    let order = calls.take();
    assert_eq!(order[..4], ["m00", "m07", "m09", "m01"]);
    assert_eq!(order.len(), 12, "each key once");
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn keys_are_reconciled_concurrently_up_to_the_number_of_workers_and_never_the_same_key() {
    let names: Vec<_> = (0..20).map(|it| format!("m{it:02}")).collect();
    let cluster = TestCluster::with(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for (workers, expected) in [(None, 1), (Some(0), 1), (Some(4), 4)] {
        let (maps, held, most) =
            (cluster.informer(), Arc::new(Mutex::new(HashSet::new())), Arc::new(AtomicUsize::new(0)));
        let (keys, top) = (held.clone(), most.clone());
        let mut builder = Controller::of(&maps);
        if let Some(workers) = workers {
            builder = builder.workers(workers);
        }
        let running = Running::new(builder.build(move |key: ObjectKey, _| {
            let (keys, top) = (keys.clone(), top.clone());
            async move {
                assert!(
                    keys.lock().unwrap().insert(key.clone()),
                    "{key} is reconciled concurrently with itself"
                );
                top.fetch_max(keys.lock().unwrap().len(), Ordering::Relaxed);
                tokio::time::sleep(SECOND).await;
                keys.lock().unwrap().remove(&key);
                Ok::<_, BoxError>(Action::Done)
            }
        }));
        for round in 0..10 {
            cluster.put(&names[round % 3], &format!("{expected} {round}")).await;
            tokio::time::sleep(SECOND / 2).await;
        }
        running.stop().await.expect("clean shutdown");
        assert_eq!(most.load(Ordering::Relaxed), expected);
    }
}
