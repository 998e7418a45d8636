//! The kinds of the group `rbac.authorization.k8s.io`.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod role;
pub(crate) mod role_binding;
