//! Speaks to a Kubernetes API server: everything up to the single answer, nothing that caches.
//!
//! ```text
//! config ─► auth, tls ─► transport ─► client (attempts) ─► request ─► list, watch ─► api, discovery
//! ```
//!
//! ```no_run
//! use dogwatch_client::{Api, Client, Listed};
//! use dogwatch_core::{ListParams, PatchParams};
//! use futures_util::TryStreamExt;
//! use k8s_openapi::api::core::v1::{ConfigMap, Pod};
//!
//! # async fn example() -> Result<(), dogwatch_client::Error> {
//! let client = Client::from_env().await?;
//!
//! // Pods of all namespaces, one by one while the answer arrives.
//! let params = ListParams::default().labels("app in (web,api)".parse().expect("a selector"));
//! let mut pods = Api::<Pod>::all(client.clone()).list_pages(&params);
//! while let Some(listed) = pods.try_next().await? {
//!     match listed {
//!         Listed::Item(pod) => println!("{:?}", pod.metadata.name),
//!         Listed::Bad(bad) => eprintln!("{bad}"),
//!         Listed::Restarted => println!("the server forgot the list, it starts again"),
//!         _ => {}
//!     }
//! }
//!
//! // State what should be, own just that.
//! let maps = Api::<ConfigMap>::default_namespaced(client);
//! let wanted = serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "colour": "red" } });
//! maps.apply("settings", &PatchParams::apply("my-program"), &wanted).await?;
//! # Ok(())
//! # }
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
mod template;
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
pub use error::{Error, InvalidRequest};
pub use exchange::{
    DEFAULT_MAX_RETRIES, DistinctWarnings, IgnoreWarnings, LogWarnings, ServerBackoff, Warning,
    WarningHandler,
};
pub use list::{DEFAULT_PAGE_SIZE, ListStream, Listed};
pub use request::{Request, Response};
pub use watch::{EventCondition, Judgement, RetryWatcher, UntilError, WatchStream, in_order, until};
