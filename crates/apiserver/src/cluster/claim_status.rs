//! The permissions for the status of a ResourceClaim: the scheduler may change its allocation, and
//! the driver of a device the status of the device.
//!
//! As the feature `DRAResourceClaimGranularStatusAuthorization` of k8s.io/kubernetes v1.36.4
//! pkg/registry/resource/utils.go.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::write::Write;
use crate::authorization::{AccessRequest, AccessTarget, Decision};
use crate::kinds::json_access::{at, items, text};
use crate::kinds::names;
use crate::kinds::{DeviceId, MAX_ALLOCATED_DEVICES, RESOURCE_CLAIM, device_id};
use crate::user::{NODE_NAME, User, service_account};
use crate::{FieldError, FieldErrorKind, FieldErrors};

const GROUP: &str = "resource.k8s.io";

/// The maximum number of drivers whose devices a write can change: those of all devices that were
/// allocated, and of all that are.
const MAX_DRIVERS: usize = 2 * MAX_ALLOCATED_DEVICES;

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
        // Without an allocation, there is no device whose status is valid.
        if at(&self.new, "/status/allocation").is_some_and(|it| !it.is_null()) {
            self.check_devices(old, &mut problems);
        }
        problems
    }

    fn check_devices(&self, old: &Value, problems: &mut FieldErrors) {
        let namespace = self.place.namespace.unwrap_or_default();
        let mut verbs = vec![format!("arbitrary-node:{}", self.verb)];
        if allocated_node(&self.new).is_some_and(|it| is_own_node(&self.writer.user, it)) {
            verbs.insert(0, format!("associated-node:{}", self.verb));
        }
        let shown = format!("[{}]", verbs.join(" "));
        let drivers = changed_drivers(old, &self.new);
        if drivers.len() > MAX_DRIVERS {
            // Each would take a decision, and a valid status cannot have so many.
            let detail = format!("must have at most {MAX_ALLOCATED_DEVICES} items");
            let count = items(&self.new, "/status/devices").len();
            let too_many = FieldErrorKind::TooMany;
            return problems.push(FieldError::with_value("status.devices", too_many, count, &detail));
        }
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

/// Returns the drivers whose devices have another status than before. A device that occurs twice
/// has another status.
fn changed_drivers<'a>(old: &'a Value, new: &'a Value) -> BTreeSet<&'a str> {
    let mut before: HashMap<DeviceId<'_>, &Value> =
        items(old, "/status/devices").iter().map(|it| (device_id(it), it)).collect();
    let devices = items(new, "/status/devices").iter().map(|it| (device_id(it), it));
    let changed = devices.filter(|(id, device)| before.remove(id) != Some(*device));
    let mut drivers: BTreeSet<&str> = changed.map(|([driver, ..], _)| driver).collect();
    drivers.extend(before.into_keys().map(|[driver, ..]| driver));
    drivers
}

/// Returns true for a service account whose pod runs on a node.
fn is_own_node(user: &User, node: &str) -> bool {
    let own = user.extra.get(NODE_NAME).map(Vec::as_slice);
    matches!(own, Some([own]) if own == node)
        && service_account(&user.name).is_some()
        && names::subdomain(node).is_empty()
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn claim(devices: &[(&str, &str)]) -> Value {
        let device = |(driver, data): &(&str, &str)| json!({ "driver": driver, "pool": "p", "device": "d", "data": data });
        json!({ "status": { "devices": devices.iter().map(device).collect::<Vec<_>>() } })
    }

    #[test]
    fn drivers_of_new_changed_removed_and_repeated_devices_are_found() {
        let old = claim(&[("a", "1"), ("b", "1")]);
        for (new, expected) in [
            (&[("a", "1"), ("b", "1")][..], &[][..]),
            (&[("b", "1"), ("a", "1")], &[]),
            (&[("a", "2"), ("b", "1")], &["a"]),
            (&[("a", "1")], &["b"]),
            (&[("a", "1"), ("b", "1"), ("c", "1")], &["c"]),
            // The last one is as before.
            (&[("a", "2"), ("a", "1"), ("b", "1")], &["a"]),
            (&[("a", "1"), ("a", "1"), ("b", "1")], &["a"]),
        ] {
            let new = claim(new);
            assert_eq!(Vec::from_iter(changed_drivers(&old, &new)), expected, "{new}");
        }
    }

    #[test]
    fn only_a_service_account_has_a_node() {
        let user = |name: &str, nodes: &[&str]| User {
            name: name.to_owned(),
            extra: BTreeMap::from([(NODE_NAME.to_owned(), nodes.iter().map(|&it| it.to_owned()).collect())]),
            ..User::default()
        };
        let account = "system:serviceaccount:a:agent";
        assert!(is_own_node(&user(account, &["n"]), "n"));
        for (user, node) in [
            (user("bob", &["n"]), "n"),
            (user("system:serviceaccount:a:b:c", &["n"]), "n"),
            (user(account, &["n", "n"]), "n"),
            (user(account, &["n"]), "m"),
            (user(account, &["N_1"]), "N_1"),
        ] {
            assert!(!is_own_node(&user, node), "{user:?} {node}");
        }
    }
}
