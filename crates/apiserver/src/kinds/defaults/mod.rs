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

use serde_json::Value;

use crate::kinds::look::object;
use crate::kinds::shape;

/// Fills in the defaults of an object of a built-in kind. Kinds without defaults only get their shape.
pub fn apply(group: &str, version: &str, kind: &str, value: &mut Value) {
    let Some(map) = value.as_object_mut() else { return };
    shape::apply(group, version, kind, map);
    match (group, kind) {
        ("", "Pod") => pod::pod(map),
        ("", "PodTemplate") => pod::template(object(map, "template")),
        ("", _) => core::apply(kind, map),
        ("apps", _) => workloads::apps(kind, map),
        ("batch", "Job") => workloads::job(map),
        ("batch", "CronJob") => workloads::cron_job(map),
        _ => others::apply(group, version, kind, map),
    }
}
