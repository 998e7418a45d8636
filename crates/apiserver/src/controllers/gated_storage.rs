//! A storage for tests that holds up one deletion, so that other requests can come first.

use std::sync::Arc;

use dogwatch_core::ObjectKey;
use tokio::sync::Semaphore;

use crate::store::{CollectionName, Draft, Encoded, Expect, Lost, Pending, Storage, Store};

/// Holds up the deletion of the object `held`.
#[derive(Debug)]
pub(super) struct GatedStorage {
    store: Store,
    gate: Arc<Gate>,
}

/// The two sides of a held deletion.
#[derive(Debug)]
pub(super) struct Gate {
    /// Gets a permit when the deletion has arrived.
    pub(super) arrived: Semaphore,
    /// Needs a permit for the deletion to go on.
    pub(super) open: Semaphore,
}

impl GatedStorage {
    pub(super) fn new(store: Store) -> (Self, Arc<Gate>) {
        let gate = Arc::new(Gate { arrived: Semaphore::new(0), open: Semaphore::new(0) });
        (Self { store, gate: Arc::clone(&gate) }, gate)
    }
}

impl Storage for GatedStorage {
    fn commit<'a>(
        &'a self,
        collection: &'a CollectionName,
        key: &'a ObjectKey,
        expect: Expect,
        draft: Option<Draft>,
    ) -> Pending<'a, Result<Arc<Encoded>, Lost>> {
        Box::pin(async move {
            if key.name() == "held" && draft.is_none() {
                self.gate.arrived.add_permits(1);
                self.gate.open.acquire().await.expect("never closed").forget();
            }
            self.store.commit(collection, key, expect, draft)
        })
    }

    fn newest(&self) -> Pending<'_, u64> {
        self.store.newest()
    }

    fn local(&self) -> &Store {
        &self.store
    }
}
