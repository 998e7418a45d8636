//! ResourceQuota, the seventh stage of a write: the quotas of its namespace are charged.

use std::collections::HashSet;
use std::sync::Arc;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::charges::Charge;
use super::object_fields::object_mut;
use super::policies::forbidden;
use super::write::Write;
use super::{Cluster, ObjectRef, Writer};
use crate::ApiError;
use crate::admission::quota::{Arrival, charge};
use crate::admission_plugin::AdmissionPlugin;
use crate::kinds::json_access::text;
use crate::registry::Kind;
use crate::store::{Encoded, Expect};

/// The number of attempts to charge the quotas while other writes charge them at the same time.
const ATTEMPTS: usize = 64;

impl<'a> Write<'a> {
    /// Charges all quotas of the namespace for an object that is ready to be stored, or none if one
    /// of them would be exceeded. The charge must be kept until the object is stored.
    ///
    /// # Errors
    /// 403 if a quota does not allow the object; 409 if other writes change the quotas each time
    /// they are charged.
    pub(super) async fn charge_quotas(&self) -> Result<Option<Charge<'a>>, ApiError> {
        if !self.place.kind.def.namespaced || !self.cluster.plugins.has(AdmissionPlugin::ResourceQuota) {
            return Ok(None);
        }
        let (cluster, place, new) = (self.cluster, self.place, &self.new);
        let old = self.base.map(|it| it.object);
        let kind = place.kind.counted();
        let arrival = Arrival { kind, part: place.part, old, new, now: cluster.source.now() };
        if !arrival.counts() {
            return Ok(None);
        }
        let Some(kind) = cluster.catalog().kind("", "v1", "resourcequotas") else { return Ok(None) };
        if cluster.list(&kind, place.namespace).is_empty() {
            return Ok(None);
        }
        let pending = cluster.charges.begin(place.namespace.unwrap_or_default());
        let mut paid: HashSet<ObjectKey> = HashSet::new();
        for _ in 0..ATTEMPTS {
            let mut charges = Vec::new();
            for quota in cluster.list(&kind, place.namespace) {
                // A quota that was charged in an earlier attempt contains this object already.
                if paid.contains(quota.key()) {
                    continue;
                }
                let charged = charge(&kind.show(&quota), &arrival);
                let charged = charged.map_err(|why| forbidden(place, new, &why))?;
                charges.extend(charged.map(|it| (quota, it.to_value())));
            }
            if self.writer.dry_run || charges.is_empty() {
                return Ok(Some(pending));
            }
            let mut all = true;
            for (quota, used) in charges {
                if write_usage(cluster, &kind, &quota, used).await? {
                    paid.insert(quota.key().clone());
                } else {
                    all = false;
                }
            }
            if all {
                return Ok(Some(pending));
            }
        }
        Err(place.kind.modified(text(new, "/metadata/name")))
    }
}

/// Writes the usage into the status of a quota unless it has changed since it was read. Returns
/// false if it has.
async fn write_usage(
    cluster: &Cluster,
    kind: &Kind,
    quota: &Arc<Encoded>,
    used: Value,
) -> Result<bool, ApiError> {
    let old = kind.show(quota);
    let mut new = old.clone();
    object_mut(&mut new, "status").insert("used".to_owned(), used);
    let (place, writer) = (ObjectRef::of(kind, quota.key()).part("status"), Writer::server("kube-apiserver"));
    let mut write = Write::change(cluster, &place, (quota, &old), new, &writer);
    write.own().await;
    write.prepare()?;
    write.validate()?;
    let draft = kind.draft(&write.new)?;
    let expect = Expect::At(quota.version());
    Ok(cluster.storage.commit(&kind.collection, quota.key(), expect, Some(draft)).await.is_ok())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use serde_json::json;

    use super::*;
    use crate::cluster::Source;
    use crate::store::{CollectionName, Draft, Lost, Pending, Storage, Store};

    /// Lets one write of the quota `second` lose against another write, once it is armed.
    #[derive(Debug)]
    struct RacingStorage {
        store: Store,
        armed: Arc<AtomicBool>,
    }

    impl Storage for RacingStorage {
        fn commit<'a>(
            &'a self,
            collection: &'a CollectionName,
            key: &'a ObjectKey,
            expect: Expect,
            draft: Option<Draft>,
        ) -> Pending<'a, Result<Arc<Encoded>, Lost>> {
            if key.name() == "second" && self.armed.swap(false, Ordering::Relaxed) {
                return Box::pin(std::future::ready(Err(Lost { current: None })));
            }
            Box::pin(std::future::ready(self.store.commit(collection, key, expect, draft)))
        }

        fn newest(&self) -> Pending<'_, u64> {
            self.store.newest()
        }

        fn local(&self) -> &Store {
            &self.store
        }
    }

    #[tokio::test]
    async fn a_creation_that_loses_a_race_for_one_quota_charges_the_other_once() {
        let armed = Arc::new(AtomicBool::new(false));
        let source = Source::seeded(1, "2026-01-02T03:04:05Z".parse().expect("a time"));
        let storage = |store| RacingStorage { store, armed: Arc::clone(&armed) };
        let cluster = Cluster::new(source).with_storage(storage);
        cluster.bootstrap().await;
        let writer = Writer::server("test");
        let quotas = cluster.catalog().kind("", "v1", "resourcequotas").expect("served");
        let key = |name: &str| ObjectKey::from_parts(Some("default"), name).expect("a key");
        for name in ["first", "second"] {
            let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": name, "namespace": "default" },
                "spec": { "hard": { "configmaps": "1" } } });
            cluster.add(quota, &writer).await.expect("created");
            let count = |it: &mut Value| {
                it["status"] = json!({ "hard": { "configmaps": "1" }, "used": { "configmaps": "0" } });
                true
            };
            let status = key(name);
            cluster
                .change(&ObjectRef::of(&quotas, &status).part("status"), &writer, count)
                .await
                .expect("counted");
        }
        armed.store(true, Ordering::Relaxed);
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m", "namespace": "default" } });
        cluster.add(map, &writer).await.expect("there is room for one in each quota");
        assert!(!armed.load(Ordering::Relaxed), "a write was lost");
        for name in ["first", "second"] {
            let quota = cluster.get(&quotas, &key(name)).expect("exists").to_value();
            assert_eq!(quota["status"]["used"]["configmaps"], "1", "{name}");
        }
    }
}
