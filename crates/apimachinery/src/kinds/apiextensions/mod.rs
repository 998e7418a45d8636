//! The kinds of the group `apiextensions.k8s.io`.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod custom_resource_definition;
