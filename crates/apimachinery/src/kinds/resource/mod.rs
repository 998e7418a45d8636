//! The kinds of the group `resource.k8s.io`.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod resource_claim;
pub(crate) mod resource_slice;
pub(crate) mod device_class;
