//! The kinds of the group `apps`.
//!
//! The `mod` lines below are in layer order.

mod selected_template;
pub(crate) mod deployment;
pub(crate) mod replica_set;
pub(crate) mod stateful_set;
pub(crate) mod daemon_set;
pub(crate) mod controller_revision;
