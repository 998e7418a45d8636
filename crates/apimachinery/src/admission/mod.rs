//! Admission policies: limit ranges, runtime classes and quotas.
//!
//! ```text
//! decoded object ─► defaults of its namespace and classes ─► prepared, validated ─► limits ─► quotas ─► stored
//!                   (limits, runtime_class)                                        (limits)  (quota, usage)
//! ```
//!
//! These are pure functions over values: the cluster looks up the policies, and charges quotas
//! atomically. The messages are those of k8s.io/kubernetes v1.36.4 plugin/pkg/admission/limitranger
//! and runtimeclass, and of k8s.io/apiserver v0.36.4 pkg/admission/plugin/resourcequota; the
//! cluster adds the kind and name of the rejected object.
//!
//! The `mod` lines below are in layer order.

mod pod;
pub mod limits;
pub mod runtime_class;
mod usage;
mod scope;
pub mod quota;

pub use crate::kinds::resource_list::ResourceList;
