//! The reaction to changes of definitions: kinds that come and go between two reads of discovery.

use std::sync::Arc;

use dogwatch_informer::{Change, Deleted};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::definition::Definition;
use super::deleted_kinds::DeletedKinds;
use super::monitors::Tracker;

/// Reacts to changes of definitions.
pub(super) struct DefinitionFollower {
    pub(super) tracker: Arc<Tracker>,
    pub(super) served: Arc<Notify>,
    pub(super) deleted_kinds: Arc<Mutex<DeletedKinds>>,
}

impl DefinitionFollower {
    pub(super) fn changed(&self, change: &Change<Definition>) {
        match change {
            Change::Deleted(deleted) => self.deleted(deleted),
            // The objects of the new definition are not gone.
            _ => self.deleted_kinds.lock().remove(&change.object().spec.group, change.object().wanted_kind()),
        }
        if !is_initial(change) {
            self.served.notify_one();
        }
    }

    /// Records that a definition was deleted, and all objects of its kind before it. The kind may
    /// never have been followed: it can come and go between two reads of discovery.
    fn deleted(&self, deleted: &Deleted<Definition>) {
        let definition = deleted.last();
        if !definition.is_emptied() {
            return;
        }
        let (Some(kind), Some(revision)) = (definition.kind(), definition.revision()) else { return };
        let group = &definition.spec.group;
        self.deleted_kinds.lock().insert(group, kind, definition.is_namespaced(), revision);
        let look = self.tracker.graph.lock().owned_by_kind(group, kind);
        self.tracker.look(look);
    }
}

/// Returns true for the objects of the first list, after which discovery is read anyway.
pub(super) fn is_initial<T>(change: &Change<T>) -> bool {
    matches!(change, Change::Added { initial: true, .. })
}
