//! Rule WQ-1: keys without duplicates, each with at most one worker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use dogwatch_workqueue::WorkQueue;
use tokio::task::JoinSet;

/// Takes all keys of a queue, one by one.
fn drained(queue: &WorkQueue<&'static str>) -> Vec<&'static str> {
    std::iter::from_fn(|| queue.try_take().map(|it| *it)).collect()
}

/// client-go's oldest test: many producers, several consumers, and no key after the shutdown, for
/// both kinds of shutdown.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn wq_1_fifty_producers_and_ten_consumers() {
    for drain in [false, true] {
        let queue = WorkQueue::<(u32, u32)>::new();
        let seen = Arc::new(Mutex::new(HashMap::<(u32, u32), u32>::new()));
        let mut consumers = JoinSet::new();
        for _ in 0..10 {
            let (queue, seen) = (queue.clone(), seen.clone());
            consumers.spawn(async move {
                while let Some(item) = queue.take().await {
                    assert_ne!(
                        item.key().0,
                        u32::MAX,
                        "a key that was added after the shutdown was handed out"
                    );
                    *seen.lock().unwrap().entry(*item).or_default() += 1;
                    tokio::task::yield_now().await;
                }
            });
        }
        let mut producers = JoinSet::new();
        for producer in 0..50 {
            let queue = queue.clone();
            producers.spawn(async move {
                for number in 0..50 {
                    queue.add((producer, number));
                    tokio::task::yield_now().await;
                }
            });
        }
        producers.join_all().await;
        if drain {
            queue.shut_down_with_drain().await;
            assert_eq!(seen.lock().unwrap().len(), 2500, "all keys are done when the drain returns");
        } else {
            queue.shut_down();
        }
        queue.add((u32::MAX, 0));
        consumers.join_all().await;
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 2500);
        assert!(seen.values().all(|it| *it == 1), "distinct keys, each added once");
    }
}

#[tokio::test]
async fn wq_1_a_key_added_while_it_is_held_is_handed_out_again() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let item = queue.take().await.unwrap();
    queue.add("foo");
    assert!(queue.try_take().is_none());
    item.done();
    let again = queue.take().await.unwrap();
    assert_eq!(*again, "foo");
    drop(again);
    assert!(queue.is_empty());
}

#[test]
fn wq_1_the_length_counts_each_ready_key_once() {
    let queue = WorkQueue::new();
    queue.add("foo");
    assert_eq!(queue.len(), 1);
    queue.add("bar");
    queue.add("foo");
    assert_eq!(queue.len(), 2);
    let foo = queue.try_take().unwrap();
    queue.add("foo");
    assert_eq!(queue.len(), 1, "a held key is not ready, even if it is dirty");
    drop(foo);
    assert_eq!(queue.len(), 2);
}

#[test]
fn wq_1_a_key_can_come_back_after_it_is_done() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let item = queue.try_take().unwrap();
    queue.add("foo");
    drop(item);
    drop(queue.try_take().unwrap());
    queue.add("foo");
    assert_eq!(drained(&queue), ["foo"]);
}

#[test]
fn wq_1_adds_before_a_take_collapse() {
    let queue = WorkQueue::new();
    queue.add_all(["foo", "bar", "foo", "bar", "foo"]);
    assert_eq!(drained(&queue), ["foo", "bar"]);
}

/// The second worker waits until the first is done, and then there is one more run, not one for
/// each add.
#[tokio::test(start_paused = true)]
async fn wq_1_adds_during_the_work_collapse_into_one_rerun() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let first = queue.take().await.unwrap();
    let second = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await.map(|it| *it) }
    });
    for _ in 0..3 {
        queue.add("foo");
        tokio::task::yield_now().await;
    }
    assert!(!second.is_finished());
    drop(first);
    assert_eq!(second.await.unwrap(), Some("foo"));
    assert!(queue.is_empty());
}

#[tokio::test]
async fn wq_1_a_worker_that_panics_is_done_too() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let item = queue.take().await.unwrap();
            queue.add(*item);
            panic!("on purpose");
        }
    });
    assert!(worker.await.unwrap_err().is_panic());
    assert_eq!(*queue.take().await.unwrap(), "foo");
}

#[tokio::test]
async fn wq_1_a_worker_that_is_aborted_is_done_too() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _item = queue.take().await.unwrap();
            std::future::pending::<()>().await;
        }
    });
    tokio::task::yield_now().await;
    assert!(queue.is_empty());
    queue.add("foo");
    worker.abort();
    assert!(worker.await.unwrap_err().is_cancelled());
    assert_eq!(*queue.take().await.unwrap(), "foo");
}

#[test]
fn wq_1_a_key_that_is_done_is_released() {
    let queue = WorkQueue::new();
    let key = Arc::new("heavy");
    queue.add(key.clone());
    queue.add(key.clone());
    let item = queue.try_take().unwrap();
    queue.add_after(key.clone(), std::time::Duration::from_secs(1));
    queue.cancel_after(&key);
    drop(item);
    assert_eq!(Arc::strong_count(&key), 1);
}
