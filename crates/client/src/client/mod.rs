//! The client: a stack of layers over a transport, and the loop that attempts one request until it
//! succeeds or fails for good.
//!
//! ```text
//! Request ─► attempts (limit, retry, warnings, metrics) ─► impersonation ─► user agent ─► credentials
//!                                                        ─► your layers ─► gzip ─► transport
//! ```
//!
//! The `mod` lines below are in layer order.

mod stack;
mod prepared;
#[allow(clippy::module_inception, reason = "the main type has a file of its own name")]
mod client;
mod attempts;
mod builder;

pub use builder::ClientBuilder;
pub use client::{Client, ClientIdentity};
pub use stack::{HttpService, HttpStack};

pub(crate) use prepared::Prepared;
