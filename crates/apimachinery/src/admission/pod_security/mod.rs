//! PodSecurity: the Pod Security Standards, which the labels of a namespace select for its pods.
//!
//! ```text
//! labels of the namespace ─► policy (a level for each mode) ─► standards (the checks of a level) ─► violations
//! ```
//!
//! The modes are: enforce, which rejects pods; warn, which warns about pods and about workloads
//! whose pods would be rejected; and audit, which has no effect here, because this server writes no
//! audit log.
//!
//! Mirrors k8s.io/pod-security-admission v0.36.4 with the configuration that kube-apiserver has by
//! default: without labels everything is allowed, and nothing is exempt.
//!
//! The `mod` lines below are in layer order.

mod policy;
mod check;
mod baseline;
mod restricted;
mod standards;
mod existing_pods;
mod workload;

pub use check::Violation;
pub use existing_pods::warnings_about_existing;
pub use policy::{LevelVersion, Policy};
pub use standards::violations;
pub use workload::{changes_images, pod_template};
