//! The usage of an object that a quota counts, and the entries of a quota that apply to objects of
//! its kind.
//!
//! Mirrors the evaluators in k8s.io/kubernetes v1.36.4 pkg/quota/v1/evaluator/core.

use jiff::Timestamp;
use serde_json::Value;

use super::ResourceList;
use super::pod::{self, Side};
use crate::kinds::index;
use crate::kinds::json_access::{at, flag, items, number, text};
use crate::kinds::quantity::Quantity;
use crate::kinds::rules::Accounting;

/// The part of an entry's name that limits it to one storage class.
const OF_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
/// The part of an entry's name that limits it to one device class.
const OF_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// The number of devices that a request for all devices of a class counts as: the maximum that a
/// claim can be allocated (`AllocationResultsMaxSize` of k8s.io/api v0.36.4 resource/v1/types.go).
const ALL_DEVICES: usize = 32;

/// A kind, as quotas count its objects.
#[derive(Clone, Copy, Debug)]
pub struct CountedKind<'a> {
    /// The group.
    pub group: &'a str,
    /// The plural.
    pub plural: &'a str,
    /// The way in which its objects are counted.
    pub accounting: Accounting,
}

impl<'a> CountedKind<'a> {
    /// Returns the kind of this resource, built-in or custom.
    pub fn of(group: &'a str, plural: &'a str) -> Self {
        Self { group, plural, accounting: index::of_resource(group, plural).accounting }
    }
}

/// Returns the usage of an object.
pub(super) fn of(kind: CountedKind<'_>, object: &Value, now: Timestamp) -> ResourceList {
    let mut used = ResourceList::default();
    used.set(counted(kind), Quantity::count(1));
    match kind.accounting {
        Accounting::Pod => add_pod(&mut used, object, now),
        Accounting::Service => add_service(&mut used, object),
        Accounting::Claim => add_claim(&mut used, object),
        Accounting::Devices => add_devices(&mut used, object),
        Accounting::CountedByName => used.set(kind.plural, Quantity::count(1)),
        Accounting::Counted | Accounting::Ignored => {}
    }
    used
}

/// Returns true if an entry of a quota applies to objects of a kind.
pub(super) fn concerns(kind: CountedKind<'_>, name: &str) -> bool {
    if name == counted(kind) {
        return true;
    }
    match kind.accounting {
        Accounting::Pod => {
            let bare = name.strip_prefix("requests.").or(name.strip_prefix("limits.")).unwrap_or(name);
            name == "pods"
                || matches!(bare, "cpu" | "memory" | "ephemeral-storage")
                || name.strip_prefix("requests.").unwrap_or(name).starts_with("hugepages-")
                || (name.starts_with("requests.") && is_extended(bare))
        }
        Accounting::Service => matches!(name, "services" | "services.nodeports" | "services.loadbalancers"),
        Accounting::Claim => {
            let bare = name.split_once(OF_STORAGE_CLASS).map_or(name, |(_, rest)| rest);
            matches!(bare, "persistentvolumeclaims" | "requests.storage")
        }
        Accounting::Devices => name.ends_with(OF_DEVICE_CLASS),
        Accounting::CountedByName => name == kind.plural,
        Accounting::Counted | Accounting::Ignored => false,
    }
}

/// The resources that every container must set if a quota counts them, by their names in the quota.
pub(super) const REQUIRED_OF_CONTAINERS: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Returns the usage of a pod or a container with these requests and limits.
pub(super) fn computed(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut used = ResourceList::default();
    used.set("pods", Quantity::count(1));
    for (name, amount) in requests.iter() {
        let plain = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        if plain {
            used.set(name, amount);
        }
        if plain || is_extended(name) {
            used.set(format!("requests.{name}"), amount);
        }
    }
    for (name, amount) in limits.iter() {
        if matches!(name, "cpu" | "memory" | "ephemeral-storage") {
            used.set(format!("limits.{name}"), amount);
        }
    }
    used
}

/// Returns true if a resource is not one of Kubernetes' own.
fn is_extended(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, _)| !domain.contains("kubernetes.io"))
        || name.starts_with("deviceclass.resource.kubernetes.io/")
}

/// Returns the name of the entry that counts objects of a kind.
fn counted(kind: CountedKind<'_>) -> String {
    let CountedKind { group, plural, .. } = kind;
    if group.is_empty() { format!("count/{plural}") } else { format!("count/{plural}.{group}") }
}

fn add_pod(used: &mut ResourceList, pod: &Value, now: Timestamp) {
    let ended = matches!(text(pod, "/status/phase"), "Failed" | "Succeeded");
    // A pod that is stuck while terminating, for example on a lost node, is not charged, so that it
    // can be replaced (`QuotaV1Pod`).
    let overdue = || {
        let end: Timestamp = text(pod, "/metadata/deletionTimestamp").parse().ok()?;
        let grace = number(pod, "/metadata/deletionGracePeriodSeconds")?;
        Some(now > end.checked_add(jiff::SignedDuration::from_secs(grace)).ok()?)
    };
    if !ended && overdue() != Some(true) {
        used.add(&computed(&pod::occupied(pod, Side::Requests), &pod::occupied(pod, Side::Limits)));
    }
}

fn add_service(used: &mut ResourceList, service: &Value) {
    let ports = items(service, "/spec/ports");
    let chosen = || ports.iter().filter(|it| number(it, "/nodePort").unwrap_or(0) != 0).count();
    let given = at(service, "/spec/allocateLoadBalancerNodePorts").is_none()
        || flag(service, "/spec/allocateLoadBalancerNodePorts");
    let (node_ports, balancers) = match text(service, "/spec/type") {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" => (if given { ports.len() } else { chosen() }, 1),
        _ => (0, 0),
    };
    used.set("services", Quantity::count(1));
    used.set("services.nodeports", Quantity::count(node_ports));
    used.set("services.loadbalancers", Quantity::count(balancers));
}

fn add_claim(used: &mut ResourceList, claim: &Value) {
    let annotated = text(claim, "/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
    let class = if annotated.is_empty() { text(claim, "/spec/storageClassName") } else { annotated };
    let mut charge = |name: &str, amount: Quantity| {
        used.set(name, amount);
        if !class.is_empty() {
            used.set(format!("{class}{OF_STORAGE_CLASS}{name}"), amount);
        }
    };
    charge("persistentvolumeclaims", Quantity::count(1));
    let amount = |pointer: &str| at(claim, pointer).and_then(Quantity::read).map(Quantity::rounded_up);
    if let Some(wanted) = amount("/spec/resources/requests/storage") {
        let has = amount("/status/allocatedResources/storage").filter(|it| it.exceeds(wanted));
        charge("requests.storage", has.unwrap_or(wanted));
    }
}

fn add_devices(used: &mut ResourceList, claim: &Value) {
    let devices = |request: &Value| {
        let number = match text(request, "/allocationMode") {
            "All" => ALL_DEVICES,
            _ => number(request, "/count").and_then(|it| usize::try_from(it).ok()).unwrap_or(1),
        };
        let mut amounts = ResourceList::default();
        amounts
            .set(format!("{}{OF_DEVICE_CLASS}", text(request, "/deviceClassName")), Quantity::count(number));
        amounts
    };
    for request in items(claim, "/spec/devices/requests") {
        if let Some(exactly) = at(request, "/exactly") {
            used.add(&devices(exactly));
        }
        // Any of the alternatives may be chosen, so the largest counts.
        let mut most = ResourceList::default();
        items(request, "/firstAvailable").iter().for_each(|it| most.raise_to(&devices(it)));
        used.add(&most);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn used(group: &str, plural: &str, object: &Value) -> String {
        of(CountedKind::of(group, plural), object, "2026-01-01T00:00:00Z".parse().unwrap()).described()
    }

    #[test]
    fn each_kind_has_its_own_usage() {
        let container = json!({ "name": "c", "resources": {
            "requests": { "cpu": "500m", "example.com/gpu": "2", "kubernetes.io/x": "1" }, "limits": { "memory": "1Gi" } } });
        let pod = json!({ "spec": { "containers": [container] } });
        assert_eq!(
            used("", "pods", &pod),
            "count/pods=1,cpu=500m,limits.memory=1Gi,pods=1,requests.cpu=500m,requests.example.com/gpu=2"
        );
        let done = json!({ "status": { "phase": "Succeeded" } });
        assert_eq!(used("", "pods", &done), "count/pods=1");
        let gone = json!({ "metadata": { "deletionTimestamp": "2025-12-31T00:00:00Z", "deletionGracePeriodSeconds": 30 } });
        assert_eq!(used("", "pods", &gone), "count/pods=1");
        let service = json!({ "spec": { "type": "LoadBalancer", "ports": [{ "port": 1 }, { "port": 2, "nodePort": 30000 }] } });
        assert_eq!(
            used("", "services", &service),
            "count/services=1,services=1,services.loadbalancers=1,services.nodeports=2"
        );
        let claim = json!({ "spec": { "storageClassName": "gold", "resources": { "requests": { "storage": "1Gi" } } } });
        assert_eq!(
            used("", "persistentvolumeclaims", &claim),
            "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
             gold.storageclass.storage.k8s.io/requests.storage=1Gi,persistentvolumeclaims=1,requests.storage=1Gi"
        );
        assert_eq!(used("", "secrets", &json!({})), "count/secrets=1,secrets=1");
        assert_eq!(used("apps", "replicasets", &json!({})), "count/replicasets.apps=1");
        let devices = json!({ "spec": { "devices": { "requests": [
            { "exactly": { "deviceClassName": "a", "count": 2 } },
            { "firstAvailable": [{ "deviceClassName": "a", "count": 3 }, { "deviceClassName": "b", "allocationMode": "All" }] }] } } });
        assert_eq!(
            used("resource.k8s.io", "resourceclaims", &devices),
            "a.deviceclass.resource.k8s.io/devices=5,b.deviceclass.resource.k8s.io/devices=32,count/resourceclaims.resource.k8s.io=1"
        );
    }

    #[test]
    fn entries_of_a_quota_apply_to_one_kind() {
        for (plural, names) in [
            (
                "pods",
                &["pods", "count/pods", "cpu", "limits.memory", "requests.example.com/gpu", "hugepages-2Mi"]
                    [..],
            ),
            ("services", &["services", "services.nodeports"]),
            (
                "persistentvolumeclaims",
                &["requests.storage", "gold.storageclass.storage.k8s.io/requests.storage"],
            ),
            ("secrets", &["secrets", "count/secrets"]),
        ] {
            for name in names {
                let about: Vec<_> = ["pods", "services", "persistentvolumeclaims", "secrets"]
                    .into_iter()
                    .filter(|it| concerns(CountedKind::of("", it), name))
                    .collect();
                assert_eq!(about, [plural], "{name}");
            }
        }
        assert!(concerns(CountedKind::of("apps", "replicasets"), "count/replicasets.apps"));
        let pods = CountedKind::of("", "pods");
        assert!(!concerns(pods, "requests.storage") && !concerns(pods, "limits.example.com/gpu"));
    }
}
