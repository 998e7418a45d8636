//! Rule RL-1, at the queue: each key waits longer with each of its failures.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_workqueue::WorkQueue;
use dogwatch_workqueue::limiter::{ExponentialPerItem, TokenBucket, client_go_limiter};
use tokio::time::Instant;

/// Adds a key rate-limited and returns the milliseconds until it was handed out.
async fn wait_of(queue: &WorkQueue<&'static str>, key: &'static str) -> u128 {
    let start = Instant::now();
    queue.add_rate_limited(key);
    assert_eq!(queue.take().await.map(|it| *it), Some(key));
    start.elapsed().as_millis()
}

#[tokio::test(start_paused = true)]
async fn rl_1_each_key_has_its_own_backoff_until_it_is_forgotten() {
    let limiter = ExponentialPerItem::new(Duration::from_millis(1), Duration::from_secs(1));
    let queue = WorkQueue::builder().limiter(limiter).build();
    assert_eq!(wait_of(&queue, "one").await, 1);
    assert_eq!(wait_of(&queue, "one").await, 2);
    assert_eq!(queue.requeues(&"one"), 2);
    assert_eq!(wait_of(&queue, "two").await, 1);
    assert_eq!(wait_of(&queue, "two").await, 2);
    queue.forget(&"one");
    assert_eq!(queue.requeues(&"one"), 0);
    assert_eq!(wait_of(&queue, "one").await, 1);
}

#[tokio::test(start_paused = true)]
async fn rl_1_forgetting_does_not_cancel_a_delayed_add() {
    let queue = WorkQueue::new();
    queue.add_rate_limited("one");
    queue.forget(&"one");
    assert_eq!(queue.delayed(), 1);
}

#[tokio::test(start_paused = true)]
async fn rl_1_a_queue_has_controller_runtimes_limiter_by_default() {
    let queue = WorkQueue::new();
    for expected in [5, 10, 20, 40] {
        assert_eq!(wait_of(&queue, "one").await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn rl_1_client_gos_limiter_slows_down_all_keys_together() {
    let queue = WorkQueue::builder().limiter(client_go_limiter()).build();
    (0..110).for_each(|key| queue.add_rate_limited(key));
    let start = Instant::now();
    for _ in 0..110 {
        queue.take().await.unwrap().done();
    }
    assert_eq!(
        start.elapsed(),
        Duration::from_secs(1),
        "ten keys above a burst of a hundred, at ten per second"
    );
}

#[tokio::test(start_paused = true)]
async fn rl_1_queues_can_share_a_limiter() {
    let bucket = Arc::new(TokenBucket::new(1.0, 1));
    let (first, second) =
        (WorkQueue::builder().limiter(bucket.clone()).build(), WorkQueue::builder().limiter(bucket).build());
    first.add_rate_limited("a");
    second.add_rate_limited("b");
    assert_eq!((first.len(), second.len()), (1, 0));
}
