//! Claims and volumes: which volume a claim can have, and both as they are when bound. Pure.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::json_access::{at, entries, items, text};
use crate::quantity::parse;
use crate::selector::selects;

/// The provisioner of the default class, whose volumes are simulated.
pub(crate) const PROVISIONER: &str = "simulator.dogwatch.dev/volumes";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Returns the storage class of a claim: `None` if it waits for the default one.
pub(crate) fn class_of_claim(claim: &Value) -> Option<&str> {
    let annotated = claim["metadata"]["annotations"].get("volume.beta.kubernetes.io/storage-class");
    annotated.or_else(|| at(claim, "/spec/storageClassName")).and_then(Value::as_str)
}

/// Returns true if a claim is bound to a volume.
pub(crate) fn is_bound(claim: &Value) -> bool {
    !text(claim, "/spec/volumeName").is_empty() && text(claim, "/status/phase") == "Bound"
}

/// Returns true if the volumes of a class are bound when their first pod has a node.
pub(crate) fn waits_for_consumer(class: &Value) -> bool {
    text(class, "/volumeBindingMode") == "WaitForFirstConsumer"
}

/// Returns the default class: the newest one that is marked.
pub(super) fn default_class<'a>(classes: impl Iterator<Item = &'a Value>) -> Option<&'a Value> {
    let marked =
        classes.filter(|it| it["metadata"]["annotations"].get(DEFAULT_CLASS).is_some_and(|it| it == "true"));
    marked.max_by_key(|it| {
        let name = std::cmp::Reverse(text(it, "/metadata/name").to_owned());
        (text(it, "/metadata/creationTimestamp").to_owned(), name)
    })
}

/// Returns the simulated default class.
pub(super) fn standard_class() -> Value {
    json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": { "name": "standard", "annotations": { DEFAULT_CLASS: "true" } },
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": true })
}

/// Returns true if a volume is for a claim: reserved for it, or free.
pub(super) fn is_for(volume: &Value, claim: &Value) -> bool {
    let reserved = at(volume, "/spec/claimRef");
    reserved.is_none_or(|it| {
        let uid = text(it, "/uid");
        text(it, "/namespace") == text(claim, "/metadata/namespace")
            && text(it, "/name") == text(claim, "/metadata/name")
            && (uid.is_empty() || uid == text(claim, "/metadata/uid"))
    })
}

/// Returns the best of some volumes for a claim: one that is reserved for it, or the smallest that
/// is large enough.
pub(super) fn best<'a>(claim: &Value, volumes: impl Iterator<Item = &'a Value>) -> Option<&'a Value> {
    let needed = requested(claim);
    let mode = |it: &Value| match text(it, "/spec/volumeMode") {
        "Block" => "Block",
        _ => "Filesystem",
    };
    let modes = items(claim, "/spec/accessModes");
    let selector = at(claim, "/spec/selector")
        .map(|it| crate::selector::of_budget(&json!({ "spec": { "selector": it } })));
    let fits = |volume: &&Value| {
        let class = text(volume, "/spec/storageClassName");
        at(volume, "/metadata/deletionTimestamp").is_none()
            && is_for(volume, claim)
            && class == class_of_claim(claim).unwrap_or_default()
            && mode(volume) == mode(claim)
            && modes.iter().all(|it| items(volume, "/spec/accessModes").contains(it))
            && parse(text(volume, "/spec/capacity/storage")).is_some_and(|it| Some(it) >= needed)
            && match &selector {
                None => true,
                Some(selector) => selector.as_ref().is_some_and(|it| selects(it, volume)),
            }
    };
    volumes.filter(fits).min_by_key(|it| {
        let name = text(it, "/metadata/name").to_owned();
        (at(it, "/spec/claimRef").is_none(), parse(text(it, "/spec/capacity/storage")), name)
    })
}

/// Returns a new volume for a claim.
pub(super) fn provisioned(claim: &Value, class: &Value) -> Value {
    let name = format!("pvc-{}", text(claim, "/metadata/uid"));
    let policy = match text(class, "/reclaimPolicy") {
        "" => "Delete",
        policy => policy,
    };
    let driver = text(class, "/provisioner");
    let mut spec = json!({ "capacity": { "storage": claim["spec"]["resources"]["requests"]["storage"] },
        "accessModes": claim["spec"]["accessModes"], "claimRef": reference(claim),
        "persistentVolumeReclaimPolicy": policy, "storageClassName": class["metadata"]["name"],
        "csi": { "driver": driver, "volumeHandle": name } });
    for (of, field, to) in
        [(claim, "/spec/volumeMode", "volumeMode"), (class, "/mountOptions", "mountOptions")]
    {
        if let Some(value) = at(of, field) {
            spec[to] = value.clone();
        }
    }
    json!({ "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": { "name": name, "annotations": { PROVISIONED_BY: driver } }, "spec": spec })
}

/// Binds a volume to a claim. Returns true if that changed anything.
pub(super) fn bind_volume(volume: &mut Value, claim: &Value) -> bool {
    if text(volume, "/spec/claimRef/uid") == text(claim, "/metadata/uid") || !is_for(volume, claim) {
        return false;
    }
    if at(volume, "/spec/claimRef").is_none() {
        volume["metadata"]["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
    }
    volume["spec"]["claimRef"] = reference(claim);
    true
}

/// Binds a claim to a volume. Returns true if that changed anything.
pub(super) fn bind_claim(claim: &mut Value, volume: &str) -> bool {
    let annotated = claim["metadata"]["annotations"].get(BIND_COMPLETED).is_some();
    if text(claim, "/spec/volumeName") == volume && annotated {
        return false;
    }
    if text(claim, "/spec/volumeName").is_empty() {
        claim["metadata"]["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
    }
    claim["spec"]["volumeName"] = volume.into();
    claim["metadata"]["annotations"][BIND_COMPLETED] = "yes".into();
    true
}

/// Returns the status of a claim that is bound to a volume.
pub(super) fn bound_status(claim: &Value, volume: &Value) -> Value {
    let mut status = claim.get("status").filter(|it| it.is_object()).cloned().unwrap_or_else(|| json!({}));
    status["phase"] = "Bound".into();
    status["accessModes"] = volume["spec"]["accessModes"].clone();
    status["capacity"] = volume["spec"]["capacity"].clone();
    status
}

fn requested(claim: &Value) -> Option<i128> {
    entries(claim, "/spec/resources/requests")
        .find(|(name, _)| *name == "storage")
        .and_then(|(_, it)| parse(it.as_str()?))
}

fn reference(claim: &Value) -> Value {
    let metadata = &claim["metadata"];
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": metadata["namespace"],
        "name": metadata["name"], "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"] })
}

/// Returns the time of a change as objects hold it.
pub(super) fn stamp(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> Value {
        json!({ "metadata": { "name": "data", "namespace": "n", "uid": "u" }, "spec": { "accessModes": ["ReadWriteOnce"],
            "storageClassName": "slow", "resources": { "requests": { "storage": "2Gi" } } } })
    }

    fn volume(name: &str, size: &str, change: impl FnOnce(&mut Value)) -> Value {
        let mut volume = json!({ "metadata": { "name": name, "labels": { "disk": name } }, "spec": {
            "storageClassName": "slow", "capacity": { "storage": size }, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"] } });
        change(&mut volume["spec"]);
        volume
    }

    #[test]
    fn a_claim_gets_its_own_volume_or_the_smallest_that_fits() {
        let mut volumes = vec![
            volume("large", "10Gi", |_| ()),
            volume("enough", "2048Mi", |_| ()),
            volume("small", "1Gi", |_| ()),
            volume("fast", "2Gi", |it| it["storageClassName"] = "fast".into()),
            volume("block", "2Gi", |it| it["volumeMode"] = "Block".into()),
            volume("taken", "2Gi", |it| {
                it["claimRef"] = json!({ "namespace": "n", "name": "data", "uid": "other" })
            }),
        ];
        let best_name = |claim: &Value, volumes: &[Value]| {
            best(claim, volumes.iter()).map(|it| text(it, "/metadata/name").to_owned())
        };
        assert_eq!(best_name(&claim(), &volumes).as_deref(), Some("enough"));
        let mut selecting = claim();
        selecting["spec"]["selector"] = json!({ "matchLabels": { "disk": "large" } });
        assert_eq!(best_name(&selecting, &volumes).as_deref(), Some("large"));
        volumes.push(volume("reserved", "20Gi", |it| {
            it["claimRef"] = json!({ "namespace": "n", "name": "data" })
        }));
        assert_eq!(best_name(&claim(), &volumes).as_deref(), Some("reserved"));
        let mut many = claim();
        many["spec"]["accessModes"] = json!(["ReadWriteMany"]);
        assert_eq!(best_name(&many, &volumes), None);
    }

    #[test]
    fn both_sides_are_bound_once() {
        let (mut claim, mut volume) = (claim(), volume("v", "2Gi", |_| ()));
        assert!(bind_volume(&mut volume, &claim) && !bind_volume(&mut volume, &claim));
        assert_eq!(volume["metadata"]["annotations"][BOUND_BY_CONTROLLER], "yes");
        assert!(bind_claim(&mut claim, "v") && !bind_claim(&mut claim, "v"));
        assert_eq!(claim["metadata"]["annotations"][BIND_COMPLETED], "yes");
        claim["status"] = bound_status(&claim, &volume);
        assert!(is_bound(&claim));
        assert_eq!(claim["status"]["capacity"]["storage"], "2Gi");
    }
}
