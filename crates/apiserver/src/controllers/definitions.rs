//! Custom resource definitions: accepts their names, first come, first served, and deletes the
//! objects of a definition before the definition itself is removed.
//!
//! The cluster settles names itself when definitions are written; this controller handles those
//! that could not be settled then, because a name was taken that has become free since. Settling
//! twice changes nothing.

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::background::{builtin, writer};
use super::purge::purge;
use super::reconcile::{Next, Reconciler};
use crate::ApiError;
use crate::cluster::{Cluster, ObjectRef, Writer};
use crate::custom::definition::CLEANUP;
use crate::custom::names;
use crate::kinds::json_access::{at, items, text};
use crate::store::{CollectionName, Encoded, Expect};

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";

/// Accepts names, and deletes the objects of definitions that are being deleted.
#[derive(Debug)]
pub(super) struct Definitions;

impl Reconciler for Definitions {
    fn name(&self) -> &'static str {
        "definition-controller"
    }

    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName> {
        vec![builtin(cluster, GROUP, "v1", PLURAL).collection.clone()]
    }

    /// Returns the definition itself, and those of its group that wait for a name, which may have
    /// become free.
    fn touched(
        &mut self,
        cluster: &Cluster,
        _: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey> {
        let Some(changed) = after.or(before).map(Encoded::key) else { return Vec::new() };
        let group = changed.name().split_once('.').map_or("", |(_, group)| group);
        cluster.definitions().refresh();
        let catalog = cluster.catalog();
        let waiting = catalog.definitions().filter(|it| !it.is_settled() && it.group == group);
        let waiting = waiting.map(|it| it.key()).filter(|it| *it != changed);
        std::iter::once(changed).chain(waiting).cloned().collect()
    }

    async fn sync(&mut self, cluster: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
        let kind = builtin(cluster, GROUP, "v1", PLURAL);
        let Some(definition) = cluster.get(&kind, key).map(|it| it.to_value()) else {
            return Ok(Next::touch());
        };
        let writer = writer("definition-controller", "kube-apiserver");
        let place = ObjectRef::of(&kind, key);
        if at(&definition, "/metadata/deletionTimestamp").is_none() {
            cluster.definitions().refresh();
            cluster.definitions().settle_names(&kind, key, &writer).await?;
            return Ok(Next::touch());
        }
        if !items(&definition, "/metadata/finalizers").iter().any(|it| it == CLEANUP) {
            return Ok(Next::touch());
        }
        delete_objects(cluster, &place, &definition, &writer).await
    }
}

/// Deletes the objects of a definition, and removes its finalizer when there are none left.
async fn delete_objects(
    cluster: &Cluster,
    place: &ObjectRef<'_>,
    definition: &Value,
    writer: &Writer,
) -> Result<Next, ApiError> {
    let now = cluster.source().stamp();
    let uid = text(definition, "/metadata/uid");
    if !names::is_true(definition, "Terminating") {
        let mark = |it: &mut Value| {
            let is_same = is_same(it, uid);
            if is_same {
                names::mark_terminating(it, &now);
            }
            is_same
        };
        cluster.change(&place.part("status"), writer, mark).await?;
    }
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let since = cluster.store().revision();
    cluster.definitions().refresh();
    let mut versions: Vec<&Value> = items(definition, "/spec/versions").iter().collect();
    // Objects in the storage version need no conversion, whose webhook may be gone already.
    versions.sort_by_key(|it| it["storage"] != true);
    let mut served = versions.into_iter().map(|it| text(it, "/name"));
    let catalog = cluster.catalog();
    // Another definition of the name may have been created meanwhile: its objects stay.
    let Some(defined) = catalog.definitions().find(|it| it.uid() == uid) else { return Ok(Next::touch()) };
    let custom = |it: &str| catalog.kind(group, it, plural).filter(|it| it.def.custom);
    let left = match served.find_map(custom) {
        // Without webhooks, as in k8s.io/apiextensions-apiserver v0.36.4
        // pkg/controller/finalizer/crd_finalizer.go: one that does not respond would keep the
        // definition for ever. Also without a propagation policy, which would override the
        // finalizers: dependents that are to be orphaned would be deleted.
        Some(kind) => purge(cluster, &kind, writer).await?,
        None if defined.has_begun() => {
            remove_unserved(cluster, &defined.collection, defined.is_established()).await
        }
        // The collection of a definition that was never established belongs to another one.
        None => 0,
    };
    if left > 0 {
        return Ok(Next { waits_for: vec![defined.collection.clone()], since, ..Next::touch() });
    }
    // The last state of a definition shows that its objects are gone, which is not so if a client
    // has removed the finalizer. In kube-apiserver the watch event of the deletion does not show
    // it.
    let report = |it: &mut Value| {
        let is_news = is_same(it, uid) && !names::is_emptied(it);
        if is_news {
            names::mark_emptied(it, true, &now);
        }
        is_news
    };
    cluster.change(&place.part("status"), writer, report).await?;
    // Both at once: objects can be created as soon as the definition is not marked as terminating,
    // and would be lost with it. Both to the status, as in crd_finalizer.go: a webhook that fails
    // for updates of definitions must not keep them from being deleted.
    let finish = |it: &mut Value| {
        let is_released = is_same(it, uid) && release(it);
        if is_released {
            // Another finalizer may hold the definition.
            names::mark_emptied(it, false, &now);
        }
        is_released
    };
    cluster.change(&place.part("status"), writer, finish).await?;
    Ok(Next::touch())
}

/// Returns true if a definition has this uid. One of the same name that was created later is
/// another one, and keeps its finalizers and its status.
fn is_same(definition: &Value, uid: &str) -> bool {
    text(definition, "/metadata/uid") == uid
}

/// Removes the finalizer of this controller. Returns true if it was present.
fn release(definition: &mut Value) -> bool {
    let finalizers = definition.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut);
    let Some(finalizers) = finalizers else { return false };
    let before = finalizers.len();
    finalizers.retain(|it| it != CLEANUP);
    finalizers.len() < before
}

/// Removes objects that no version serves, so that no request could delete them: those of a
/// definition whose versions are all disabled, or whose status says that it is not established any
/// more.
///
/// In an established definition, objects with finalizers stay, as in kube-apiserver
/// (`deleteInstances` in crd_finalizer.go): a version can be enabled again, and removing them would
/// delete dependents that are to be orphaned. Returns the number of these.
async fn remove_unserved(cluster: &Cluster, collection: &CollectionName, is_established: bool) -> usize {
    let objects: Vec<_> = cluster.store().read(collection, |history, version| {
        history.list_at(version, None).into_iter().flatten().cloned().collect()
    });
    let mut left = 0_usize;
    for object in objects {
        let has_finalizers =
            || object.is_tied() && !items(&object.to_value(), "/metadata/finalizers").is_empty();
        if is_established && has_finalizers() {
            left = left.saturating_add(1);
            continue;
        }
        let expected = Expect::At(object.version());
        if cluster.storage().commit(collection, object.key(), expected, None).await.is_err() {
            // Another write was first; the next pass handles it.
            left = left.saturating_add(1);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::{DeleteOptions, Source};
    use crate::controllers::gated_storage::GatedStorage;

    /// Regression test: the finalizer was removed by the name of the definition alone.
    #[tokio::test(start_paused = true)]
    async fn a_definition_that_replaces_a_deleted_one_keeps_its_finalizer() {
        let source = Source::seeded(1, "2026-01-02T03:04:05Z".parse().unwrap());
        let mut gate = None;
        let cluster = Cluster::new(source).with_storage(|store| {
            let (storage, made) = GatedStorage::new(store);
            gate = Some(made);
            storage
        });
        let (gate, writer) = (gate.unwrap(), Writer::server("test"));
        let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "as.e.test" },
            "spec": { "group": "e.test", "scope": "Cluster", "names": { "plural": "as", "kind": "A" },
                "versions": [{ "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object" } } }] } });
        let object = json!({ "apiVersion": "e.test/v1", "kind": "A", "metadata": { "name": "held" } });
        let (kind, key) = (builtin(&cluster, GROUP, "v1", PLURAL), ObjectKey::cluster("as.e.test"));
        let place = ObjectRef::of(&kind, &key);
        cluster.add(definition.clone(), &writer).await.unwrap();
        cluster.add(object, &writer).await.unwrap();
        cluster.delete(&place, &DeleteOptions::default(), &writer).await.unwrap();
        let replace = async {
            gate.arrived.acquire().await.unwrap().forget();
            cluster.change(&place, &writer, release).await.unwrap();
            assert!(cluster.get(&kind, &key).is_none());
            cluster.add(definition, &writer).await.unwrap();
            cluster.delete(&place, &DeleteOptions::default(), &writer).await.unwrap();
            gate.open.add_permits(1);
        };
        let mut controller = Definitions;
        let (synced, ()) = tokio::join!(controller.sync(&cluster, &key), replace);
        synced.unwrap();
        let kept = cluster.get(&kind, &key).expect("its objects were not deleted yet").to_value();
        assert_eq!(kept["metadata"]["finalizers"], json!([CLEANUP]));
    }
}
