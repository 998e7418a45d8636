//! Authorization: whether a user may do what a request asks for.
//!
//! ```text
//! store ─► RbacIndex (roles, bindings by subject) ─┐
//! request ─► AccessRequest ────────────────────────┴─► Authorizer ─► Decision
//! ```
//!
//! The rules are those of the RBAC authorizer of kube-apiserver: k8s.io/kubernetes v1.36.4
//! plugin/pkg/auth/authorizer/rbac and pkg/registry/rbac/validation. Permissions only add up;
//! nothing takes one away. Members of `system:masters` may do everything, whatever is stored.
//!
//! The `mod` lines below are in layer order.

mod access_request;
mod policy_rule;
mod coverage;
mod missing_roles;
mod rbac_index;
mod authorizer;

pub(crate) use access_request::{AccessRequest, AccessTarget};
pub use authorizer::AuthorizationMode;
pub(crate) use authorizer::{Authorizer, Decision, is_master};
pub(crate) use coverage::Comparison;
pub(crate) use policy_rule::{PolicyRule, quoted};

/// The group whose members may do everything.
pub(crate) const MASTERS: &str = "system:masters";
