//! A Kubernetes API server as a library, for tests and development.
//!
//! ```text
//! request ─► authenticate, authorize ─► decode ─► default, own, prepare, validate ─► store ─► answer
//!    (serving, http, auth, authorization)      (cluster: the verbs)                      │
//!                       lists and watches (reading) ◄───────────────────────┤
//!                       controllers ◄───────────────────────────────────────┘
//! ```
//!
//! [`ApiServer`] is the entry point: start one in a test, fork it, inject [`faults`], and inspect
//! its request [`log`]. `cluster` implements the verbs without HTTP: it applies the rules of the
//! API, which are functions over JSON values in `dogwatch-apimachinery`, to what `store` keeps;
//! `reading` serves lists and watches. [`mirror`] serves copies of collections of other API servers
//! with the same read path.
//!
//! ```
//! use dogwatch_apiserver::ApiServer;
//! use dogwatch_apiserver::faults::Rule;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}";
//! let server = ApiServer::builder().yaml(yaml).start().await?; // on a free port of the loopback
//! println!("kubectl --server {} get configmaps", server.url());
//!
//! server.faults().rule(Rule::on("list").resource("pods").times(1).refuse(429));
//! let maps = server.objects_at("v1", "configmaps", server.revision()).ok_or("not served")?;
//! assert!(maps.iter().any(|map| map["metadata"]["name"] == "settings"));
//! assert_eq!(server.requests().count(), 0);
//! server.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Limitations
//!
//! - **Authorization.** By default every authenticated user may do everything, whatever roles and
//!   bindings are stored. Access reviews then allow everything, and their `reason` says so. With
//!   [`AuthorizationMode::Rbac`] the roles are enforced; the modes Node, ABAC and Webhook do not
//!   exist.
//! - **Admission policies.** They are enforced, as are match conditions of webhooks and rules of
//!   definitions. There is no audit log: audit annotations and the action `Audit` are lines of the
//!   log. The status of a policy is not written.
//! - **Admission plugins.** Those that kube-apiserver has on by default exist, but for
//!   NodeDeclaredFeatureValidator, and ServiceAccount is off by default: [`AdmissionPlugin`] lists
//!   them. Pod Security levels of the mode `audit` have no effect.
//! - **Flow control.** Flow schemas and priority levels are stored and delay no requests.
//! - **Controllers.** As in Kubernetes, other programs delete namespaces, collect garbage and make
//!   workloads run: kube-controller-manager, or `ControllerManager` and `Simulator` of
//!   `dogwatch-simulator`.
//! - **Containers.** The server runs none. Logs, `exec`, `attach`, `portforward` and `proxy` are
//!   passed on to the kubelet of the node, to the pod or to an endpoint of the service, on the
//!   loopback unless [`ApiServerBuilder::allow_remote_backends`] allows other machines. Admission
//!   does not apply to them.
//! - **Persistence.** All objects are in memory and are lost when the server stops.
//! - **Long errors.** Of the validation errors of an object and the conflicts of an apply, the
//!   first thousand are reported, and of unknown fields the first hundred.
//!
//! A server that requires no credentials rejects requests that a web page could send to it: see
//! [`ApiServerBuilder::advertise`] for a server that clients reach by a name other than localhost.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects, reason = "see the module `time`"))]

mod time;
mod panics;
mod health;
mod admission_plugin;
mod change_notifier;
mod store;
mod user;
mod distinguished_name;
mod authorization;
mod reading;
mod registry;
mod webhook;
mod upstream;
mod cluster;
mod auth;
pub mod faults;
pub mod log;
mod http;
pub mod mirror;
mod serving;
mod controllers;
mod server;
#[cfg(test)]
mod tests;

use dogwatch_apimachinery::{
    admission, admission_policy, builtin, cel, custom, depth, discovery, kinds, memory, object_limits,
    openapi, ownership, patch, plain_json, print, protobuf, request, schema, strconv,
};

pub use self::http::ResponseBody;
pub use admission_plugin::{AdmissionPlugin, AdmissionPluginError};
pub use auth::Anonymous;
pub use authorization::AuthorizationMode;
pub use cluster::{InvalidKey, InvalidServiceNetwork, ServiceAccountKeys, ServiceNetwork};
pub use controllers::Controllers;
pub use dogwatch_apimachinery::{ApiError, FieldError, FieldErrorKind, FieldErrors};
pub use health::{BackgroundHealth, LoopHealth};
pub use server::{ApiServer, ApiServerBuilder, StartError};
pub use serving::{Certificates, Connector, InProcess, InProcessStream};
pub use user::User;

/// The Kubernetes version whose API the server implements, as in `/version`.
///
/// ```
/// assert!(dogwatch_apiserver::KUBERNETES_VERSION.starts_with("1."));
/// ```
pub const KUBERNETES_VERSION: &str = "1.36.4";

/// Not part of the public API: for this repository's benchmarks.
#[doc(hidden)]
pub mod measure {
    pub use crate::change_notifier::{ChangeListener, ChangeNotifier};
    pub use crate::serving::{ConnectionParts, StreamTasks};
}

/// The code in the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
