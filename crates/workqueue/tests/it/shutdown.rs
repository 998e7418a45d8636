//! Rule WQ-2: shutdowns and drains.

use std::time::Duration;

use dogwatch_workqueue::WorkQueue;
use tokio::task::JoinHandle;

fn drain(queue: &WorkQueue<&'static str>) -> JoinHandle<()> {
    let queue = queue.clone();
    tokio::spawn(async move { queue.shut_down_with_drain().await })
}

/// Runs all tasks that can run.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn wq_2_queued_keys_are_still_handed_out_and_then_none() {
    let queue = WorkQueue::new();
    queue.add("foo");
    queue.add("bar");
    queue.shut_down();
    assert!(queue.is_shutting_down());
    queue.add("late");
    assert_eq!(*queue.take().await.unwrap(), "foo");
    assert_eq!(*queue.take().await.unwrap(), "bar");
    assert!(queue.take().await.is_none());
}

#[tokio::test]
async fn wq_2_a_shutdown_wakes_all_waiters() {
    let queue = WorkQueue::<u8>::new();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.take().await.is_none() })
        })
        .collect();
    settle().await;
    queue.shut_down();
    for it in waiting {
        assert!(it.await.unwrap());
    }
}

#[tokio::test]
async fn wq_2_a_drain_waits_until_all_keys_are_done() {
    let queue = WorkQueue::new();
    queue.add("foo");
    queue.add("bar");
    let (foo, bar) = (queue.take().await.unwrap(), queue.take().await.unwrap());
    let drain = drain(&queue);
    settle().await;
    assert!(!drain.is_finished());
    drop(foo);
    settle().await;
    assert!(!drain.is_finished());
    drop(bar);
    drain.await.unwrap();
}

/// client-go returns as soon as no key is held; this queue finishes all accepted keys.
#[tokio::test]
async fn wq_2_a_drain_waits_for_keys_that_have_not_been_taken_yet() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let drain = drain(&queue);
    settle().await;
    assert!(!drain.is_finished());
    drop(queue.take().await.unwrap());
    drain.await.unwrap();
}

#[tokio::test]
async fn wq_2_a_drain_of_an_idle_queue_returns_at_once() {
    WorkQueue::<u8>::new().shut_down_with_drain().await;
}

#[tokio::test]
async fn wq_2_a_plain_shutdown_does_not_wait() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let _held = queue.take().await.unwrap();
    queue.shut_down();
    assert!(queue.take().await.is_none());
}

#[tokio::test]
async fn wq_2_a_plain_shutdown_ends_the_wait_of_a_drain() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let held = queue.take().await.unwrap();
    let drain = drain(&queue);
    settle().await;
    assert!(!drain.is_finished());
    queue.shut_down();
    drain.await.unwrap();
    drop(held);
}

#[tokio::test]
async fn wq_2_a_drain_hands_out_keys_that_were_added_while_held() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let first = queue.take().await.unwrap();
    queue.add("foo");
    let drain = drain(&queue);
    settle().await;
    queue.add("foo");
    drop(first);
    let again = queue.take().await.unwrap();
    settle().await;
    assert!(!drain.is_finished(), "the second run is not over");
    drop(again);
    drain.await.unwrap();
    assert!(queue.take().await.is_none());
}

#[tokio::test]
async fn wq_2_several_drains_end_together_and_a_dropped_one_has_no_effect() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let held = queue.take().await.unwrap();
    let (first, second, dropped) = (drain(&queue), drain(&queue), drain(&queue));
    settle().await;
    dropped.abort();
    drop(held);
    first.await.unwrap();
    second.await.unwrap();
}

/// A trap of client-go: its timer keeps running for up to ten seconds after a drain. Here nothing
/// does.
#[tokio::test(start_paused = true)]
async fn dq_1_a_shutdown_drops_delayed_adds() {
    let queue = WorkQueue::new();
    queue.add_after("foo", Duration::from_secs(1));
    queue.add("bar");
    let held = queue.take().await.unwrap();
    let drain = drain(&queue);
    settle().await;
    assert_eq!(queue.delayed(), 0);
    queue.add_after("baz", Duration::from_secs(1));
    queue.replace_after("baz", Duration::from_secs(1));
    queue.add_rate_limited("baz");
    assert_eq!(queue.delayed(), 0);
    drop(held);
    drain.await.unwrap();
    assert!(queue.take().await.is_none());
}
