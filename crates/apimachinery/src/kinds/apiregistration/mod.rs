//! The kinds of the group `apiregistration.k8s.io`.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod api_service;
