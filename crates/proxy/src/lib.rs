//! A proxy in front of a Kubernetes API server.
//!
//! ```text
//! client ══► listener (TLS, limits) ─► cached reads ─► mirror ◄─ feed ◄══ one list and watch
//!                                          │ not cached
//!                                          ▼
//!                                     ruled requests ─► forwarder ─► upstream ══► API server
//!                                                           └─► tunnel (switched protocols)
//! ```
//!
//! Clients use [`Proxy`] as their API server. Requests are passed on as streams with the caller's
//! own credentials. Users of client certificates, which do not reach the API server, are named to
//! it by impersonation or by the headers of a front proxy.
//!
//! Lists and watches of chosen resources are answered from memory: one list and watch of the
//! proxy's own user feeds any number of clients. The API server still decides who may read: each
//! caller is reviewed by it (`TokenReview`, `SubjectAccessReview`), and a caller without an answer
//! is passed on. Rules can change what callers see of these resources.
//!
//! # Examples
//!
//! ```
//! use dogwatch_apiserver::ApiServer;
//! use dogwatch_client::{Client, Config};
//! use dogwatch_proxy::{Proxy, ProxyOptions};
//! use serde_json::Value;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::builder().start().await?; // any API server
//! let mut options = ProxyOptions::default();
//! options.certificate = None; // HTTP, on the loopback only
//! options.resources = vec!["namespaces".to_owned()]; // answered from memory
//! let proxy = Proxy::start(Config::new(server.url().parse()?), options).await?;
//!
//! let client = Client::new(Config::new(proxy.url().parse()?))?;
//! let namespaces: Value = client.get().path(&["api", "v1", "namespaces"]).send().await?;
//! let mut items = namespaces["items"].as_array().into_iter().flatten();
//! assert!(items.any(|it| it["metadata"]["name"] == "default"));
//! proxy.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod error;
mod read_target;
mod answer;
mod event_boundaries;
mod ending_body;
mod small_frames;
mod timed_body;
mod user;
mod object_path;
mod review_cache;
mod rounds;
mod rules;
mod headers;
mod tunnel;
mod tls;
mod client_certificate;
mod options;
mod kubeconfig;
mod proven_callers;
mod upstream;
mod forward;
mod in_flight;
mod listener;
mod active_rules;
mod feed_pause;
mod feed;
mod collection;
mod reviews;
mod caller;
mod cached_reads;
mod ruled_update;
mod ruled_patch;
mod ruled_requests;
mod status_page;
mod proxy;

#[cfg(test)]
mod view_fold;

pub use error::StartError;
pub use options::ProxyOptions;
pub use proxy::Proxy;
pub use tls::ServerCertificate;

/// The code in the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
