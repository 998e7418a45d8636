//! The ingress manager: a Service with the annotation `ingress/http` gets an Ingress that it owns.
//!
//! The host is the value of the annotation, or `example.com` where that is empty. The Ingress goes when the annotation does, comes back when
//! somebody deletes it, and is put right when somebody changes it. An Ingress of the same name that the Service does not own is left alone.
//!
//! What is to be done is decided by [`decide`] alone, which is given both objects and touches nothing.
//!
//! The `mod` lines below are in layer order.

mod desired;
mod decide;
mod reconciler;

pub use decide::{Step, decide};
pub use reconciler::{IngressManager, controller};
pub use desired::{ANNOTATION, DEFAULT_HOST, host_of};
