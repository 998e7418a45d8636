//! What an object says when its author does not: the defaults of the kinds that have any.
//!
//! Runs on every object that is decoded, so it must not change its own result. Besides defaults it gives an object the
//! shape a typed one has on the wire: fields that are always shown are there, empty ones that never are, are not.
//!
//! The `mod` lines below are in layer order.

mod storage;
mod pod;
mod workloads;
mod core;
mod others;

use serde_json::{Map, Value};

use crate::kinds::look::{drop_empty, drop_nulls, object};

/// Fills in the defaults of an object of a built-in kind. Kinds without defaults only get the shape of their metadata.
pub fn apply(group: &str, version: &str, kind: &str, value: &mut Value) {
    if !keeps_raw_data(group, kind) {
        drop_nulls_of_spec(value);
    }
    let Some(map) = value.as_object_mut() else { return };
    metadata(object(map, "metadata"));
    match (group, kind) {
        ("", "Pod") => pod::pod(map),
        ("", "PodTemplate") => pod::template(object(map, "template")),
        ("", _) => core::apply(kind, map),
        ("apps", _) => workloads::apps(kind, map),
        ("batch", "Job") => workloads::job(map),
        ("batch", "CronJob") => workloads::cron_job(map),
        ("events.k8s.io", "Event") => core::new_event(map),
        _ => others::apply(group, version, kind, map),
    }
}

/// In a status nulls stay: its conditions show times that never were.
fn drop_nulls_of_spec(value: &mut Value) {
    let Some(map) = value.as_object_mut() else { return };
    map.retain(|_, value| !value.is_null());
    map.iter_mut().filter(|(key, _)| *key != "status").for_each(|(_, value)| drop_nulls(value));
}

/// Whether a kind holds JSON of the user's own, in which nulls mean something.
fn keeps_raw_data(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        ("apps", "ControllerRevision")
            | ("apiextensions.k8s.io" | "admissionregistration.k8s.io" | "resource.k8s.io", _)
    )
}

fn metadata(meta: &mut Map<String, Value>) {
    drop_empty(
        meta,
        &[
            "name",
            "generateName",
            "namespace",
            "selfLink",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "labels",
            "annotations",
            "ownerReferences",
            "finalizers",
            "managedFields",
        ],
    );
}
