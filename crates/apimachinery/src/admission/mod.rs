//! Admission policies: limit ranges, runtime classes and quotas.
//!
//! ```text
//! decoded object ─► defaults of its namespace and classes ─► prepared, validated ─► limits ─► quotas ─► stored
//!                   (limits, runtime_class)                                        (limits)  (quota, usage)
//! ```
//!
//! These are pure functions over values: the cluster looks up the policies, and charges quotas
//! atomically. The messages are kube-apiserver's; the cluster adds the kind and name of the
//! rejected object.
//!
//! The `mod` lines below are in layer order.

mod pod;
pub mod limits;
pub mod runtime_class;
mod usage;
mod scope;
pub mod quota;

pub use crate::kinds::resource_list::ResourceList;
