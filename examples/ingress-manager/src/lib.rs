//! The ingress manager: a Service with the annotation `ingress/http` gets an Ingress that it owns.
//!
//! The host is the value of the annotation. Defaults to `example.com` if the value is empty. The
//! Ingress is deleted with the annotation, and restored when it is deleted or changed. An Ingress
//! of the same name that the Service does not own is left alone.
//!
//! All decisions are made by the pure function [`decide`].
//!
//! The `mod` lines below are in layer order.

mod desired;
mod decide;
mod reconciler;

pub use decide::{Decision, decide};
pub use desired::{ANNOTATION, DEFAULT_HOST, host_of};
pub use reconciler::{IngressManager, controller};
