//! Admission policies and match conditions: expressions that decide about requests, and change
//! their objects.
//!
//! ```text
//! stored policy ─► ValidatingPolicy, MutatingPolicy (compiled once for each version of it)
//! request ─► PolicyInput ─► match conditions ─► decisions, or a patched object
//! ```
//!
//! These are pure functions over values: the caller decides which policies match a request, finds
//! their parameters, and answers the questions of the authorizer. [`check`] rejects policies,
//! bindings and webhook configurations whose rules or expressions are invalid.
//!
//! The rules, messages and budgets are those of k8s.io/apiserver v0.36.4
//! pkg/admission/plugin/{policy,cel,webhook/matchconditions} and of k8s.io/kubernetes v1.36.4
//! pkg/apis/admissionregistration/validation.
//!
//! The `mod` lines below are in layer order.

mod request_types;
mod expression;
mod evaluation;
mod match_conditions;
mod validating;
mod patches;
mod mutating;
mod check_resources;
mod check_expressions;
mod check_bindings;
mod check_policies;
pub mod check;

pub use evaluation::PolicyInput;
pub use match_conditions::MatchConditions;
pub use mutating::{MutatingPolicy, Mutation};
pub use validating::{AuditAnnotation, Decision, Outcome, ValidatingPolicy, Verdict};
