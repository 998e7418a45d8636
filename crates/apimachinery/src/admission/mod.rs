//! The admission plugins of kube-apiserver: defaults that depend on other objects, checks, and
//! quotas.
//!
//! ```text
//! decoded object ─► changed by plugins ─► prepared, validated ─► checked by plugins ─► quotas ─► stored
//!                   (limits, classes, …)                         (limits, levels, …)  (quota, usage)
//! ```
//!
//! These are pure functions over values: the cluster looks up the other objects, and charges quotas
//! atomically. The messages are those of k8s.io/kubernetes v1.36.4 plugin/pkg/admission,
//! k8s.io/pod-security-admission v0.36.4, and k8s.io/apiserver v0.36.4
//! pkg/admission/plugin/resourcequota; the cluster adds the kind and name of the rejected object.
//!
//! The `mod` lines below are in layer order.

mod pod;
pub mod limits;
pub mod runtime_class;
pub mod priority;
pub mod toleration_seconds;
pub mod node_taint;
pub mod default_class;
pub mod storage_protection;
pub mod claim_resize;
pub mod pod_resize;
pub mod service_account;
pub mod pod_security;
mod usage;
mod scope;
pub mod quota;

pub use crate::kinds::resource_list::ResourceList;
