//! A client for the Kubernetes API server: configuration, connections, single requests, lists and
//! watches. It caches no objects.
//!
//! ```text
//! config ─► auth, tls ─► transport ─► client (attempts) ─► request ─► list, watch ─► api, discovery
//! ```
//!
//! ```no_run
//! use dogwatch_client::{Api, Client, ListEvent};
//! use dogwatch_core::{ListParams, PatchParams};
//! use futures_util::TryStreamExt;
//! use k8s_openapi::api::core::v1::{ConfigMap, Pod};
//!
//! # async fn example() -> Result<(), dogwatch_client::Error> {
//! let client = Client::from_env().await?;
//!
//! // Pods of all namespaces, one by one as the response arrives.
//! let params = ListParams::default().labels("app in (web,api)".parse().expect("a selector"));
//! let mut pods = Api::<Pod>::all(client.clone()).list_pages(&params);
//! while let Some(event) = pods.try_next().await? {
//!     match event {
//!         ListEvent::Item(pod) => println!("{:?}", pod.metadata.name),
//!         ListEvent::Bad(bad) => eprintln!("{bad}"),
//!         ListEvent::Restarted => println!("the list starts again"),
//!         ListEvent::End { version, .. } => println!("these are the pods at version {version}"),
//!         _ => {}
//!     }
//! }
//!
//! // Server-side apply: state the wanted fields, and own only those.
//! let maps = Api::<ConfigMap>::default_namespaced(client);
//! let wanted = serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "colour": "red" } });
//! maps.apply("settings", &PatchParams::apply("my-program"), &wanted).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Config`] holds the resolved settings: the server's address and the credentials. [`Client`] is
//! a stack of layers over the connections. [`Api`] is a handle on one collection. [`Request`] is
//! the lower level, for paths that no handle covers.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod loopback;
mod body;
mod encoding;
pub mod config;
mod distance;
pub mod auth;
pub mod tls;
pub mod transport;
mod error;
mod exchange;
mod issuer;
mod client;
mod template;
mod response;
mod request;
mod raw;
mod list;
mod watch;
pub mod api;
pub mod conditions;
pub mod discovery;
#[cfg(feature = "kube")]
mod kube;

pub use api::Api;
pub use body::{BoxError, RequestBody, ResponseBody, boxed};
pub use client::{Client, ClientBuilder, ClientIdentity, HttpService, HttpStack};
pub use config::Config;
pub use discovery::{CachedDiscovery, Discovery, RestMapper};
pub use encoding::Encoding;
pub use error::{Error, InvalidRequest, RetriedError};
pub use exchange::{
    DEFAULT_MAX_RETRIES, DistinctWarnings, IgnoreWarnings, LogWarnings, ServerBackoff, Warning,
    WarningHandler,
};
pub use list::{DEFAULT_PAGE_SIZE, ListEvent, ListStream};
pub use request::Request;
pub use response::Response;
pub use watch::{ConditionResult, EventCondition, RetryWatcher, UntilError, WatchStream, in_order, until};

/// The code in the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
