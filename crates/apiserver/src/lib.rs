//! A Kubernetes API server as a library: small, honest, instant.
//!
//! Not served yet: the parts that need no server are here first. Objects are JSON values; what is known about their
//! fields comes from a [`schema`].
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod refusal;
pub mod schema;
pub mod custom;

pub use refusal::{Problem, ProblemKind, Refusal};
