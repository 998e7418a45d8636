//! The rules of individual built-in kinds, as pure functions on JSON values.
//!
//! A write applies them in this order: [`defaults`], [`prepare`], [`validate`]. [`traits`] has the
//! rules for updating and deleting objects of a kind, [`fields`] its selectable fields; [`events`]
//! converts between the two groups of events, and [`autoscaling`] between the two versions of
//! autoscalers. Kinds are identified by group and kind (or plural); an unknown kind gets the common
//! rules. Nothing here knows requests, storage or the clock.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod json_access;
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

/// Returns an object of a built-in kind in which no field is set. It contains the fields that are
/// serialized even if empty, with their zero values. Field ownership is computed against it.
pub fn blank(group: &str, version: &str, kind: &str) -> Value {
    if (group, kind) == ("apiextensions.k8s.io", "CustomResourceDefinition") {
        return json!({ "metadata": {}, "spec": { "group": "", "names": { "plural": "", "kind": "" }, "scope": "", "versions": null },
            "status": { "conditions": null, "acceptedNames": { "plural": "", "kind": "" }, "storedVersions": null } });
    }
    let mut object = Map::new();
    shape::apply(group, version, kind, &mut object);
    Value::Object(object)
}
