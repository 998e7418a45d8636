//! ResourceClaims and ResourceClaimTemplates.

use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{Object, at, each, fill, fill_zero, items, object, object_if_present};
use crate::kinds::rules::{Accounting, COMMON, KindRules};
use crate::kinds::traits::{KindTraits, StatusMetadata};

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
