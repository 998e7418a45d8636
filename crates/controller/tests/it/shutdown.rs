//! The shutdown of a controller: which reconciles finish, which keys are dropped, and what is
//! aborted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dogwatch_controller::{Action, BoxError, Controller, ControllerBuilder};
use dogwatch_core::ObjectKey;
use dogwatch_informer::WaitError;
use tokio::time::Instant;

use crate::test_cluster::{Calls, HOUR, Running, SECOND, TestCluster, name, settle};

/// A controller whose reconciles take a second and are requeued after an hour.
fn slow(
    cluster: &TestCluster,
    calls: &Calls,
    adjust: impl FnOnce(ControllerBuilder<ObjectKey>) -> ControllerBuilder<ObjectKey>,
) -> Controller {
    let calls = calls.clone();
    adjust(Controller::of(&cluster.informer()).named("slow")).build(move |key: ObjectKey, _| {
        let calls = calls.clone();
        async move {
            calls.add(format!("{} begun", name(&key)));
            tokio::time::sleep(SECOND).await;
            calls.add(format!("{} done", name(&key)));
            Ok::<_, BoxError>(Action::RequeueAfter(HOUR))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_queued_keys_are_drained_and_delayed_ones_dropped() {
    let cluster = TestCluster::with(&["a", "b", "c"]).await;
    let calls = Calls::new();
    let running = Running::new(slow(&cluster, &calls, |it| it));
    tokio::time::sleep(SECOND + SECOND / 2).await;
    assert_eq!(calls.take(), ["a begun", "a done", "b begun"]);
    let begun = Instant::now();
    running.stop().await.expect("clean shutdown");
    assert_eq!(calls.take(), ["b done", "c begun", "c done"]);
    assert_eq!(begun.elapsed(), SECOND + SECOND / 2, "it does not wait for the requeue");
}

#[tokio::test(start_paused = true)]
async fn a_controller_may_abandon_queued_keys() {
    let cluster = TestCluster::with(&["a", "b", "c"]).await;
    let calls = Calls::new();
    let running = Running::new(slow(&cluster, &calls, ControllerBuilder::abandon_queue_on_stop));
    settle().await;
    running.stop().await.expect("clean shutdown");
    assert_eq!(calls.take(), ["a begun", "a done"]);
}

#[tokio::test(start_paused = true)]
async fn reconciles_that_exceed_the_grace_period_are_aborted_and_reported() {
    let names: Vec<_> = (0..10).map(|it| format!("m{it}")).collect();
    let cluster = TestCluster::with(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let calls = Calls::new();
    let limit = Duration::from_millis(2500);
    let running = Running::new(slow(&cluster, &calls, |it| it.workers(2).shutdown_timeout(limit)));
    settle().await;
    let error = running.stop().await.expect_err("the work takes five seconds").to_string();
    assert_eq!(
        error,
        "controller slow did not drain within 2.5s: 2 workers were aborted, 4 keys remain queued"
    );
    let done = calls.take().iter().filter(|it| it.ends_with("done")).count();
    tokio::time::sleep(HOUR).await;
    assert_eq!((done, calls.take()), (4, vec![]), "no further calls");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_running_future_aborts_the_reconcile() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let cluster = TestCluster::with(&["a"]).await;
    let dropped = Arc::new(AtomicBool::new(false));
    let mark = dropped.clone();
    let maps = cluster.informer();
    let controller = Controller::of(&maps).build(move |_: ObjectKey, _| {
        let dropped = Dropped(mark.clone());
        async move {
            let _dropped = dropped;
            std::future::pending::<Result<Action, BoxError>>().await
        }
    });
    let run = tokio::time::timeout(SECOND, controller.run(std::future::pending()));
    assert!(run.await.is_err());
    settle().await;
    assert!(dropped.load(Ordering::Relaxed));
    cluster.put("a", "1").await;
    settle().await;
    assert!(!maps.is_stopped(), "the controller does not stop a shared informer");
}

#[tokio::test(start_paused = true)]
async fn an_informer_owned_only_by_the_controller_ends_with_it() {
    let cluster = TestCluster::with(&["a"]).await;
    let calls = Calls::new();
    let maps = cluster.informer();
    let store = maps.store().detached();
    let running = Running::new(slow(&cluster, &calls, |it| it));
    drop(maps);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(calls.take(), ["a begun", "a done"], "the controller keeps the informer alive");
    running.stop().await.expect("clean shutdown");
    let waiting = store.wait_until(&"1000000".into()).await;
    assert_eq!(waiting, Err(WaitError::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_informer_cannot_be_watched() {
    let cluster = TestCluster::with(&["a"]).await;
    let controller = slow(&cluster, &Calls::new(), |it| it);
    cluster.informers.shut_down().await;
    let error = Running::new(controller).ended().await.expect_err("the informer has ended");
    assert_eq!(error.to_string(), "controller slow cannot watch");
    let source = std::error::Error::source(&error).expect("a cause").to_string();
    assert!(source.contains("informer configmaps"), "{source}");
}

/// Informers are shared: another owner may stop one. A controller that continued would never
/// receive a change again.
#[tokio::test(start_paused = true)]
async fn a_controller_whose_informer_is_stopped_stops_with_an_error() {
    let cluster = TestCluster::with(&["a", "b"]).await;
    let secrets = cluster.informers.get::<k8s_openapi::api::core::v1::Secret>();
    for needed in [false, true] {
        let calls = Calls::new();
        let stopped = dogwatch_informer::SharedInformer::new(cluster.maps.clone());
        let controller = match needed {
            false => Controller::of(&stopped).named("x"),
            true => Controller::of(&secrets).named("x").needs(&stopped),
        };
        let recorded = calls.clone();
        let running = Running::new(controller.build(move |key: ObjectKey, _| {
            let calls = recorded.clone();
            async move {
                tokio::time::sleep(SECOND).await;
                calls.add(name(&key));
                Ok::<_, BoxError>(Action::Done)
            }
        }));
        tokio::time::sleep(SECOND / 2).await;
        stopped.stop().await;
        let begun = Instant::now();
        let error = running.ended().await.expect_err("the informer has ended").to_string();
        assert!(error.starts_with("controller x stopped: informer configmaps has ended"), "{error}");
        let expected: &[&str] = if needed { &[] } else { &["a"] };
        assert_eq!(calls.take(), expected, "running reconciles finish, and queued keys are dropped");
        assert!(begun.elapsed() < SECOND);
    }
}

/// Object types are the user's code: one that panics in the informer's task ends the informer.
#[tokio::test(start_paused = true)]
async fn a_controller_whose_informer_panics_stops_with_an_error() {
    #[derive(serde::Deserialize)]
    struct Fragile {
        metadata: dogwatch_core::Meta,
    }
    impl dogwatch_core::Object for Fragile {
        fn header(&self) -> dogwatch_core::Header<'_> {
            // The first task that reads it is the reflector, which restarts after a panic. The next
            // is the informer's own.
            static READER: std::sync::OnceLock<Option<tokio::task::Id>> = std::sync::OnceLock::new();
            let header = self.metadata.header();
            if header.name == "poison" {
                assert_eq!(*READER.get_or_init(tokio::task::try_id), tokio::task::try_id(), "on purpose");
            }
            header
        }
    }
    impl dogwatch_core::View for Fragile {
        type Of = k8s_openapi::api::core::v1::ConfigMap;
    }
    let cluster = TestCluster::with(&["a"]).await;
    let (maps, calls) = (cluster.informers.get::<Fragile>(), Calls::new());
    let running = Running::new(Controller::of(&maps).build(crate::test_cluster::Recording(calls.clone())));
    settle().await;
    assert_eq!(calls.take(), ["a"]);
    cluster.create(&crate::test_cluster::map("poison")).await;
    let error = tokio::time::timeout(60 * SECOND, running.ended()).await.expect("it ends in time");
    let error = error.expect_err("the informer has ended").to_string();
    assert!(error.starts_with("controller configmap stopped: informer configmaps has ended"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn maximum_durations_are_accepted() {
    let cluster = TestCluster::with(&["a"]).await;
    let calls = Calls::new();
    let recorded = calls.clone();
    let (maps, without_end) = (cluster.informer(), Duration::MAX);
    let controller = Controller::of(&maps)
        .sync_timeout(without_end)
        .shutdown_timeout(without_end)
        .reconcile_timeout(without_end)
        .consistency_wait(without_end);
    let running =
        Running::new(controller.build(move |key: ObjectKey, context: dogwatch_controller::Context| {
            recorded.add(name(&key));
            context.wrote_version(
                &dogwatch_core::Gvk::new("", "v1", "ConfigMap"),
                "18446744073709551615".into(),
            );
            std::future::ready(Ok::<_, BoxError>(Action::RequeueAfter(without_end)))
        }));
    tokio::time::sleep(HOUR).await;
    assert_eq!(calls.take(), ["a"]);
    running.stop().await.expect("clean shutdown");
}
