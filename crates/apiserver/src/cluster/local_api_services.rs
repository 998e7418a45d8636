//! The APIServices of what this server itself serves: one for each group and version.
//!
//! Those of built-in kinds exist from the start. Those of custom resources come and go with their
//! definitions (`controllers/api_registration.rs`).

use dogwatch_core::ObjectKey;
use serde_json::{Value, json};

use super::{Admission, Cluster, DeleteOptions, ObjectRef, Writer};
use crate::ApiError;
use crate::builtin;
use crate::kinds::json_access::{at, items, text};
use crate::registry::Kind;

const GROUP: &str = "apiregistration.k8s.io";
/// The label of the APIServices that the server itself manages (k8s.io/kube-aggregator v0.36.4
/// pkg/controllers/autoregister/autoregister_controller.go).
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// The priorities of built-in groups and of their versions: `apiVersionPriorities` in
/// k8s.io/kubernetes v1.36.4 cmd/kube-apiserver/app/aggregator.go.
const PRIORITIES: [(&str, &str, i64, i64); 21] = [
    ("", "v1", 18_000, 1),
    ("apps", "v1", 17_800, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v1", 17_500, 15),
    ("autoscaling", "v2", 17_500, 30),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("storage.k8s.io", "v1", 16_800, 15),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("node.k8s.io", "v1", 16_300, 15),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("resource.k8s.io", "v1", 16_200, 21),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
];

/// The priorities of custom resources.
const OF_CUSTOM_RESOURCES: (i64, i64) = (1_000, 100);

impl Cluster {
    /// Creates the APIServices of the built-in groups. Existing ones are not changed.
    ///
    /// # Errors
    /// The error of the first that cannot be created.
    pub(super) async fn register_builtin_services(&self) -> Result<(), ApiError> {
        let is_served = |group: &str, version: &str| {
            builtin::resources().iter().any(|it| it.group == group && it.version == version)
        };
        for (group, version, of_group, of_version) in PRIORITIES {
            if is_served(group, version) {
                self.register(group, version, (of_group, of_version), "onstart").await?;
            }
        }
        Ok(())
    }

    /// Creates the APIService with this name if a definition serves its group and version, and
    /// deletes it if none does any more. Others of the name, which a user has created, stay as they
    /// are.
    ///
    /// # Errors
    /// The error of the write.
    pub(crate) async fn settle_custom_service(&self, key: &ObjectKey) -> Result<(), ApiError> {
        let Some((version, group)) = key.name().split_once('.') else { return Ok(()) };
        if self.serves_custom(group, version) {
            return self.register(group, version, OF_CUSTOM_RESOURCES, "true").await;
        }
        let Some(kind) = self.catalog().kind(GROUP, "v1", "apiservices") else { return Ok(()) };
        let managed = self.get(&kind, key).is_some_and(|it| is_managed(&it.to_value()));
        if !managed {
            return Ok(());
        }
        let (place, options) = (ObjectRef::of(&kind, key), DeleteOptions::default());
        let writer = Writer::server("kube-apiserver");
        match self.delete_as(&place, &options, &writer, Admission::Skip).await {
            Err(refusal) if !refusal.0.is_not_found() => Err(refusal),
            _ => Ok(()),
        }
    }

    fn serves_custom(&self, group: &str, version: &str) -> bool {
        let Some(kind) = self.catalog().kind("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        else {
            return false;
        };
        let serves = |definition: &Value| {
            text(definition, "/spec/group") == group
                && items(definition, "/spec/versions")
                    .iter()
                    .any(|it| text(it, "/name") == version && it["served"] == true)
        };
        self.list(&kind, None).iter().any(|it| serves(&it.to_value()))
    }

    async fn register(
        &self,
        group: &str,
        version: &str,
        (of_group, of_version): (i64, i64),
        managed: &str,
    ) -> Result<(), ApiError> {
        let Some(kind) = self.catalog().kind(GROUP, "v1", "apiservices") else { return Ok(()) };
        let Ok(key) = ObjectKey::from_parts(None, &format!("{version}.{group}")) else { return Ok(()) };
        let writer = Writer::server("kube-apiserver");
        let mut spec =
            json!({ "version": version, "groupPriorityMinimum": of_group, "versionPriority": of_version });
        if !group.is_empty() {
            spec["group"] = group.into();
        }
        let service = json!({ "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": { "name": key.name(), "labels": { MANAGED: managed } }, "spec": spec });
        match self.add(service, &writer).await {
            Err(refusal) if refusal.0.is_already_exists() => {}
            added => drop(added?),
        }
        self.mark_as_available(&kind, &key, &writer).await
    }

    async fn mark_as_available(&self, kind: &Kind, key: &ObjectKey, writer: &Writer) -> Result<(), ApiError> {
        let now = self.source().stamp();
        let mark = |it: &mut Value| {
            let is_new = is_managed(it) && items(it, "/status/conditions").is_empty();
            if is_new {
                it["status"] = json!({ "conditions": [{ "type": "Available", "status": "True", "reason": "Local",
                    "message": "Local APIServices are always available", "lastTransitionTime": now }] });
            }
            is_new
        };
        self.change(&ObjectRef::of(kind, key).part("status"), writer, mark).await.map(drop)
    }
}

/// Returns true for an APIService of the server's own.
fn is_managed(service: &Value) -> bool {
    at(service, "/metadata/labels").is_some_and(|it| it.get(MANAGED).is_some())
        && at(service, "/spec/service").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_group_and_version_has_a_priority() {
        for resource in builtin::resources() {
            let (group, version) = (resource.group.as_str(), resource.version.as_str());
            // The aggregator does not register itself.
            let known = group == GROUP || PRIORITIES.iter().any(|it| (it.0, it.1) == (group, version));
            assert!(known, "{group}/{version}");
        }
    }
}
