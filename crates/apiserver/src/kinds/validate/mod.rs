//! Validation of objects, with kube-apiserver's messages.
//!
//! Metadata is validated for every kind, the rest for the most common kinds. All problems of an
//! object are reported. Objects must have been defaulted and prepared before. Resource versions and
//! preconditions are not checked here, but before.
//!
//! The `mod` lines below are in layer order.

mod check;
pub mod metadata;
mod selector;
mod volume;
mod container;
mod sysctl;
mod pod;
mod status;
mod cron;
mod workloads;
mod events;
mod limits;
mod network;
mod infrastructure;
mod service;
mod core_group;
mod named_groups;

use serde_json::Value;

use crate::FieldErrors;
use crate::kinds::prepare::KindNames;

/// Validates a new object.
pub fn create(names: KindNames<'_>, namespaced: bool, object: &Value) -> FieldErrors {
    let mut out = metadata::create(names.group, names.plural, namespaced, object);
    match (names.group, names.kind) {
        ("", "Pod") => pod::create(&mut out, object),
        ("", "PodTemplate") => pod::template(&mut out, &object["template"], "template"),
        ("", "Service") => service::create(&mut out, object),
        ("", "ReplicationController") | ("apps" | "batch", _) => {
            workloads::create(&mut out, names.kind, object);
            if names.kind == "StatefulSet" {
                core_group::claim_templates(&mut out, object);
            }
        }
        ("events.k8s.io", "Event") => events::create(&mut out, object),
        ("", kind) => core_group::create(&mut out, kind, object),
        (group, kind) => named_groups::create(&mut out, group, kind, object),
    }
    out
}

/// Validates an object whose status has changed.
pub fn update_status(names: KindNames<'_>, new: &Value, old: &Value) -> FieldErrors {
    let mut out = metadata::update(names.group, names.plural, new, old);
    status::update(&mut out, names.group, names.kind, new, old);
    out
}

/// Validates a pod whose ephemeral containers or resources have changed.
pub fn update_pod_part(part: &str, new: &Value, old: &Value) -> FieldErrors {
    let mut out = metadata::update_common(new, old);
    match part {
        "ephemeralcontainers" => pod::update_ephemeral(&mut out, new, old),
        _ => pod::resize(&mut out, new, old),
    }
    out
}

/// Validates the new state of an object. A problem may occur more than once, as in the causes of
/// kube-apiserver.
pub fn update(names: KindNames<'_>, new: &Value, old: &Value) -> FieldErrors {
    let mut out = metadata::update(names.group, names.plural, new, old);
    match (names.group, names.kind) {
        ("", "Pod") => pod::update(&mut out, new, old),
        ("", "PodTemplate") => pod::template(&mut out, &new["template"], "template"),
        ("", "Service") => service::update(&mut out, new, old),
        ("", "ReplicationController") | ("apps" | "batch", _) => {
            workloads::update(&mut out, names.kind, new, old);
        }
        ("events.k8s.io", "Event") => events::update(&mut out, new, old),
        ("", kind) => core_group::update(&mut out, kind, new, old),
        (group, kind) => named_groups::update(&mut out, group, kind, new, old),
    }
    out
}
