//! The lifetime of an informer's resources: informers that are only read, dropped streams, resyncs.

use std::sync::Arc;

use dogwatch_informer::{HandlerOptions, Overflow};
use futures_util::StreamExt;

use crate::informer::{settle, started};
use crate::live::Live;
use crate::script::SECOND;

/// The lister is the only handle on the informer.
#[tokio::test(start_paused = true)]
async fn a_store_or_a_lister_keeps_its_informer_running() {
    let live = Live::new(&["a@1"]);
    let lister = started(&live).await.lister();
    live.put("b@2");
    settle().await;
    assert!(lister.get(&"b".parse().unwrap()).is_some() && !lister.is_closed());
    let detached = started(&live).await.store().detached();
    tokio::time::sleep(SECOND).await;
    assert!(detached.is_closed(), "no handle kept that one running");
    drop(lister);
    tokio::time::sleep(SECOND).await;
    assert_eq!(live.watches(), 0, "without readers nothing is watched");
}

/// Short-lived streams leave nothing behind when they are dropped: no mailbox, and no label of a
/// metric.
#[tokio::test(start_paused = true)]
async fn a_dropped_stream_leaves_nothing_behind() {
    let live = Live::new(&["a@1"]);
    let informer = started(&live).await;
    let options = || HandlerOptions::default().resync_every(SECOND);
    let mut left = Vec::new();
    for version in 2..50 {
        let mut changes = informer.changes_with(options()).unwrap();
        assert_eq!(changes.registration().name(), "1", "the number of the previous stream is free");
        changes.next().await.expect("the existing object");
        left.push(Arc::downgrade(&changes.next().await.expect("a resync").object().clone()));
        drop(changes);
        live.put(&format!("a@{version}"));
        settle().await;
    }
    live.put("a@99");
    settle().await;
    assert_eq!(left.iter().filter(|it| it.upgrade().is_some()).count(), 0, "nothing holds old states");
}

#[tokio::test(start_paused = true)]
async fn resyncs_do_not_accumulate_for_a_handler_that_does_not_read() {
    for overflow in [Overflow::Block(1), Overflow::Grow, Overflow::Coalesce] {
        let live = Live::new(&["a@1", "b@2", "c@3"]);
        let informer = started(&live).await;
        let options = HandlerOptions::default().overflow(overflow).resync_every(SECOND);
        let mut changes = informer.changes_with(options).unwrap();
        tokio::time::sleep(1000 * SECOND).await;
        let pending = changes.registration().lag().pending;
        assert!(pending <= 6, "{overflow:?}: {pending} pending");
        // Resyncs resume once it has read.
        for _ in 0..pending + 3 {
            let next = tokio::time::timeout(10 * SECOND, changes.next()).await;
            assert!(next.is_ok(), "{overflow:?}: no resync");
        }
    }
}
