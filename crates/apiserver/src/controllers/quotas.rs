//! Resource quotas: copies their limits into the status, and counts the usage.
//!
//! Admission charges a quota for each object before it stores the object, and reads only the
//! status: a quota that was not counted yet limits nothing. This controller counts a new quota, and
//! counts it again whenever a counted object has changed, so that the usage of deleted objects
//! becomes free.
//!
//! A count is written only if no object of the namespace is between its charge and its commit, and
//! only over the version of the quota that was read before counting. So a charge is never lost, and
//! admission never exceeds the quota.
//!
//! In Kubernetes this is a part of kube-controller-manager, whose count may lose a charge until the
//! next one. It is in the server here because only the server knows the charges that are pending.

use std::collections::BTreeMap;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use serde_json::Value;
use tokio::time::Instant;

use super::background::{builtin, writer};
use super::reconcile::{Next, Reconciler};
use crate::ApiError;
use crate::admission::ResourceList;
use crate::admission::quota;
use crate::cluster::{Cluster, ObjectRef};
use crate::kinds::json_access::at;
use crate::registry::Kind;
use crate::store::{CollectionName, Encoded};

/// The time for which a quota that is new, or was just counted, is left alone, so that changes are
/// counted together. A count reads all counted objects: without this, creating a thousand pods
/// would read half a million. Also, a client that reads a quota right after creating it finds it as
/// written, as with kube-controller-manager.
const PAUSE: Duration = Duration::from_secs(1);
/// The time until a namespace with an object between its charge and its commit is checked again.
const BUSY: Duration = Duration::from_millis(50);
/// The interval at which a quota is counted without any change, as by kube-controller-manager:
/// changes that this controller does not see, such as an overdue pod, take effect then.
const RESYNC: Duration = Duration::from_secs(5 * 60);

/// Counts the usage of resource quotas.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    /// The time since each quota was last counted, or first seen.
    counted: BTreeMap<ObjectKey, Instant>,
}

impl Reconciler for Quotas {
    fn name(&self) -> &'static str {
        "resourcequota-controller"
    }

    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName> {
        vec![builtin(cluster, "", "v1", "resourcequotas").collection.clone()]
    }

    fn touched(
        &mut self,
        _: &Cluster,
        _: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey> {
        after.or(before).map(|it| it.key().clone()).into_iter().collect()
    }

    /// A quota waits for the objects of its namespace, and for definitions of kinds that it names.
    fn concerns(&self, waiting: &ObjectKey, changed: &ObjectKey) -> bool {
        changed.namespace().is_none() || waiting.namespace() == changed.namespace()
    }

    async fn sync(&mut self, cluster: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
        let kind = builtin(cluster, "", "v1", "resourcequotas");
        let Some(quota) = cluster.get(&kind, key).map(|it| it.to_value()) else {
            self.counted.remove(key);
            return Ok(Next::touch());
        };
        let counted = self.counted.entry(key.clone()).or_insert_with(Instant::now);
        let pause = PAUSE.saturating_sub(counted.elapsed());
        if !pause.is_zero() {
            return Ok(Next::after(pause));
        }
        let since = cluster.store().revision();
        let (mut busy, namespace) = (false, key.namespace().unwrap_or_default());
        let place = ObjectRef::of(&kind, key).part("status");
        let writer = writer("resourcequota-controller", "kube-controller-manager");
        let count = |quota: &mut Value| {
            busy = cluster.has_pending_charge(namespace);
            !busy && recount(cluster, namespace, quota)
        };
        cluster.change(&place, &writer, count).await?;
        if busy {
            return Ok(Next::after(BUSY));
        }
        self.counted.insert(key.clone(), Instant::now());
        Ok(Next { after: Some(RESYNC), waits_for: sources(cluster, &quota), since })
    }
}

/// Returns the kinds whose objects a quota counts.
fn counted_kinds(cluster: &Cluster, quota: &Value) -> Vec<std::sync::Arc<Kind>> {
    let stored = cluster.catalog().stored();
    let counts = |it: &Kind| it.def.namespaced && quota::limits(quota, it.counted());
    stored.into_iter().filter(|it| counts(it)).collect()
}

/// Returns the collections whose changes affect the usage of a quota.
fn sources(cluster: &Cluster, quota: &Value) -> Vec<CollectionName> {
    let kinds = counted_kinds(cluster, quota);
    let mut sources: Vec<_> = kinds.iter().map(|it| it.collection.clone()).collect();
    let is_counted = |name: &str| kinds.iter().any(|it| quota::concerns(it.counted(), name));
    if ResourceList::at(quota, "/spec/hard").names().any(|it| !is_counted(it)) {
        let definitions = builtin(cluster, "apiextensions.k8s.io", "v1", "customresourcedefinitions");
        sources.push(definitions.collection.clone());
    }
    sources
}

/// Updates the status of a quota. Returns true if that changed it.
fn recount(cluster: &Cluster, namespace: &str, quota: &mut Value) -> bool {
    let now = cluster.source().now();
    let hard = ResourceList::at(quota, "/spec/hard");
    let before = ResourceList::at(quota, "/status/used");
    let mut counted = ResourceList::default();
    for kind in counted_kinds(cluster, quota) {
        let objects = cluster.list(&kind, Some(namespace));
        let objects = objects.iter().map(|it| {
            // Objects of most kinds are counted without decoding.
            if quota::reads(kind.counted()) { it.to_value() } else { Value::Null }
        });
        counted.add(&quota::used_by(quota, kind.counted(), objects, now));
    }
    // The usage of resources without a served kind is kept.
    let mut used = before.filter(|name, _| hard.get(name).is_some() && counted.get(name).is_none());
    used.add(&counted);
    if at(quota, "/status/hard") == at(quota, "/spec/hard") && used == before {
        return false;
    }
    let hard = at(quota, "/spec/hard").cloned().unwrap_or_default();
    quota["status"] = serde_json::json!({ "hard": hard, "used": used.to_value() });
    true
}
