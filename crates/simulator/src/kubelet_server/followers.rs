//! Sessions that follow a pod: each sees the latest state, and the last one after the deletion.
//!
//! The handler costs one look at an empty map for each change of a pod while no session runs.

use std::collections::HashMap;
use std::sync::Arc;

use dogwatch_core::ObjectKey;
use dogwatch_informer::{Change, EventHandler, Store};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::object::Pod;

/// The latest state of a pod.
#[derive(Clone, Debug)]
pub(super) struct Followed {
    pub(super) pod: Arc<Pod>,
    /// The pod was deleted; this is its last state.
    pub(super) is_gone: bool,
}

/// The pods that sessions follow.
#[derive(Debug, Default)]
pub(super) struct Followers {
    pods: Mutex<HashMap<ObjectKey, watch::Sender<Followed>>>,
}

impl Followers {
    /// Follows a pod from its cached state on. Returns `None` if there is no such pod.
    pub(super) fn follow(&self, key: &ObjectKey, store: &Store<Pod>) -> Option<watch::Receiver<Followed>> {
        let mut pods = self.pods.lock();
        pods.retain(|_, it| it.receiver_count() > 0);
        if let Some(sender) = pods.get(key) {
            return Some(sender.subscribe());
        }
        // Read with the lock held: the handler gets each later change, and waits for the entry.
        let followed = Followed { pod: store.get(key)?, is_gone: false };
        let (sender, receiver) = watch::channel(followed);
        pods.insert(key.clone(), sender);
        Some(receiver)
    }
}

/// Passes the changes of pods to the sessions that follow them.
pub(super) struct FollowerHandler(pub(super) Arc<Followers>);

impl EventHandler<Pod> for FollowerHandler {
    fn on_change(&mut self, change: &Change<Pod>) {
        let pods = self.0.pods.lock();
        if pods.is_empty() {
            return;
        }
        if let Some(sender) = pods.get(&change.key()) {
            let is_gone = matches!(change, Change::Deleted(_));
            sender.send_replace(Followed { pod: Arc::clone(change.object()), is_gone });
        }
    }
}
