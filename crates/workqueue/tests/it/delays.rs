//! Rule DQ-1: delayed adds.

use std::time::Duration;

use dogwatch_workqueue::{AddOptions, WorkQueue};
use tokio::time::{Instant, advance};

const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn dq_1_a_delayed_key_is_handed_out_once_when_it_is_due() {
    let queue = WorkQueue::new();
    queue.add_after("foo", 50 * MS);
    advance(49 * MS).await;
    assert!(queue.is_empty());
    advance(MS).await;
    assert_eq!(queue.len(), 1);
    drop(queue.try_take().unwrap());
    advance(Duration::from_secs(3600)).await;
    assert!(queue.is_empty());
    assert_eq!(queue.delayed(), 0);
}

#[tokio::test(start_paused = true)]
async fn dq_1_a_delay_of_zero_is_an_add() {
    let queue = WorkQueue::new();
    queue.add_after("foo", Duration::ZERO);
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn dq_1_of_two_delays_the_earlier_applies() {
    for (first, second, due) in [(50, 70, 50), (50, 30, 30)] {
        let queue = WorkQueue::new();
        queue.add_after("foo", first * MS);
        queue.add_after("foo", second * MS);
        assert_eq!(queue.delayed(), 1);
        let start = Instant::now();
        drop(queue.take().await.unwrap());
        assert_eq!(start.elapsed(), due * MS);
        advance(100 * MS).await;
        assert!(queue.is_empty(), "once");
    }
}

#[tokio::test(start_paused = true)]
async fn dq_1_each_key_is_handed_out_at_its_time_in_any_order_of_adds() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("later", 500 * MS);
    queue.add_after("sooner", 50 * MS);
    assert_eq!(*queue.take().await.unwrap(), "sooner");
    assert_eq!(start.elapsed(), 50 * MS);
    queue.add_after("between", 100 * MS);
    assert_eq!(*queue.take().await.unwrap(), "between");
    assert_eq!(*queue.take().await.unwrap(), "later");
    assert_eq!(start.elapsed(), 500 * MS);
}

#[tokio::test(start_paused = true)]
async fn dq_1_due_keys_are_handed_out_in_the_order_of_their_times() {
    let queue = WorkQueue::new();
    for (key, after) in [("third", 1000), ("first", 250), ("second", 500)] {
        queue.add_after(key, after * MS);
    }
    advance(2000 * MS).await;
    queue.add("added now");
    let keys: Vec<_> = std::iter::from_fn(|| queue.try_take().map(|it| *it)).collect();
    assert_eq!(keys, ["first", "second", "third", "added now"]);
}

/// client-go#131 and others: a delayed add could neither be moved nor cancelled.
#[tokio::test(start_paused = true)]
async fn a_delayed_add_can_be_replaced_and_cancelled() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("foo", 50 * MS);
    queue.replace_after("foo", 80 * MS);
    queue.add_after("bar", 50 * MS);
    assert!(queue.cancel_after(&"bar"));
    assert!(!queue.cancel_after(&"bar"));
    queue.replace_after("baz", 20 * MS);
    assert_eq!(*queue.take().await.unwrap(), "baz");
    assert_eq!(*queue.take().await.unwrap(), "foo");
    assert_eq!(start.elapsed(), 80 * MS);
    assert_eq!(queue.delayed(), 0);
}

#[tokio::test(start_paused = true)]
async fn dq_1_an_immediate_add_does_not_cancel_a_delayed_one() {
    let queue = WorkQueue::new();
    queue.add_after("foo", 50 * MS);
    queue.add("foo");
    drop(queue.try_take().unwrap());
    advance(50 * MS).await;
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn with_earliest_wins_an_immediate_add_replaces_a_delayed_one() {
    let queue = WorkQueue::builder().earliest_wins().build();
    queue.add_after("foo", 50 * MS);
    queue.add("foo");
    queue.add_after("foo", 20 * MS);
    drop(queue.try_take().unwrap());
    advance(50 * MS).await;
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_becomes_due_while_it_is_held_is_handed_out_after_that() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let held = queue.try_take().unwrap();
    queue.add_after("foo", MS);
    advance(MS).await;
    assert!(queue.is_empty());
    drop(held);
    assert_eq!(*queue.take().await.unwrap(), "foo");
}

#[tokio::test(start_paused = true)]
async fn maximum_delays_neither_overflow_nor_expire() {
    let queue = WorkQueue::new();
    queue.add_after("never", Duration::MAX);
    queue.add_after("in two days", Duration::from_hours(48));
    let start = Instant::now();
    assert_eq!(*queue.take().await.unwrap(), "in two days");
    assert_eq!(start.elapsed(), Duration::from_hours(48));
    assert_eq!(queue.delayed(), 1);
}

/// client-go blocks the caller when a thousand adds have not been processed yet.
#[test]
fn adding_never_blocks_and_needs_no_runtime() {
    let queue = WorkQueue::new();
    for key in 0..100_000 {
        queue.add_after(key, Duration::from_secs(3600));
    }
    assert_eq!(queue.delayed(), 100_000);
}

#[tokio::test(start_paused = true)]
async fn the_shorter_of_delay_and_rate_limit_applies() {
    let queue = WorkQueue::new();
    let options = |after| AddOptions { after, rate_limited: true, priority: 4 };
    for (after, due) in [(Duration::ZERO, 5 * MS), (Duration::from_secs(1), 10 * MS), (MS, MS)] {
        let start = Instant::now();
        queue.add_with("foo", options(after));
        assert_eq!(queue.take().await.unwrap().priority(), 4);
        assert_eq!(start.elapsed(), due);
    }
    assert_eq!(queue.requeues(&"foo"), 3);
}
