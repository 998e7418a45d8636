//! The assembled server: a cluster, the HTTP service, the background controllers, and the
//! credentials to reach it.
//!
//! ```text
//! builder ─► cluster (bootstrapped, seeded) ─► serving + controllers = ApiServer ─► fork ─► ApiServer …
//! ```
//!
//! All other modules meet here, and none of them depends on this one. The `mod` lines below are in
//! layer order.

mod error;
mod access;
mod kubeconfig;
mod initial_objects;
mod background;
mod builder;
mod api_server;

pub use api_server::ApiServer;
pub use builder::ApiServerBuilder;
pub use error::StartError;
