//! ResourceClaims and ResourceClaimTemplates.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{Object, at, each, fill, fill_zero, items, object, object_if_present, text};
use crate::kinds::rules::{Accounting, COMMON, KindRules};
use crate::kinds::traits::{KindTraits, StatusMetadata};
use crate::{FieldError, FieldErrorKind, FieldErrors};

/// The maximum number of devices that can be allocated for a claim: `AllocationResultsMaxSize` in
/// k8s.io/kubernetes v1.36.4 pkg/apis/resource/types.go.
pub const MAX_ALLOCATED_DEVICES: usize = 32;

/// The maximum number of consumers of a claim: `ResourceClaimReservedForMaxSize` there.
const MAX_CONSUMERS: usize = 256;

/// The driver, pool, name and share of a device.
pub type DeviceId<'a> = [&'a str; 4];

/// The rules of the kind ResourceClaim.
pub static CLAIM: KindRules = KindRules {
    group: "resource.k8s.io",
    kind: "ResourceClaim",
    plural: "resourceclaims",
    traits: KindTraits {
        returns_deleted_object: true,
        has_status: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    default: |_, map| requested_devices(object(map, "spec")),
    prepare_status: drop_deallocated_devices,
    validate_status: |out, new, _| check_status(out, new),
    cells: |object, now| {
        vec![cells::name(object), claim_state(object).into(), age::since_creation(object, now)]
    },
    accounting: Accounting::Devices,
    ..COMMON
};

/// The rules of the kind ResourceClaimTemplate.
pub(crate) static TEMPLATE: KindRules = KindRules {
    group: "resource.k8s.io",
    kind: "ResourceClaimTemplate",
    plural: "resourceclaimtemplates",
    traits: KindTraits {
        returns_deleted_object: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    default: |_, map| requested_devices(object(object(map, "spec"), "spec")),
    ..COMMON
};

fn requested_devices(spec: &mut Object) {
    let fill_request = |request: &mut Object| {
        fill(request, "allocationMode", "ExactCount");
        if request.get("allocationMode").is_some_and(|it| it == "ExactCount") {
            fill_zero(request, "count", 1);
        }
    };
    let Some(devices) = object_if_present(spec, "devices") else { return };
    for request in each(devices, "requests") {
        if let Some(exact) = object_if_present(request, "exactly") {
            fill_request(exact);
        }
        each(request, "firstAvailable").for_each(fill_request);
    }
}

/// Returns the identity of an allocated device, or of the device that a status is about.
pub fn device_id(device: &Value) -> DeviceId<'_> {
    ["/driver", "/pool", "/device", "/shareID"].map(|field| text(device, field))
}

fn allocated_devices(claim: &Value) -> HashSet<DeviceId<'_>> {
    items(claim, "/status/allocation/devices/results").iter().map(device_id).collect()
}

/// Drops the status of devices that are no longer allocated: `dropDeallocatedStatusDevices` in
/// k8s.io/kubernetes v1.36.4 pkg/registry/resource/resourceclaim/strategy.go.
fn drop_deallocated_devices(new: &mut Value, old: &Value) {
    let (before, after) = (allocated_devices(old), allocated_devices(new));
    let is_deallocated = |device: &Value| {
        let id = device_id(device);
        before.contains(&id) && !after.contains(&id)
    };
    let devices = items(new, "/status/devices");
    let kept: Vec<Value> = devices.iter().filter(|it| !is_deallocated(it)).cloned().collect();
    if kept.len() == devices.len() && !kept.is_empty() {
        return;
    }
    let Some(status) = new.get_mut("status").and_then(Value::as_object_mut) else { return };
    if kept.is_empty() {
        status.remove("devices");
    } else {
        status.insert("devices".to_owned(), kept.into());
    }
}

/// Validates what others rely on in a status: `validateResourceClaimStatusUpdate` in
/// k8s.io/kubernetes v1.36.4 pkg/apis/resource/validation/validation.go.
fn check_status(out: &mut FieldErrors, claim: &Value) {
    let limits = [
        ("/status/reservedFor", "status.reservedFor", MAX_CONSUMERS),
        ("/status/allocation/devices/results", "status.allocation.devices.results", MAX_ALLOCATED_DEVICES),
    ];
    for (pointer, field, limit) in limits {
        let count = items(claim, pointer).len();
        if count > limit {
            let detail = format!("must have at most {limit} items");
            out.push(FieldError::with_value(field, FieldErrorKind::TooMany, count, &detail));
        }
    }
    let (allocated, mut seen) = (allocated_devices(claim), HashSet::new());
    for (index, device) in items(claim, "/status/devices").iter().enumerate() {
        let id = device_id(device);
        let problem = |kind: FieldErrorKind, detail: &str| {
            let [driver, pool, device, share] = id.map(|it| json!(it));
            let shown = format!(r#"{{"Driver":{driver},"Pool":{pool},"Device":{device},"ShareID":{share}}}"#);
            FieldError::with_value(format!("status.devices[{index}]"), kind, shown, detail)
        };
        if !allocated.contains(&id) {
            let detail = "must be an allocated device in the claim";
            out.push_with(|| problem(FieldErrorKind::Invalid, detail));
        }
        if !seen.insert(id) {
            out.push_with(|| problem(FieldErrorKind::Duplicate, ""));
        }
    }
    let is_allocated = at(claim, "/status/allocation").is_some_and(|it| !it.is_null());
    if !is_allocated && !items(claim, "/status/reservedFor").is_empty() {
        let detail = "may not be specified when `allocated` is not set";
        out.push(FieldError::new("status.reservedFor", FieldErrorKind::Forbidden, detail));
    }
}

fn claim_state(claim: &Value) -> String {
    let mut states = Vec::new();
    if at(claim, "/metadata/deletionTimestamp").is_some() {
        states.push("deleted");
    }
    if at(claim, "/status/allocation").is_none() {
        if states.is_empty() {
            states.push("pending");
        }
    } else {
        states.push("allocated");
        states.push(if items(claim, "/status/reservedFor").is_empty() { "" } else { "reserved" });
    }
    states.retain(|it| !it.is_empty());
    states.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str) -> Value {
        json!({ "driver": "d.e.test", "pool": "p", "device": name })
    }

    fn claim(allocated: &[&str], with_status: &[&str]) -> Value {
        let devices = |names: &[&str]| names.iter().map(|it| device(it)).collect::<Vec<_>>();
        json!({ "status": { "allocation": { "devices": { "results": devices(allocated) } },
            "devices": devices(with_status) } })
    }

    fn problems(claim: &Value) -> Vec<String> {
        let mut out = FieldErrors::new();
        check_status(&mut out, claim);
        out.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_status_of_a_device_is_dropped_with_its_allocation() {
        let old = claim(&["a", "b"], &["a", "b"]);
        for (mut new, kept) in [
            (claim(&["a", "b"], &["a", "b"]), &["a", "b"][..]),
            (claim(&["a"], &["a", "b"]), &["a"]),
            // One that was never allocated is left to the validation.
            (claim(&["a"], &["a", "x"]), &["a", "x"]),
            (claim(&[], &["a", "b"]), &[]),
            (json!({ "status": { "allocation": null, "devices": [device("a")] } }), &[]),
        ] {
            drop_deallocated_devices(&mut new, &old);
            let devices: Vec<&str> =
                items(&new, "/status/devices").iter().map(|it| text(it, "/device")).collect();
            assert_eq!(devices, kept);
            assert_eq!(at(&new, "/status/devices").is_some(), !kept.is_empty());
        }
    }

    #[test]
    fn a_status_is_about_allocated_devices_each_once() {
        let shown =
            |name: &str| format!(r#"{{"Driver":"d.e.test","Pool":"p","Device":"{name}","ShareID":""}}"#);
        let unknown = |index: usize, name: &str| {
            let shown = shown(name);
            format!(
                "status.devices[{index}]: Invalid value: {shown}: must be an allocated device in the claim"
            )
        };
        assert!(problems(&claim(&["a", "b"], &["b"])).is_empty());
        assert_eq!(problems(&claim(&["a"], &["a", "x"])), [unknown(1, "x")]);
        let twice = format!("status.devices[1]: Duplicate value: {}", shown("a"));
        assert_eq!(problems(&claim(&["a"], &["a", "a"])), [twice]);
        let unallocated = json!({ "status": { "devices": [device("a")], "reservedFor": [{ "uid": "u" }] } });
        let reserved = "status.reservedFor: Forbidden: may not be specified when `allocated` is not set";
        assert_eq!(problems(&unallocated), [unknown(0, "a"), reserved.to_owned()]);
    }

    #[test]
    fn the_numbers_of_allocated_devices_and_consumers_are_limited() {
        let mut large = claim(&["a"; MAX_ALLOCATED_DEVICES + 1], &[]);
        large["status"]["reservedFor"] = json!(vec![json!({ "uid": "u" }); MAX_CONSUMERS + 1]);
        assert_eq!(
            problems(&large),
            [
                "status.reservedFor: Too many: 257: must have at most 256 items",
                "status.allocation.devices.results: Too many: 33: must have at most 32 items",
            ]
        );
    }
}
