//! Waiting tasks: keys, cancellations and the role of the timekeeper reach the right one.

use std::pin::pin;
use std::time::Duration;

use dogwatch_workqueue::WorkQueue;
use futures_util::FutureExt;
use tokio::time::Instant;

const MS: Duration = Duration::from_millis(1);

#[tokio::test]
async fn the_longest_waiting_task_is_served_first() {
    let queue = WorkQueue::new();
    let mut first = pin!(queue.take());
    let mut second = pin!(queue.take());
    assert!((&mut first).now_or_never().is_none());
    assert!((&mut second).now_or_never().is_none());
    queue.add(1);
    assert_eq!(*first.await.unwrap(), 1);
    queue.add(2);
    assert_eq!(*second.await.unwrap(), 2);
}

#[tokio::test]
async fn a_take_that_is_dropped_after_it_was_woken_passes_the_key_on() {
    let queue = WorkQueue::new();
    let mut dropped = Box::pin(queue.take());
    assert!((&mut dropped).now_or_never().is_none());
    let other = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await.map(|it| *it) }
    });
    tokio::task::yield_now().await;
    queue.add(1);
    drop(dropped);
    assert_eq!(other.await.unwrap(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_take_in_a_select_that_loses_leaves_no_trace() {
    let queue = WorkQueue::new();
    for round in 0..100 {
        tokio::select! {
            biased;
            () = tokio::time::sleep(MS) => {}
            _ = queue.take() => unreachable!("nothing was added"),
        }
        queue.add(round);
        assert_eq!(*queue.take().await.unwrap(), round);
    }
}

/// The timekeeper leaves, because it gave up or because it has a key to work on: another waiter
/// takes over.
#[tokio::test(start_paused = true)]
async fn the_time_is_kept_when_the_timekeeper_leaves() {
    let queue = WorkQueue::new();
    queue.add_after("late", 100 * MS);
    let mut keeper = Box::pin(queue.take());
    assert!((&mut keeper).now_or_never().is_none());
    let others: Vec<_> = (0..2)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.take().await.map(|it| (*it, Instant::now())) })
        })
        .collect();
    let start = Instant::now();
    tokio::task::yield_now().await;
    drop(keeper);
    queue.add("now");
    let mut seen = Vec::new();
    for other in others {
        let (key, at) = other.await.unwrap().unwrap();
        seen.push((key, at - start));
    }
    seen.sort();
    assert_eq!(seen, [("late", 100 * MS), ("now", Duration::ZERO)]);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_for_an_earlier_deadline() {
    let queue = WorkQueue::new();
    queue.add_after("late", Duration::from_secs(10));
    let start = Instant::now();
    let taking = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await.map(|it| *it) }
    });
    tokio::task::yield_now().await;
    queue.add_after("soon", 10 * MS);
    assert_eq!(taking.await.unwrap(), Some("soon"));
    assert_eq!(start.elapsed(), 10 * MS);
}

#[tokio::test(start_paused = true)]
async fn many_keys_that_become_due_at_once_wake_as_many_workers() {
    let queue = WorkQueue::<u32>::new();
    let workers: Vec<_> = (0..5)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.take().await.unwrap().into_owned() })
        })
        .collect();
    tokio::task::yield_now().await;
    let start = Instant::now();
    for key in 0..5 {
        queue.add_after(key, 50 * MS);
    }
    let mut keys = Vec::new();
    let mut held = Vec::new();
    for worker in workers {
        let item = worker.await.unwrap();
        keys.push(*item);
        held.push(item);
    }
    keys.sort_unstable();
    assert_eq!(keys, [0, 1, 2, 3, 4]);
    assert_eq!(start.elapsed(), 50 * MS);
}

/// A worker that always finds a key must not monopolise its thread.
#[tokio::test]
async fn a_busy_worker_lets_other_tasks_run() {
    let queue = WorkQueue::new();
    queue.add(0);
    let busy = tokio::spawn({
        let queue = queue.clone();
        async move {
            while let Some(item) = queue.take().await {
                queue.add(*item);
            }
        }
    });
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    busy.abort();
    assert!(busy.await.unwrap_err().is_cancelled());
}
