//! The rules of built-in kinds, as pure functions on JSON values.
//!
//! Each kind has one entry, a static [`rules::KindRules`] in a file of its name inside the folder
//! of its group: `core/pod`, `apps/deployment.rs`. The entry has all that is special about the
//! kind: traits, defaults, preparation, validation, warnings, selectable fields, table cells.
//! [`index`] finds it by group and kind; an unknown kind gets the common rules.
//!
//! A write applies the rules in this order: [`defaults`], [`prepare`], [`validate`]. Nothing here
//! knows requests, storage or the clock.
//!
//! The `mod` lines below are in layer order: first what kinds share, then the groups, then the
//! index.

pub mod json_access;
pub use crate::names;
pub mod quantity;
pub mod resource_list;
pub mod shape;
pub mod signing;
pub mod traits;
pub mod fields;
pub mod age;
pub(crate) mod cells;
mod allocate;
pub mod rules;
pub mod prepare;
pub mod validate;
mod pod_warnings;
pub mod warnings;
pub mod core;
pub mod events;
pub(crate) mod apps;
pub(crate) mod batch;
pub mod autoscaling;
pub(crate) mod networking;
pub(crate) mod discovery;
pub(crate) mod coordination;
pub(crate) mod policy;
pub(crate) mod rbac;
pub(crate) mod storage;
pub(crate) mod scheduling;
pub(crate) mod node;
pub(crate) mod certificates;
pub(crate) mod admissionregistration;
pub(crate) mod apiextensions;
pub(crate) mod apiregistration;
pub(crate) mod resource;
pub(crate) mod flowcontrol;
pub(crate) mod authentication;
pub(crate) mod authorization;
pub mod index;
pub mod defaults;

use serde_json::{Map, Value};

pub use self::admissionregistration::admission_policy::{
    MUTATING_BINDING, MUTATING_POLICY, VALIDATING_BINDING, VALIDATING_POLICY,
};
pub use self::admissionregistration::webhook_configuration::{
    MUTATING as MUTATING_WEBHOOKS, VALIDATING as VALIDATING_WEBHOOKS,
};
pub use self::apiextensions::custom_resource_definition::RULES as DEFINITION;
pub use self::certificates::certificate_signing_request::RULES as SIGNING_REQUEST;
pub use self::core::binding::RULES as BINDING;
pub use self::core::endpoints::RULES as ENDPOINTS;
pub use self::core::namespace::RULES as NAMESPACE;
pub use self::core::pod::RULES as POD;
pub use self::core::service::RULES as SERVICE;
pub use self::discovery::endpoint_slice::RULES as ENDPOINT_SLICE;
pub use self::rbac::role::{CLUSTER_ROLE, ROLE};
pub use self::rbac::role_binding::{CLUSTER_ROLE_BINDING, ROLE_BINDING};
pub use self::resource::resource_claim::{
    CLAIM as RESOURCE_CLAIM, DeviceId, MAX_ALLOCATED_DEVICES, device_id,
};

/// Returns an object of a built-in kind in which no field is set. It contains the fields that are
/// serialized even if empty, with their zero values. Field ownership is computed against it.
pub fn blank(group: &str, version: &str, kind: &str) -> Value {
    if let Some(blank) = index::of_kind(group, kind).blank {
        return blank();
    }
    let mut object = Map::new();
    shape::apply(group, version, kind, &mut object);
    Value::Object(object)
}
