//! The kinds of the group `node.k8s.io`.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod runtime_class;
