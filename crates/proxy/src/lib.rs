//! A proxy in front of a Kubernetes API server.
//!
//! ```text
//! client ══► listener (TLS, limits) ─► forwarder ─► upstream ══► API server
//!                                          └─► tunnel (switched protocols)
//! ```
//!
//! Clients use [`Proxy`] as their API server. Requests are passed on as streams with the caller's own
//! credentials. Users of client certificates, which do not reach the API server, are named to it by
//! impersonation or by the headers of a front proxy.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod error;
mod answer;
mod user;
mod headers;
mod tunnel;
mod tls;
mod options;
mod kubeconfig;
mod upstream;
mod forward;
mod listener;
mod proxy;

pub use error::StartError;
pub use options::ProxyOptions;
pub use proxy::Proxy;
pub use tls::ServerCertificate;

/// The code in the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
