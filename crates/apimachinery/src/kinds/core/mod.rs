//! The kinds of the core group.
//!
//! The `mod` lines below are in layer order.

pub(super) mod volume_source;
pub(crate) mod persistent_volume_claim;
pub mod pod;
pub(crate) mod pod_template;
pub(crate) mod replication_controller;
pub(crate) mod persistent_volume;
mod data;
pub(crate) mod config_map;
pub(crate) mod secret;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod service;
pub(crate) mod endpoints;
pub(crate) mod event;
pub(crate) mod limit_range;
pub(crate) mod resource_quota;
pub(crate) mod service_account;
pub(crate) mod binding;
pub(crate) mod component_status;
