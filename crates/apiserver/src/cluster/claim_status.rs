//! The permissions for the status of a ResourceClaim: the scheduler may change its allocation, and the
//! driver of a device the status of the device.
//!
//! As the feature `DRAResourceClaimGranularStatusAuthorization` of k8s.io/kubernetes v1.36.4
//! pkg/registry/resource/utils.go.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::write::Write;
use crate::authorization::{AccessRequest, AccessTarget, Decision};
use crate::kinds::RESOURCE_CLAIM;
use crate::kinds::json_access::{at, items, text};
use crate::{FieldError, FieldErrorKind, FieldErrors};

const GROUP: &str = "resource.k8s.io";

/// The extra field with the node of the pod of a service account.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

impl Write<'_> {
    /// Returns the changes of the status of a ResourceClaim that the writer may not make.
    pub(super) fn problems_of_claim_status(&self) -> FieldErrors {
        let mut problems = FieldErrors::default();
        let Some(old) = self.base.map(|it| it.object).filter(|_| self.place.kind.is(&RESOURCE_CLAIM)) else {
            return problems;
        };
        let changed = |pointer| at(old, pointer) != at(&self.new, pointer);
        if changed("/status/allocation") || changed("/status/reservedFor") {
            let verb = self.verb;
            if let Some(why) = self.missing_permission(verb, "binding", "", "") {
                let detail = format!(
                    "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", \
                     verb=\"{verb}\" permission: {why}"
                );
                problems.push(FieldError::new("status.allocation", FieldErrorKind::Forbidden, &detail));
            }
        }
        // The status of devices is dropped with the allocation.
        if at(&self.new, "/status/allocation").is_some_and(|it| !it.is_null()) {
            self.check_devices(old, &mut problems);
        }
        problems
    }

    fn check_devices(&self, old: &Value, problems: &mut FieldErrors) {
        let namespace = self.place.namespace.unwrap_or_default();
        let mut verbs = vec![format!("arbitrary-node:{}", self.verb)];
        let own_node = self.writer.user.extra.get(NODE_NAME).map(Vec::as_slice);
        if matches!((allocated_node(&self.new), own_node), (Some(node), Some([own])) if node == own) {
            verbs.insert(0, format!("associated-node:{}", self.verb));
        }
        let shown = format!("[{}]", verbs.join(" "));
        let drivers = changed_drivers(old, &self.new);
        let problem = |driver: &&str| {
            let missing = |it: &String| self.missing_permission(it, "driver", namespace, driver);
            // One of the verbs is enough; the first is reported.
            let reasons: Option<Vec<String>> = verbs.iter().map(missing).collect();
            let why = reasons?.into_iter().next()?;
            let detail = format!(
                "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"{shown}\" permission: {why}"
            );
            Some(FieldError::new("status.devices", FieldErrorKind::Forbidden, &detail))
        };
        for driver in &drivers {
            if problems.is_full() {
                return;
            }
            problems.extend(problem(driver));
        }
    }

    /// Returns the error about a permission on a part of claims, unless the writer has it.
    fn missing_permission(&self, verb: &str, part: &str, namespace: &str, name: &str) -> Option<String> {
        let user = &self.writer.user;
        let target = AccessTarget::Resource {
            group: GROUP,
            resource: "resourceclaims",
            subresource: part,
            namespace,
            name,
        };
        let request = AccessRequest { verb: verb.into(), target };
        let Decision { allowed, reason } = self.cluster.authorize(user, &request);
        (!allowed).then(|| request.forbidden(&user.name, &reason).0.message.clone())
    }
}

/// Returns the drivers whose devices have another status than before.
fn changed_drivers<'a>(old: &'a Value, new: &'a Value) -> BTreeSet<&'a str> {
    let devices = |claim: &'a Value| -> BTreeMap<[&'a str; 4], &'a Value> {
        let key = |it: &'a Value| ["/driver", "/pool", "/device", "/shareID"].map(|field| text(it, field));
        items(claim, "/status/devices").iter().map(|it| (key(it), it)).collect()
    };
    let (before, after) = (devices(old), devices(new));
    let changed = after.iter().filter(|(key, device)| before.get(*key) != Some(*device));
    let removed = before.iter().filter(|(key, _)| !after.contains_key(*key));
    changed.chain(removed).map(|([driver, ..], _)| *driver).collect()
}

/// Returns the only node that a claim is allocated on.
fn allocated_node(claim: &Value) -> Option<&str> {
    let [term] = items(claim, "/status/allocation/nodeSelector/nodeSelectorTerms") else { return None };
    let [field] = items(term, "/matchFields") else { return None };
    let is_name = text(field, "/key") == "metadata.name" && text(field, "/operator") == "In";
    match items(field, "/values") {
        [node] if is_name && items(term, "/matchExpressions").is_empty() => node.as_str(),
        _ => None,
    }
}
