//! How a controller ends: what is still done, what is left, what is cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dogwatch_controller::{Action, Controller, ControllerBuilder, ReconcileError};
use dogwatch_core::ObjectKey;
use dogwatch_informer::WaitError;
use tokio::time::Instant;

use crate::world::{Calls, HOUR, Running, SECOND, World, name, settle};

/// A controller whose reconciles take a second and come again in an hour.
fn slow(
    world: &World,
    calls: &Calls,
    adjust: impl FnOnce(ControllerBuilder<ObjectKey>) -> ControllerBuilder<ObjectKey>,
) -> Controller {
    let calls = calls.clone();
    adjust(Controller::for_(&world.informer()).named("slow")).build(move |key: ObjectKey, _| {
        let calls = calls.clone();
        async move {
            calls.add(format!("{} begun", name(&key)));
            tokio::time::sleep(SECOND).await;
            calls.add(format!("{} done", name(&key)));
            Ok::<_, ReconcileError>(Action::RequeueAfter(HOUR))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_what_is_queued_is_worked_off_and_what_is_delayed_is_left() {
    let world = World::with(&["a", "b", "c"]).await;
    let calls = Calls::new();
    let running = Running::new(slow(&world, &calls, |it| it));
    tokio::time::sleep(SECOND + SECOND / 2).await;
    assert_eq!(calls.take(), ["a begun", "a done", "b begun"]);
    let begun = Instant::now();
    running.stop().await.expect("it ends well");
    assert_eq!(calls.take(), ["b done", "c begun", "c done"]);
    assert_eq!(begun.elapsed(), SECOND + SECOND / 2, "it does not wait for the hour");
}

#[tokio::test(start_paused = true)]
async fn a_controller_may_leave_what_is_queued_to_the_next() {
    let world = World::with(&["a", "b", "c"]).await;
    let calls = Calls::new();
    let running = Running::new(slow(&world, &calls, ControllerBuilder::abandon_queue_on_stop));
    settle().await;
    running.stop().await.expect("it ends well");
    assert_eq!(calls.take(), ["a begun", "a done"]);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_within_the_grace_period_is_cut_off_and_told() {
    let names: Vec<_> = (0..10).map(|it| format!("m{it}")).collect();
    let world = World::with(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let calls = Calls::new();
    let limit = Duration::from_millis(2500);
    let running = Running::new(slow(&world, &calls, |it| it.workers(2).grace(limit)));
    settle().await;
    let error = running.stop().await.expect_err("five seconds of work").to_string();
    assert_eq!(error, "controller slow did not end within 2.5s: 2 workers were cut off, 4 keys were left");
    let done = calls.take().iter().filter(|it| it.ends_with("done")).count();
    tokio::time::sleep(HOUR).await;
    assert_eq!((done, calls.take()), (4, vec![]), "nothing goes on");
}

#[tokio::test(start_paused = true)]
async fn dropping_what_runs_cuts_the_reconcile_off() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let world = World::with(&["a"]).await;
    let dropped = Arc::new(AtomicBool::new(false));
    let mark = dropped.clone();
    let maps = world.informer();
    let controller = Controller::for_(&maps).build(move |_: ObjectKey, _| {
        let dropped = Dropped(mark.clone());
        async move {
            let _dropped = dropped;
            std::future::pending::<Result<Action, ReconcileError>>().await
        }
    });
    let run = tokio::time::timeout(SECOND, controller.run(std::future::pending()));
    assert!(run.await.is_err());
    settle().await;
    assert!(dropped.load(Ordering::Relaxed));
    world.put("a", "1").await;
    settle().await;
    assert!(!maps.is_stopped(), "the informer is not the controller's to stop");
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_only_the_controller_held_ends_with_it() {
    let world = World::with(&["a"]).await;
    let calls = Calls::new();
    let maps = world.informer();
    let store = maps.store();
    let running = Running::new(slow(&world, &calls, |it| it));
    drop(maps);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(calls.take(), ["a begun", "a done"], "the controller keeps it");
    running.stop().await.expect("it ends well");
    let waiting = store.wait_until(&"1000000".into()).await;
    assert_eq!(waiting, Err(WaitError::Closed));
}

#[tokio::test(start_paused = true)]
async fn what_was_stopped_before_cannot_be_watched() {
    let world = World::with(&["a"]).await;
    let controller = slow(&world, &Calls::new(), |it| it);
    world.informers.shut_down().await;
    let error = Running::new(controller).ended().await.expect_err("the informer has ended");
    assert_eq!(error.to_string(), "controller slow cannot watch");
    let source = std::error::Error::source(&error).expect("a cause").to_string();
    assert!(source.contains("informer configmaps"), "{source}");
}
