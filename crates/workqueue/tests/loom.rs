//! Loom models of a few threads on one queue: no key is lost, no waiter sleeps through a key, no
//! key has two workers. Empty unless built for it: `cargo xtask ci models`.

#![cfg(loom)]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use dogwatch_workqueue::WorkQueue;
use loom::future::block_on;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

/// Explores all interleavings with up to three preemptions. Nearly all concurrency bugs need no
/// more, and without a limit three threads take minutes.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn two_keys_wake_two_takers() {
    explore(|| {
        let queue = WorkQueue::new();
        let takers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || *block_on(queue.take()).expect("the queue is not shut down"))
            })
            .collect();
        queue.add(1);
        queue.add(2);
        let sum: i32 = takers.into_iter().map(|it| it.join().unwrap()).sum();
        assert_eq!(sum, 3);
    });
}

/// One taker gives up at any moment; the other one then gets the key.
#[test]
fn a_taker_that_gives_up_loses_no_key() {
    explore(|| {
        let queue = WorkQueue::new();
        let other = thread::spawn({
            let queue = queue.clone();
            move || *block_on(queue.take()).expect("the queue is not shut down")
        });
        let adder = thread::spawn({
            let queue = queue.clone();
            move || queue.add(1)
        });
        let taken = {
            let mut take = pin!(queue.take());
            let poll = take.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            matches!(poll, std::task::Poll::Ready(Some(_)))
        };
        if taken {
            // It had taken the key, so the other one needs a new one.
            queue.add(1);
        }
        adder.join().unwrap();
        assert_eq!(other.join().unwrap(), 1);
    });
}

/// Adds race with a worker that reads the state once each time it takes the key: the last add is
/// seen, and no two workers hold the key.
#[test]
fn no_add_is_lost_and_no_key_has_two_workers() {
    explore(|| {
        let queue = WorkQueue::new();
        let (pending, holders) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (queue, pending, holders) = (queue.clone(), pending.clone(), holders.clone());
                thread::spawn(move || {
                    while let Some(item) = block_on(queue.take()) {
                        assert_eq!(holders.fetch_add(1, Ordering::AcqRel), 0, "two workers hold the key");
                        pending.store(false, Ordering::Release);
                        holders.fetch_sub(1, Ordering::AcqRel);
                        drop(item);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            pending.store(true, Ordering::Release);
            queue.add(1);
        }
        queue.shut_down();
        for worker in workers {
            worker.join().unwrap();
        }
        assert!(!pending.load(Ordering::Acquire), "an add was lost");
    });
}

#[test]
fn a_drain_returns_when_all_is_done_and_not_before() {
    explore(|| {
        let queue = WorkQueue::new();
        let done = Arc::new(AtomicUsize::new(0));
        queue.add(1);
        queue.add(2);
        let worker = thread::spawn({
            let (queue, done) = (queue.clone(), done.clone());
            move || {
                while let Some(item) = block_on(queue.take()) {
                    done.fetch_add(1, Ordering::Release);
                    drop(item);
                }
            }
        });
        block_on(queue.shut_down_with_drain());
        assert_eq!(done.load(Ordering::Acquire), 2);
        worker.join().unwrap();
    });
}
