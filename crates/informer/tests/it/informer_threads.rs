//! The whole informer on several threads: the state that its tasks and handlers share must
//! withstand concurrent use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use dogwatch_core::Object;
use dogwatch_informer::{Change, EventHandler, HandlerOptions, Overflow, Registration, SharedInformer};
use futures_util::{FutureExt, StreamExt};
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;

use crate::live::Live;
use crate::script::Thing;

/// Applies the changes it receives to a replica, and panics at the first one that does not follow
/// from the state before.
#[derive(Clone, Debug, Default)]
struct Replica(Arc<Mutex<BTreeMap<String, u64>>>);

impl Replica {
    fn fold(&self, change: &Change<Thing>) {
        let mut replica = self.0.lock().expect("no earlier check failed");
        let header = change.object().header();
        let (name, version): (_, u64) = (header.name.to_owned(), header.version.parse().unwrap());
        match change {
            Change::Added { .. } => assert_eq!(replica.insert(name, version), None, "added twice"),
            Change::Updated { old, .. } => {
                let known = replica.insert(name, version).expect("an update of a known object");
                assert_eq!(known.to_string(), old.header().version, "updated from another state");
                assert!(known < version, "{version} after {known}");
            }
            _ => assert!(replica.remove(&name).expect("a deletion of a known object") <= version),
        }
    }
}

impl EventHandler<Thing> for Replica {
    fn on_change(&mut self, change: &Change<Thing>) {
        self.fold(change);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn handlers_of_every_policy_end_with_the_contents_of_the_store_on_several_threads() {
    let live = Live::new(&[]);
    let informer = SharedInformer::builder(live.clone()).queue_capacity(5).build();
    informer.start();
    let (mut replicas, mut readers, mut passing) = (Vec::new(), Vec::new(), Vec::new());
    for version in 2..3_000u64 {
        let name = version % 17;
        match version % 5 {
            0 => live.delete(&format!("n{name}@{version}")),
            _ => live.put(&format!("n{name}@{version}")),
        }
        if version % 100 != 0 {
            continue;
        }
        let policies = [Overflow::Coalesce, Overflow::Grow, Overflow::Block(0), Overflow::Block(9)];
        let options = HandlerOptions::default().overflow(policies[(version / 200 % 4) as usize]);
        let replica = Replica::default();
        if version % 200 == 0 {
            let added = informer.add_handler_with(replica.clone(), options).expect("the informer runs");
            passing.push(
                informer
                    .add_handler_with(Replica::default(), HandlerOptions::default())
                    .expect("the informer runs"),
            );
            if passing.len() > 3 {
                let registration: Registration = passing.remove(0);
                registration.shut_down().await;
                assert_eq!(registration.lag().pending, 0);
            }
            assert_eq!(added.lag().panics, 0);
        } else {
            let (replica, mut changes) =
                (replica.clone(), informer.changes_with(options).expect("the informer runs"));
            readers.push(tokio::spawn(async move {
                while let Some(change) = changes.next().await {
                    replica.fold(&change);
                    tokio::task::yield_now().await;
                }
            }));
        }
        replicas.push(replica);
    }
    informer.wait_until(&"2999".into()).await.expect("the informer follows");
    // A stop delivers all pending changes first.
    informer.stop().await;
    for reader in readers {
        reader.await.expect("no check failed");
    }
    let entry = |it: &Arc<Thing>| (it.metadata.name.to_string(), it.header().version.parse().unwrap());
    let store: BTreeMap<String, u64> = informer.store().snapshot().iter().map(entry).collect();
    assert!(!store.is_empty());
    for replica in replicas {
        assert_eq!(*replica.0.lock().expect("no check failed"), store);
    }
}

/// Ported from client-go: InitializationRace and StartRace. In any order, nothing is delivered
/// twice and no task waits for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_10_starts_stops_and_new_handlers_may_be_concurrent() {
    for round in 0..100 {
        let informer = SharedInformer::new(Live::new(&["a@1", "b@2"]));
        let together = Arc::new(Barrier::new(5));
        let mut all = JoinSet::new();
        for starts in 0..2 {
            let (informer, together) = (informer.clone(), Arc::clone(&together));
            all.spawn(async move {
                together.wait().await;
                if starts == 1 && round % 2 == 0 { informer.run().await } else { informer.start() }
            });
        }
        for late in 0..2 {
            let (informer, together) = (informer.clone(), Arc::clone(&together));
            all.spawn(async move {
                together.wait().await;
                for _ in 0..late * round {
                    tokio::task::yield_now().await;
                }
                let replica = Replica::default();
                let Ok(added) = informer.add_handler(replica.clone()) else { return };
                let synced = added.synced().await.is_ok();
                added.shut_down().await;
                let received = replica.0.lock().expect("no check failed").len();
                assert!(received == 2 || !synced && received < 2, "{received}, synced: {synced}");
            });
        }
        all.spawn(async move {
            together.wait().await;
            for _ in 0..round {
                tokio::task::yield_now().await;
            }
            informer.stop().await;
            assert!(informer.is_stopped() && informer.add_handler(Replica::default()).is_err());
        });
        let ended = async {
            while let Some(done) = all.join_next().await {
                done.expect("no check failed");
            }
        };
        let ended = tokio::time::timeout(std::time::Duration::from_secs(60), ended).await;
        assert!(ended.is_ok(), "round {round} has not ended");
    }
}

/// Whatever the moment of the stop, the handler is rejected or its owner learns of its end.
#[test]
fn a_handler_that_is_added_during_a_stop_is_rejected_or_ends() {
    for round in 0..5_000 {
        let informer = SharedInformer::new(Live::new(&["a@1"]));
        let together = std::sync::Barrier::new(2);
        let pause = |steps: usize| (0..steps * 8).for_each(|_| std::hint::spin_loop());
        let added = std::thread::scope(|scope| {
            scope.spawn(|| {
                together.wait();
                pause(round % 60);
                informer.stop().now_or_never().expect("an informer that was not started stops at once");
            });
            together.wait();
            pause(round / 60 % 60);
            informer.on_change(|_| {})
        });
        if let Ok(added) = added {
            let synced = added.synced().now_or_never();
            assert!(synced.is_some_and(|it| it.is_err()), "the handler has not ended in round {round}");
        }
    }
}

/// A handler whose calls last until the test releases them.
struct Held {
    begun: mpsc::UnboundedSender<()>,
    go_on: std::sync::mpsc::Receiver<()>,
}

impl EventHandler<Thing> for Held {
    fn on_change(&mut self, _: &Change<Thing>) {
        let _ = self.begun.send(());
        let _ = self.go_on.recv();
    }
}

/// Ported from client-go: RemoveEventHandler_AsynchronousPanic,
/// RemoveEventHandler_SynchronousShutdown and ShutDownEventHandler_Lifecycles.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_8_remove_does_not_wait_for_a_running_call_and_shut_down_does() {
    for early in [true, false] {
        let live = Live::new(&["a@1", "b@2"]);
        let informer = SharedInformer::new(live.clone());
        let ((begun, mut calls), (go, go_on)) = (mpsc::unbounded_channel(), std::sync::mpsc::channel());
        let add = || informer.add_handler(Held { begun, go_on }).expect("the informer has not stopped");
        let registration = if early {
            let registration = add();
            informer.start();
            registration
        } else {
            informer.start();
            informer.synced().await.expect("the informer syncs");
            add()
        };
        calls.recv().await.expect("the first call has begun");
        registration.remove();
        {
            let mut end = std::pin::pin!(registration.shut_down());
            assert!(futures_util::poll!(end.as_mut()).is_pending(), "a call is running");
            go.send(()).expect("the call waits");
            end.await;
        }
        live.put("c@3");
        informer.wait_until(&"3".into()).await.expect("the informer goes on");
        assert!(calls.recv().await.is_none(), "the handler was dropped after one call");
        assert!(registration.synced().await.is_err());
        informer.stop().await;
    }
}

/// A stream has no calls that a removal could wait for.
#[tokio::test]
async fn the_owner_of_a_stream_can_wait_for_its_removal() {
    let informer = SharedInformer::new(Live::new(&["a@1", "b@2"]));
    let mut changes = informer.changes().expect("the informer has not stopped");
    informer.start();
    assert!(changes.next().await.is_some());
    let registration = changes.registration();
    let removed = tokio::time::timeout(std::time::Duration::from_secs(30), registration.shut_down());
    removed.await.expect("nothing is left to wait for");
    assert_eq!(changes.next().await, None);
    informer.stop().await;
}

/// A runtime that shuts down drops tasks that were never polled. A caller that waits for the
/// informer on another runtime must not wait for ever.
#[test]
fn an_informer_whose_runtime_ended_before_its_first_poll_has_stopped() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let informer = SharedInformer::new(Live::new(&[]));
    let first = runtime();
    first.block_on(async { informer.start() });
    drop(first);
    let stopped = async { tokio::time::timeout(std::time::Duration::from_secs(30), informer.stop()).await };
    runtime().block_on(stopped).expect("the informer has stopped");
    assert!(informer.is_stopped());
}

#[test]
fn an_informer_started_outside_of_a_runtime_can_be_started_later() {
    let informer = SharedInformer::new(Live::new(&["a@1"]));
    let start = std::panic::AssertUnwindSafe(|| informer.start());
    assert!(std::panic::catch_unwind(start).is_err(), "there is no runtime");
    assert!(!informer.is_started());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        informer.start();
        informer.synced_within(std::time::Duration::from_secs(30)).await.expect("the informer syncs");
        informer.stop().await;
    });
}
