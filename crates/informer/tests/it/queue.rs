//! The delta queue: order, bounds, batches and ends.

use std::time::Duration;

use dogwatch_informer::{Delta, DeltaQueue, DeltaReceiver, QueueClosed};
use futures_util::FutureExt;
use proptest::prelude::*;

use crate::script::{Thing, shown, thing};

fn waiting(receiver: &mut DeltaReceiver<Thing>, max: usize) -> Option<Vec<String>> {
    let mut batch = Vec::new();
    let more = receiver.recv_batch(&mut batch, max).now_or_never()?;
    more.then(|| batch.iter().map(shown).collect())
}

#[tokio::test]
async fn rf_every_delta_comes_out_once_and_in_order() {
    let (sender, mut receiver) = DeltaQueue::channel(16);
    for delta in [
        Delta::Applied(thing("a@1")),
        Delta::Applied(thing("a@2")),
        Delta::Deleted(thing("unknown@3")),
        Delta::Applied(thing("a@2")),
        Delta::Bookmark("4".into()),
    ] {
        sender.send(delta).await.expect("open");
    }
    let expected = ["applied a@1", "applied a@2", "deleted unknown@3", "applied a@2", "bookmark 4"];
    assert_eq!(waiting(&mut receiver, 10).expect("deltas"), expected);
}

#[tokio::test]
async fn rf_2_a_relist_is_begin_items_end_after_earlier_deltas() {
    let (sender, mut receiver) = DeltaQueue::channel(16);
    for delta in [
        Delta::Applied(thing("a@1")),
        Delta::Begin,
        Delta::Item(thing("b@2")),
        Delta::End { version: "3".into(), undecodable: Vec::new() },
        Delta::Bookmark("4".into()),
        Delta::Begin,
        Delta::End { version: "5".into(), undecodable: Vec::new() },
    ] {
        sender.send(delta).await.expect("open");
    }
    let expected = ["applied a@1", "begin", "item b@2", "end 3", "bookmark 4", "begin", "end 5"];
    assert_eq!(waiting(&mut receiver, 10).expect("deltas"), expected);
}

#[tokio::test]
async fn rf_2_a_resync_is_one_delta_after_waiting_ones() {
    let (sender, mut receiver) = DeltaQueue::channel(16);
    sender.send(Delta::Applied(thing("a@1"))).await.expect("open");
    sender.send(Delta::Resync).await.expect("open");
    assert_eq!(waiting(&mut receiver, 10).expect("deltas"), ["applied a@1", "resync"]);
}

#[tokio::test]
async fn rf_5_a_batch_has_the_waiting_deltas_up_to_a_limit_and_none_is_lost() {
    let (sender, mut receiver) = DeltaQueue::channel(16);
    for version in 1..=5 {
        sender.send(Delta::Applied(thing(&format!("a@{version}")))).await.expect("open");
    }
    assert_eq!(waiting(&mut receiver, 3).expect("deltas"), ["applied a@1", "applied a@2", "applied a@3"]);
    assert_eq!(waiting(&mut receiver, 3).expect("deltas"), ["applied a@4", "applied a@5"]);
    assert_eq!(waiting(&mut receiver, 3), None, "the queue is empty and open");
    sender.send(Delta::Resync).await.expect("open");
    assert_eq!(waiting(&mut receiver, 0).expect("deltas"), ["resync"], "a limit of 0 counts as 1");
}

#[tokio::test]
async fn rf_4_a_full_queue_makes_the_sender_wait_until_a_delta_is_taken() {
    let (sender, mut receiver) = DeltaQueue::channel(2);
    assert_eq!((sender.depth(), sender.capacity(), receiver.capacity()), (0, 2, 2));
    sender.send(Delta::Applied(thing("a@1"))).await.expect("open");
    sender.send(Delta::Applied(thing("a@2"))).await.expect("open");
    assert_eq!((sender.depth(), receiver.depth()), (2, 2));
    let mut third = std::pin::pin!(sender.send(Delta::Applied(thing("a@3"))));
    assert!(futures_util::poll!(third.as_mut()).is_pending());
    assert_eq!(waiting(&mut receiver, 1).expect("a delta"), ["applied a@1"]);
    assert_eq!(third.await, Ok(()));
    assert_eq!(waiting(&mut receiver, 9).expect("deltas"), ["applied a@2", "applied a@3"]);
}

#[tokio::test]
async fn df_7_a_queue_whose_sender_was_dropped_yields_its_deltas_and_then_ends() {
    let (sender, mut receiver) = DeltaQueue::channel(4);
    sender.send(Delta::Applied(thing("a@1"))).await.expect("open");
    drop(sender);
    let mut batch = Vec::new();
    assert!(receiver.recv_batch(&mut batch, 9).await);
    assert_eq!(batch.len(), 1);
    assert!(!receiver.recv_batch(&mut batch, 9).await);
    assert!(!receiver.recv_batch(&mut batch, 9).await, "the end is final");
}

#[tokio::test(start_paused = true)]
async fn df_7_closing_wakes_a_waiting_receiver() {
    let (sender, mut receiver) = DeltaQueue::channel::<Thing>(4);
    let waiter = tokio::spawn(async move { receiver.recv_batch(&mut Vec::new(), 9).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waiter.is_finished());
    drop(sender);
    assert!(!waiter.await.expect("no panic"));
}

#[tokio::test(start_paused = true)]
async fn df_7_closing_wakes_all_waiting_senders() {
    let (sender, receiver) = DeltaQueue::channel(1);
    let sender = std::sync::Arc::new(sender);
    sender.send(Delta::Resync).await.expect("open");
    let waiters: Vec<_> = (0..10)
        .map(|_| {
            let sender = sender.clone();
            tokio::spawn(async move { sender.send(Delta::<Thing>::Resync).await })
        })
        .collect();
    let closed = tokio::spawn(async move { sender.closed().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(waiters.iter().all(|it| !it.is_finished()) && !closed.is_finished());
    drop(receiver);
    for waiter in waiters {
        assert_eq!(waiter.await.expect("no panic"), Err(QueueClosed));
    }
    closed.await.expect("no panic");
}

#[tokio::test]
async fn a_cancelled_receive_loses_nothing() {
    let (sender, mut receiver) = DeltaQueue::channel(4);
    let mut batch = Vec::new();
    assert!(receiver.recv_batch(&mut batch, 9).now_or_never().is_none(), "dropped while it waits");
    sender.send(Delta::Applied(thing("a@1"))).await.expect("open");
    assert_eq!(waiting(&mut receiver, 9).expect("deltas"), ["applied a@1"]);
}

proptest! {
    /// The queue is first in, first out, whatever the sizes of the queue and of the batches are.
    #[test]
    fn rf_the_queue_is_first_in_first_out(capacity in 0usize..10, sizes in proptest::collection::vec(0usize..7, 1..20), count in 0u32..200) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let out = runtime.block_on(async {
            let (sender, mut receiver) = DeltaQueue::channel(capacity);
            let sending = async move {
                for version in 1..=count {
                    sender.send(Delta::Applied(thing(&format!("a@{version}")))).await.expect("open");
                }
            };
            let taking = async move {
                let mut batch = Vec::new();
                for size in sizes.iter().cycle() {
                    if !receiver.recv_batch(&mut batch, *size).await {
                        break;
                    }
                }
                batch
            };
            futures_util::join!(sending, taking).1
        });
        let expected: Vec<_> = (1..=count).map(|it| format!("applied a@{it}")).collect();
        prop_assert_eq!(out.iter().map(shown).collect::<Vec<_>>(), expected);
    }
}
