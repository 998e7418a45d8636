//! The kinds of the group `discovery.k8s.io`.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod endpoint_slice;
