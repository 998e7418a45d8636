//! The whole server: a cluster, what answers for it, what keeps it tidy, and how to reach it.
//!
//! ```text
//! builder ─► cluster (bootstrapped, seeded) ─► serving + controllers + simulators = ApiServer ─► fork ─► ApiServer …
//! ```
//!
//! This is where all parts meet; none of them knows it. The `mod` lines below are in layer order.

mod error;
mod access;
mod kubeconfig;
mod objects;
mod background;
mod builder;
mod whole;

pub use builder::ApiServerBuilder;
pub use error::StartError;
pub use whole::ApiServer;
