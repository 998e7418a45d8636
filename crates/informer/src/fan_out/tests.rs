//! Tests of the fan-out together with mailboxes and registrations.

use std::sync::Mutex;

use dogwatch_core::ResourceType;
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::task::yield_now;

use super::*;
use crate::change::Deleted;
use crate::handler::{EventHandler, OnChange};
use crate::metrics::InformerMetrics;
use crate::overflow::{Lag, Overflow};
use crate::pruning::FIRST_PRUNING;
use crate::registration::{Changes, HandlerOptions, Registration};
use crate::subscription::HandlerContext;

fn shared() -> HandlerContext {
    let resource = ResourceType::namespaced(dogwatch_core::Gvk::new("", "v1", "ConfigMap"), "configmaps");
    HandlerContext::new(InformerMetrics::new("test", &resource), None)
}

fn map(name: &str, version: u64) -> Arc<ConfigMap> {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.metadata.resource_version = Some(version.to_string());
    Arc::new(map)
}

fn added(name: &str, version: u64) -> Change<ConfigMap> {
    Change::Added { object: map(name, version), initial: false }
}

fn updated(name: &str, old: u64, new: u64) -> Change<ConfigMap> {
    Change::Updated { old: map(name, old), new: map(name, new) }
}

fn nothing() -> Replay<ConfigMap> {
    Replay { len: 0, build: Box::new(Vec::new) }
}

fn there(changes: Vec<Change<ConfigMap>>) -> Replay<ConfigMap> {
    Replay { len: changes.len(), build: Box::new(move || changes) }
}

/// Returns a handler that records the changes it receives, and the record.
fn recorder() -> (impl EventHandler<ConfigMap>, Arc<Mutex<Vec<Change<ConfigMap>>>>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&received);
    (OnChange(move |change: &Change<ConfigMap>| to.lock().unwrap().push(change.clone())), received)
}

fn with(overflow: Overflow) -> HandlerOptions {
    HandlerOptions::default().overflow(overflow)
}

#[tokio::test(start_paused = true)]
async fn in_4_every_handler_receives_every_change_in_order() {
    let shared = shared();
    let mut fan_out = FanOut::new(shared.hasher.clone());
    let mut all = Vec::new();
    for overflow in [Overflow::Coalesce, Overflow::Grow, Overflow::Block(1)] {
        let (handler, received) = recorder();
        let (subscription, registration) = NewSubscription::handler(handler, with(overflow), &shared);
        fan_out.join(subscription, nothing());
        all.push((received, registration));
    }
    let changes: Vec<_> = (0..200).map(|it| added(&it.to_string(), it + 1)).collect();
    fan_out.publish(changes.clone());
    fan_out.initial_list_delivered();
    for (_, registration) in &all {
        registration.synced().await.expect("the handler is running");
        assert_eq!(registration.lag(), Lag::default());
    }
    fan_out.publish(vec![updated("7", 8, 300)]);
    fan_out.close(Duration::MAX).await;
    for (received, _) in all {
        let received = received.lock().unwrap();
        assert_eq!((&received[..200], &received[200..]), (&changes[..], &[updated("7", 8, 300)][..]));
    }
}

#[tokio::test(start_paused = true)]
async fn pending_changes_are_merged_under_coalesce_and_kept_under_grow() {
    let shared = shared();
    let mut fan_out = FanOut::new(shared.hasher.clone());
    let (merged, mut merging) = NewSubscription::stream(with(Overflow::Coalesce), &shared);
    let (grown, mut growing) = NewSubscription::stream(with(Overflow::Grow), &shared);
    fan_out.join(merged, nothing());
    fan_out.join(grown, nothing());
    let history = [added("a", 1), added("b", 2), updated("a", 1, 3), updated("a", 3, 4)];
    fan_out.publish(vec![history[0].clone(), history[1].clone()]);
    fan_out.publish(vec![history[2].clone()]);
    fan_out.publish(vec![history[3].clone()]);
    assert_eq!(growing.registration().lag().pending, 4);

    assert_eq!(merging.next().await, Some(added("a", 1)));
    assert_eq!(merging.registration().lag().pending, 3, "two of the taken object, and one pending");
    assert_eq!(merging.next().await, Some(updated("a", 1, 4)));
    assert_eq!(merging.next().await, Some(added("b", 2)));
    for change in history {
        assert_eq!(growing.next().await, Some(change));
    }
    fan_out.close(Duration::MAX).await;
    assert_eq!((merging.next().await, growing.next().await), (None, None));
}

/// A batch may contain several changes of one object, if the informer itself was behind.
#[tokio::test(start_paused = true)]
async fn a_handler_that_keeps_up_receives_every_change_of_a_batch() {
    let shared = shared();
    let mut fan_out = FanOut::new(shared.hasher.clone());
    let (subscription, mut changes) = NewSubscription::stream(with(Overflow::Coalesce), &shared);
    fan_out.join(subscription, nothing());
    let gone = Change::Deleted(Deleted::Seen(map("a", 4)));
    let batch = vec![added("a", 1), updated("a", 1, 2), updated("a", 2, 3), gone];
    fan_out.publish(batch.clone());
    for change in batch {
        assert_eq!(changes.next().await, Some(change));
    }
}

/// The handler may own the object, or have written it: the deletion matters even if the
/// addition was never delivered.
#[tokio::test(start_paused = true)]
async fn a_slow_handler_receives_an_object_that_was_created_and_deleted() {
    let shared = shared();
    let mut fan_out = FanOut::new(shared.hasher.clone());
    let (subscription, mut changes) = NewSubscription::stream(with(Overflow::Coalesce), &shared);
    fan_out.join(subscription, nothing());
    let gone = Change::Deleted(Deleted::Seen(map("a", 2)));
    fan_out.publish(vec![added("a", 1)]);
    fan_out.publish(vec![gone.clone()]);
    assert_eq!(changes.next().await, Some(added("a", 1)));
    assert_eq!(changes.next().await, Some(gone));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_never_reads_keeps_at_most_three_changes_of_each_object() {
    let shared = shared();
    let mut fan_out = FanOut::new(shared.hasher.clone());
    let (subscription, mut changes) = NewSubscription::stream(with(Overflow::Coalesce), &shared);
    fan_out.join(subscription, nothing());
    fan_out.publish(vec![added("a", 1)]);
    // Some objects are created and deleted, and one changes all the time.
    let gone = |name: &str, version| Change::Deleted(Deleted::Seen(map(name, version)));
    let mut objects = 1;
    for version in 1..20_000 {
        let mut batch = vec![updated("a", version, version + 1)];
        if version % 1000 == 0 {
            objects += 1;
            batch.extend([added("passing", version), updated("passing", version, version + 1)]);
            batch.push(gone("passing", version + 1));
        }
        fan_out.publish(batch);
        assert!(changes.registration().lag().pending < 15_000);
    }
    assert_eq!(changes.next().await, Some(added("a", 1)));
    assert_eq!(changes.registration().lag().pending, 3 * objects - 1, "the first object was not deleted");
    assert_eq!(changes.next().await, Some(updated("a", 1, 20_000)));
    for version in (1000..20_000).step_by(1000) {
        assert_eq!(changes.next().await, Some(added("passing", version)));
        assert_eq!(changes.next().await, Some(updated("passing", version, version + 1)));
        assert_eq!(changes.next().await, Some(gone("passing", version + 1)));
    }
}

#[tokio::test(start_paused = true)]
async fn in_6_a_late_handler_receives_existing_objects_first_and_then_later_changes() {
    let shared = shared();
    let mut fan_out = FanOut::new(shared.hasher.clone());
    fan_out.initial_list_delivered();
    let (subscription, mut changes) = NewSubscription::stream(with(Overflow::Coalesce), &shared);
    let initial = |name, version| Change::Added { object: map(name, version), initial: true };
    fan_out.join(subscription, there(vec![initial("a", 1), initial("b", 2)]));
    fan_out.publish(vec![updated("b", 2, 3)]);
    fan_out.publish(vec![added("c", 4)]);
    let registration = changes.registration();
    assert_eq!(registration.lag().pending, 4);
    assert_eq!(changes.next().await, Some(initial("a", 1)));
    assert_eq!(changes.next().await, Some(initial("b", 2)));
    assert_eq!(changes.next().await, Some(updated("b", 2, 3)));
    assert!(!registration.is_synced(), "the last change is not finished");
    assert_eq!(changes.next().await, Some(added("c", 4)));
    assert!(registration.is_synced());
}

/// Merging the backlog before the late handler's task has built its replay must not reorder the
/// two.
#[tokio::test(start_paused = true)]
async fn in_6_existing_objects_come_first_even_after_many_later_changes() {
    let shared = shared();
    let mut fan_out = FanOut::new(shared.hasher.clone());
    let (subscription, mut changes) = NewSubscription::stream(with(Overflow::Coalesce), &shared);
    fan_out.join(subscription, there(vec![added("a", 1), added("b", 2)]));
    for version in 2..20_000 {
        fan_out.publish(vec![updated("b", version, version + 1)]);
    }
    assert_eq!(changes.next().await, Some(added("a", 1)));
    assert_eq!(changes.next().await, Some(added("b", 2)));
    assert_eq!(changes.next().await, Some(updated("b", 2, 20_000)));
}

#[tokio::test(start_paused = true)]
async fn in_5_a_handler_that_panics_is_counted_and_goes_on_and_is_synced() {
    let shared = shared();
    let mut fan_out = FanOut::new(shared.hasher.clone());
    let (mut inner, received) = recorder();
    let handler = OnChange(move |change: &Change<ConfigMap>| {
        assert_ne!(change.object().header().name, "bad", "the handler panics on this object");
        inner.on_change(change);
    });
    let (subscription, registration) = NewSubscription::handler(handler, HandlerOptions::default(), &shared);
    fan_out.join(subscription, nothing());
    fan_out.publish(vec![added("a", 1), added("bad", 2), added("c", 3)]);
    fan_out.publish(vec![added("d", 4)]);
    fan_out.initial_list_delivered();
    registration.synced().await.expect("the handler goes on");
    assert_eq!(registration.lag().panics, 1);
    assert_eq!(*received.lock().unwrap(), [added("a", 1), added("c", 3), added("d", 4)]);
}

#[tokio::test(start_paused = true)]
async fn in_8_a_removed_handler_receives_nothing_more() {
    let shared = shared();
    let mut fan_out = FanOut::new(shared.hasher.clone());
    let slot = Arc::new(Mutex::new(None::<Registration>));
    let (mut inner, received) = recorder();
    let handler = OnChange({
        let slot = Arc::clone(&slot);
        move |change: &Change<ConfigMap>| {
            inner.on_change(change);
            // From inside a call, so that one is certainly running.
            slot.lock().unwrap().as_ref().expect("set before the first change").remove();
        }
    });
    let (subscription, registration) = NewSubscription::handler(handler, HandlerOptions::default(), &shared);
    *slot.lock().unwrap() = Some(registration.clone());
    fan_out.join(subscription, nothing());
    fan_out.publish(vec![added("a", 1), added("b", 2)]);
    assert!(registration.synced().await.is_err(), "the handler ends before it is synced");
    assert_eq!(*received.lock().unwrap(), [added("a", 1)]);
    registration.remove();
    registration.shut_down().await;
    fan_out.publish(vec![added("c", 3)]);
    assert!(fan_out.members.is_empty());
    assert_eq!(received.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn handlers_that_have_ended_are_forgotten_although_not_all_are_looked_at_each_time() {
    let shared = shared();
    let mut fan_out = FanOut::new(shared.hasher.clone());
    for _ in 0..1_000 {
        let (subscription, changes) = NewSubscription::stream(HandlerOptions::default(), &shared);
        fan_out.join(subscription, nothing());
        drop::<Changes<ConfigMap>>(changes);
    }
    let kept = shared.remembered();
    assert!(kept <= FIRST_PRUNING && fan_out.members.len() <= FIRST_PRUNING, "{kept} are kept");
    assert_eq!(shared.handlers(), []);
    let mut all = Vec::new();
    for _ in 0..1_000 {
        let (subscription, changes) = NewSubscription::stream(HandlerOptions::default(), &shared);
        fan_out.join(subscription, nothing());
        all.push(changes);
    }
    assert_eq!((shared.handlers().len(), fan_out.members.len()), (1_000, 1_000));
}

#[tokio::test(start_paused = true)]
async fn in_8_a_handler_whose_informer_never_ran_can_be_shut_down() {
    let shared = shared();
    let (handler, _) = recorder();
    let (subscription, registration) = NewSubscription::handler(handler, HandlerOptions::default(), &shared);
    registration.shut_down().await;
    drop(subscription);
}

#[tokio::test(start_paused = true)]
async fn a_blocking_handler_makes_the_informer_wait_and_a_removed_one_does_not() {
    let shared = shared();
    let mut fan_out = FanOut::new(shared.hasher.clone());
    let (subscription, mut changes) = NewSubscription::stream(with(Overflow::Block(2)), &shared);
    fan_out.join(subscription, nothing());
    fan_out.publish(vec![added("a", 1), added("b", 2)]);
    fan_out.room().await;
    fan_out.publish(vec![added("c", 3)]);
    {
        let mut room = std::pin::pin!(fan_out.room());
        assert!(futures_util::poll!(room.as_mut()).is_pending());
        changes.next().await;
        assert!(futures_util::poll!(room.as_mut()).is_pending(), "the first change is taken, not finished");
        changes.next().await;
        room.await;
    }
    fan_out.publish(vec![added("d", 4), added("e", 5)]);
    let registration = changes.registration();
    let (_, ()) = tokio::join!(fan_out.room(), async {
        yield_now().await;
        registration.remove();
    });
    assert_eq!(changes.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn in_9_each_handler_is_resynced_at_its_own_interval() {
    let shared = shared();
    let mut fan_out = FanOut::new(shared.hasher.clone());
    let mut handlers = Vec::new();
    for period in [Some(2), Some(3), None] {
        let mut options = with(Overflow::Grow);
        if let Some(period) = period {
            options = options.resync_every(Duration::from_secs(period));
        }
        let (subscription, changes) = NewSubscription::stream(options, &shared);
        fan_out.join(subscription, nothing());
        handlers.push(changes);
    }
    let start = Instant::now();
    let (mut received, mut counts) = (Vec::new(), [0; 3]);
    while start.elapsed() < Duration::from_secs(6) {
        let next = fan_out.next_resync().expect("two handlers have an interval");
        tokio::time::sleep_until(next).await;
        fan_out.resync(Instant::now(), || vec![updated("a", 1, 1)]);
        for (count, changes) in counts.iter_mut().zip(&mut handlers) {
            while changes.next().now_or_never().flatten().is_some() {
                *count += 1;
            }
        }
        received.push((start.elapsed().as_secs(), counts));
    }
    assert_eq!(received, [(2, [1, 0, 0]), (3, [1, 1, 0]), (4, [2, 1, 0]), (6, [3, 2, 0])]);
}

/// client-go drops pending changes at once. Here, a handler that is only a little behind may
/// finish, and one that is far behind must not delay the end of a program.
#[tokio::test(start_paused = true)]
async fn in_10_the_end_waits_for_slow_handlers_at_most_for_the_grace_period() {
    for (grace, calls) in [(Duration::MAX, 1000), (Duration::from_secs(5), 1000), (Duration::ZERO, 0)] {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (handler, received) = recorder();
        let (subscription, registration) =
            NewSubscription::handler(handler, HandlerOptions::default(), &shared);
        fan_out.join(subscription, nothing());
        let (subscription, mut changes) = NewSubscription::stream(HandlerOptions::default(), &shared);
        fan_out.join(subscription, nothing());
        fan_out.publish((0..1000).map(|it| added(&it.to_string(), it + 1)).collect());
        fan_out.close(grace).await;
        assert_eq!(received.lock().unwrap().len(), calls, "with a grace of {grace:?}");
        registration.shut_down().await;
        assert!(changes.next().await.is_some(), "a stream keeps the changes that it has not yielded");
    }
}

#[test]
fn in_9_a_resync_is_at_most_once_a_second() {
    let options = HandlerOptions::default().resync_every(Duration::from_millis(5));
    assert_eq!(options.resync_every, Some(Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn the_numbers_of_a_handler_add_up_and_disappear_with_it() {
    let shared = shared();
    let mut fan_out = FanOut::new(shared.hasher.clone());
    let options = with(Overflow::Coalesce).name("slow");
    let (subscription, mut changes) = NewSubscription::stream(options, &shared);
    fan_out.join(subscription, there(vec![added("z", 1)]));
    for change in [added("a", 2), updated("a", 2, 3), updated("a", 3, 4)] {
        fan_out.publish(vec![change]);
    }
    let numbers = || {
        let handlers = shared.handlers();
        let it = handlers.first().expect("there is a handler");
        assert_eq!((handlers.len(), it.name.as_str()), (1, "slow"));
        (it.received, it.delivered, it.merged, it.pending)
    };
    assert_eq!(numbers(), (4, 0, 0, 4));
    for expected in [added("z", 1), added("a", 2), updated("a", 2, 4)] {
        assert_eq!(changes.next().await, Some(expected));
    }
    assert!(changes.next().now_or_never().is_none());
    assert_eq!(numbers(), (4, 3, 1, 0));
    drop(changes);
    assert!(shared.handlers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn lag_reports_how_long_the_oldest_change_has_waited() {
    let shared = shared();
    let mut fan_out = FanOut::new(shared.hasher.clone());
    let (subscription, mut changes) = NewSubscription::stream(with(Overflow::Coalesce), &shared);
    fan_out.join(subscription, nothing());
    fan_out.publish(vec![added("a", 1)]);
    tokio::time::advance(Duration::from_secs(5)).await;
    fan_out.publish(vec![updated("a", 1, 2), added("b", 3)]);
    assert_eq!(changes.registration().lag().oldest, Some(Duration::from_secs(5)));
    changes.next().await;
    assert_eq!(changes.registration().lag().oldest, Some(Duration::ZERO));
}
