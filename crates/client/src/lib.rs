//! Speaks to a Kubernetes API server: everything up to the single answer, nothing that caches.
//!
//! ```text
//! config ─► auth, tls ─► transport ─► client (attempts) ─► request ─► list, watch ─► api, discovery
//! ```
//!
//! [`Config`] says which server and who we are; [`Client`] is a stack of layers over connections; [`Api`] is a handle on one
//! collection. [`Request`] is the level below, for paths no handle knows.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod body;
pub mod config;
pub mod auth;
pub mod tls;
pub mod transport;
mod error;
mod exchange;
mod issuer;
mod client;
mod request;
mod list;
mod watch;
pub mod api;
pub mod discovery;
#[cfg(feature = "kube")]
mod kube;

pub use api::Api;
pub use body::{BoxError, RequestBody, ResponseBody, boxed};
pub use client::{Client, ClientBuilder, HttpService, HttpStack};
pub use config::Config;
pub use discovery::{CachedDiscovery, Discovery, RestMapper};
pub use error::{Error, InvalidRequest};
pub use exchange::{
    DEFAULT_MAX_RETRIES, DistinctWarnings, IgnoreWarnings, LogWarnings, ServerBackoff, Warning,
    WarningHandler,
};
pub use list::{DEFAULT_PAGE_SIZE, ListStream, Listed};
pub use request::{Request, Response};
pub use watch::{RetryWatcher, WatchStream};
