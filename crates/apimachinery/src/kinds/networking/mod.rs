//! The kinds of the group `networking.k8s.io`.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod ingress;
pub(crate) mod ingress_class;
pub(crate) mod network_policy;
pub(crate) mod service_cidr;
pub(crate) mod ip_address;
