//! What the server knows about single built-in kinds, as pure functions on JSON values.
//!
//! A write passes through them in this order: [`defaults`], [`prepare`], [`validate`]. [`traits`] says how a kind is
//! updated and deleted, [`fields`] by which fields it can be selected, [`events`] how the two groups of events share
//! one store, [`autoscaling`] how the two versions of autoscalers do. Kinds are named by group and kind (or plural); a kind that is not known here gets the common treatment.
//! Nothing here knows requests, storage or the clock.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod look;
pub use crate::names;
pub mod quantity;
pub(crate) mod shape;
pub(crate) mod signing;
pub mod traits;
pub mod events;
pub mod fields;
pub mod defaults;
pub mod autoscaling;
mod allocate;
pub mod prepare;
pub mod validate;
pub mod warnings;

use serde_json::{Map, Value, json};

/// An object of a built-in kind in which nothing is said: the fields that are shown even so, with theirs. What an owner of
/// fields is measured against.
pub fn blank(group: &str, version: &str, kind: &str) -> Value {
    if (group, kind) == ("apiextensions.k8s.io", "CustomResourceDefinition") {
        return json!({ "metadata": {}, "spec": { "group": "", "names": { "plural": "", "kind": "" }, "scope": "", "versions": null },
            "status": { "conditions": null, "acceptedNames": { "plural": "", "kind": "" }, "storedVersions": null } });
    }
    let mut object = Map::new();
    shape::apply(group, version, kind, &mut object);
    Value::Object(object)
}
