//! The kinds of the group `scheduling.k8s.io`.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod priority_class;
