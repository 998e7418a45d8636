//! The kinds of the group `coordination.k8s.io`.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod lease;
