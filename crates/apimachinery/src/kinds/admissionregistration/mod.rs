//! The kinds of the group `admissionregistration.k8s.io`.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod webhook_configuration;
mod policy_status;
pub(crate) mod admission_policy;
