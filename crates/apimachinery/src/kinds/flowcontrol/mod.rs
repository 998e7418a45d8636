//! The kinds of the group `flowcontrol.apiserver.k8s.io`.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod flow_schema;
pub(crate) mod priority_level_configuration;
