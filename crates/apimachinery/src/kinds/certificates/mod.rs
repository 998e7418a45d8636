//! The kinds of the group `certificates.k8s.io`.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod certificate_signing_request;
