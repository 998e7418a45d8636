//! Failing reconciles: retried with a growing backoff for each key; or given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use dogwatch_controller::{Action, BoxError, Context, Controller, Terminal};
use dogwatch_core::ObjectKey;
use dogwatch_workqueue::limiter::FastSlow;

use crate::test_cluster::{Calls, Running, SECOND, TestCluster, name, settle};

#[derive(Debug, thiserror::Error)]
enum TestError {
    #[error("busy")]
    Busy,
    #[error("cannot be")]
    Never(#[source] Terminal),
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_retried_with_backoff_until_it_succeeds() {
    let cluster = TestCluster::with(&["a"]).await;
    let (calls, maps, good) = (Calls::new(), cluster.informer(), Arc::new(AtomicBool::new(false)));
    let (recorded, heals) = (calls.clone(), good.clone());
    let controller = Controller::of(&maps).build(move |_: ObjectKey, context: Context| {
        recorded.add(context.attempt());
        let good = heals.load(Ordering::Relaxed);
        async move { if good { Ok(Action::Done) } else { Err(TestError::Busy) } }
    });
    let running = Running::new(controller);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let timed = calls.take_timed();
    let waits: Vec<_> = timed.windows(2).map(|it| (it[1].0 - it[0].0).as_millis()).collect();
    assert_eq!(waits, [5, 10, 20, 40]);
    assert_eq!(timed.iter().map(|it| it.1.as_str()).collect::<Vec<_>>(), ["0", "1", "2", "3", "4"]);
    good.store(true, Ordering::Relaxed);
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.take(), ["5"]);
    good.store(false, Ordering::Relaxed);
    cluster.put("a", "1").await;
    tokio::time::sleep(Duration::from_millis(8)).await;
    assert_eq!(calls.take(), ["0", "1"], "earlier failures are forgotten");
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_is_not_retried_until_the_object_changes() {
    for direct in [true, false] {
        let cluster = TestCluster::with(&["a"]).await;
        let (calls, maps) = (Calls::new(), cluster.informer());
        let recorded = calls.clone();
        let controller = Controller::of(&maps).build(move |_: ObjectKey, context: Context| {
            recorded.add(context.attempt());
            async move {
                if direct {
                    return Err(BoxError::from(Terminal::new("a bad host")));
                }
                Err(TestError::Never(Terminal::new("a bad host")))?;
                Ok(Action::Done)
            }
        });
        let running = Running::new(controller);
        tokio::time::sleep(2000 * SECOND).await;
        assert_eq!(calls.take(), ["0"]);
        cluster.put("a", "1").await;
        tokio::time::sleep(2000 * SECOND).await;
        assert_eq!(calls.take(), ["0"], "the failure count is reset");
        running.stop().await.expect("clean shutdown");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_only_its_own_key() {
    let cluster = TestCluster::with(&["a", "b"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let recorded = calls.clone();
    let controller = Controller::of(&maps).build(move |key: ObjectKey, context: Context| {
        recorded.add(name(&key));
        assert!(key.name() != "b" || context.attempt() != 1, "even before there is a future");
        async move {
            assert!(key.name() != "b" || context.attempt() >= 2, "no good");
            Ok::<_, BoxError>(Action::Done)
        }
    });
    let running = Running::new(controller);
    tokio::time::sleep(SECOND).await;
    let timed = calls.take_timed();
    let names: Vec<_> = timed.iter().map(|it| it.1.as_str()).collect();
    assert_eq!(names, ["a", "b", "b", "b"]);
    assert_eq!((timed[3].0 - timed[1].0).as_millis(), 15);
    cluster.put("a", "1").await;
    settle().await;
    assert_eq!(calls.take(), ["a"]);
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_times_out_is_aborted_and_retried() {
    let cluster = TestCluster::with(&["a", "b"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let recorded = calls.clone();
    let controller = Controller::of(&maps).reconcile_timeout(10 * SECOND).build(
        move |key: ObjectKey, context: Context| {
            recorded.add(name(&key));
            let ended = recorded.clone();
            async move {
                if key.name() == "a" && context.attempt() == 0 {
                    std::future::pending::<()>().await;
                }
                ended.add(format!("{} done", key.name()));
                Ok::<_, BoxError>(Action::Done)
            }
        },
    );
    let running = Running::new(controller);
    tokio::time::sleep(11 * SECOND).await;
    assert_eq!(calls.take(), ["a", "b", "b done", "a", "a done"]);
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn a_custom_limiter_is_used() {
    let cluster = TestCluster::with(&["a"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let recorded = calls.clone();
    let controller = Controller::of(&maps).limiter(FastSlow::new(SECOND, 100 * SECOND, 2)).build(
        move |_: ObjectKey, _| {
            recorded.add("called");
            async { Err::<Action, _>(TestError::Busy) }
        },
    );
    let running = Running::new(controller);
    tokio::time::sleep(150 * SECOND).await;
    assert_eq!(calls.take_millis(), [0, 1000, 2000, 102_000]);
    running.stop().await.expect("clean shutdown");
}

/// A limiter is user code too. Its panic must be reported, not swallowed.
#[tokio::test(start_paused = true)]
async fn a_limiter_that_panics_stops_the_controller_with_its_message() {
    struct Broken(AtomicU32);
    impl dogwatch_workqueue::RateLimiter<ObjectKey> for Broken {
        fn when(&self, _: &ObjectKey) -> Duration {
            panic!("the limiter failed")
        }
        fn forget(&self, _: &ObjectKey) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn requeues(&self, _: &ObjectKey) -> u32 {
            0
        }
    }
    let cluster = TestCluster::with(&["a"]).await;
    let controller = Controller::of(&cluster.informer())
        .named("limited")
        .limiter(Broken(AtomicU32::new(0)))
        .build(|_, _| async { Err::<Action, _>(TestError::Busy) });
    let error = Running::new(controller).ended().await.expect_err("a worker panicked").to_string();
    assert_eq!(error, "a task of controller limited panicked outside of a reconcile: the limiter failed");
}
