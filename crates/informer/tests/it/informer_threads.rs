//! The whole informer on several threads: what its tasks and its handlers share is ours, and must stand being used at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use dogwatch_core::Object;
use dogwatch_informer::{Change, EventHandler, HandlerOptions, Overflow, Registration, SharedInformer};
use futures_util::StreamExt;

use crate::live::Live;
use crate::script::Thing;

/// Folds what it is told, and stops at the first thing that cannot follow from what it was told before.
#[derive(Clone, Debug, Default)]
struct Copy(Arc<Mutex<BTreeMap<String, u64>>>);

impl Copy {
    fn fold(&self, change: &Change<Thing>) {
        let mut copy = self.0.lock().expect("nothing was wrong before");
        let header = change.object().header();
        let (name, version): (_, u64) = (header.name.to_owned(), header.version.parse().unwrap());
        match change {
            Change::Added { .. } => assert_eq!(copy.insert(name, version), None, "added twice"),
            Change::Updated { old, .. } => {
                let known = copy.insert(name, version).expect("updated, and not known");
                assert_eq!(known.to_string(), old.header().version, "updated from another state");
                assert!(known < version, "{version} after {known}");
            }
            _ => assert!(copy.remove(&name).expect("deleted, and not known") <= version),
        }
    }
}

impl EventHandler<Thing> for Copy {
    fn on_change(&mut self, change: &Change<Thing>) {
        self.fold(change);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn handlers_of_every_policy_end_with_the_store_on_several_threads() {
    let live = Live::new(&[]);
    let informer = SharedInformer::builder(live.clone()).queue_capacity(5).build();
    informer.start();
    let (mut copies, mut readers, mut passing) = (Vec::new(), Vec::new(), Vec::new());
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
        let copy = Copy::default();
        if version % 200 == 0 {
            let added = informer.add_handler_with(copy.clone(), options).expect("it runs");
            passing.push(
                informer.add_handler_with(Copy::default(), HandlerOptions::default()).expect("it runs"),
            );
            if passing.len() > 3 {
                let registration: Registration = passing.remove(0);
                registration.shut_down().await;
                assert_eq!(registration.lag().pending, 0);
            }
            assert_eq!(added.lag().panics, 0);
        } else {
            let (copy, mut changes) = (copy.clone(), informer.changes_with(options).expect("it runs"));
            readers.push(tokio::spawn(async move {
                while let Some(change) = changes.next().await {
                    copy.fold(&change);
                    tokio::task::yield_now().await;
                }
            }));
        }
        copies.push(copy);
    }
    informer.wait_until(&"2999".into()).await.expect("it follows");
    // Whoever is left is told of everything that is left first.
    informer.stop().await;
    for reader in readers {
        reader.await.expect("nothing was wrong");
    }
    let entry = |it: &Arc<Thing>| (it.metadata.name.to_string(), it.header().version.parse().unwrap());
    let store: BTreeMap<String, u64> = informer.store().snapshot().iter().map(entry).collect();
    assert!(!store.is_empty());
    for copy in copies {
        assert_eq!(*copy.0.lock().expect("nothing was wrong"), store);
    }
}
