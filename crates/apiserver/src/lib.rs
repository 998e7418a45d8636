//! A Kubernetes API server as a library: small, honest, instant.
//!
//! Not served yet: the parts that need no server are here first. Objects are JSON values; what is known about their
//! fields comes from a [`schema`].
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod refusal;
pub mod schema;
pub mod store;
pub mod request;
pub mod reading;
pub mod builtin;
pub mod discovery;
pub mod openapi;
pub mod kinds;
pub mod print;
pub mod patch;
pub mod ownership;
pub mod custom;

pub use refusal::{Problem, ProblemKind, Refusal};
