//! Policies that objects meet on their way in: what namespaces and classes say about them.
//!
//! ```text
//! decoded object ─► defaults of its namespace and classes ─► prepared, validated ─► limits ─► quotas ─► stored
//!                   (limits, runtime_class)                                        (limits)  (quota, usage)
//! ```
//!
//! These are functions over values: which policies there are, and that quotas are charged in one step, is for the cluster to
//! see to. The words of refusals are the original's; who puts a name and a kind before them is the cluster too.
//!
//! The `mod` lines below are in layer order.

mod amounts;
mod pod;
pub mod limits;
pub mod runtime_class;
mod usage;
mod scope;
pub mod quota;

pub use amounts::Amounts;
