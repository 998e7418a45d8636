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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::{Cluster, DeleteOptions, Deleted, ObjectRef, Source, Writer};
    use crate::controllers::background::builtin;

    /// Regression test: a deletion that has set the deletion timestamp itself returned 404 if
    /// another request removed the object before it did.
    #[tokio::test(start_paused = true)]
    async fn a_deletion_succeeds_if_another_one_removes_the_object_it_has_marked() {
        for recreates in [false, true] {
            let source = Source::seeded(1, "2026-01-02T03:04:05Z".parse().unwrap());
            let mut gate = None;
            let cluster = Cluster::new(source).with_storage(|store| {
                let (storage, made) = GatedStorage::new(store);
                gate = Some(made);
                storage
            });
            cluster.bootstrap().await;
            let (gate, writer) = (gate.unwrap(), Writer::server("test"));
            let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "held", "namespace": "default" },
                "spec": { "containers": [{ "name": "c", "image": "i" }] } });
            let (kind, key) = (builtin(&cluster, "", "v1", "pods"), "default/held".parse().unwrap());
            cluster.add(pod.clone(), &writer).await.unwrap();
            let made = cluster.get(&kind, &key).unwrap();
            let remove = async {
                gate.arrived.acquire().await.unwrap().forget();
                let marked = cluster.get(&kind, &key).expect("it is marked first").version();
                cluster.store().commit(&kind.collection, &key, Expect::At(marked), None).unwrap();
                if recreates {
                    cluster.add(pod, &writer).await.unwrap();
                }
                gate.open.add_permits(2);
            };
            let options = DeleteOptions::default();
            let place = ObjectRef::of(&kind, &key);
            let (deleted, ()) = tokio::join!(cluster.delete(&place, &options, &writer), remove);
            let Deleted::Gone { object, uid, .. } = deleted.expect("deleted") else { panic!("not gone") };
            assert_eq!(uid, made.uid());
            assert!(object.to_value(&kind)["metadata"]["deletionTimestamp"].is_string());
            assert_eq!(cluster.get(&kind, &key).is_some(), recreates, "another object of the name stays");
        }
    }
}
