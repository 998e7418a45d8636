//! Speaks to a Kubernetes API server: everything up to the single answer, nothing that caches.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod body;
pub mod config;
pub mod auth;
pub mod tls;
pub mod transport;

pub use body::{BoxError, RequestBody, ResponseBody, boxed};
pub use config::Config;
