//! Keeps programs synced with a Kubernetes cluster: the machinery of client-go, rebuilt for Rust.
//!
//! This is the crate to depend on. It contains no code of its own: it re-exports the crates below
//! it under short names. It works with the types you already have: those of [`k8s_openapi`], and
//! your own types with `#[derive(CustomResource)]`, which is available with the feature `derive`.
//!
//! An informer, against a cluster in the process of the test:
//!
//! ```
//! # #[cfg(feature = "testing")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
//! use dogwatch::{Api, SharedInformer, testing};
//!
//! let cluster = testing::cluster().await?; // or Client::from_env() for a real one
//! let maps = SharedInformer::new(Api::<ConfigMap>::all(cluster.client()));
//! maps.on_add(|map| println!("added {:?}", map.metadata.name))?;
//! maps.start();
//! maps.synced().await?;
//! assert_eq!(maps.store().len(), 2); // a new cluster has two
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "testing"))]
//! # fn main() {}
//! ```
//!
//! A controller:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use dogwatch::k8s_openapi::api::core::v1::{ConfigMap, Pod};
//! use dogwatch::{Action, Client, Context, Manager};
//!
//! async fn reconcile(map: Arc<ConfigMap>, _: Context, client: Arc<Client>) -> anyhow::Result<Action> {
//!     println!("{:?} through {client:?}", map.metadata.name);
//!     Ok(Action::Done)
//! }
//!
//! #[tokio::main]
//! async fn main() -> anyhow::Result<()> {
//!     let client = Client::from_env().await?;
//!     let manager = Manager::new(client.clone());
//!     let controller = manager.controller_for::<ConfigMap>().owns::<Pod>().reconcile_with(client, reconcile);
//!     manager.controller(controller).run().await?;
//!     Ok(())
//! }
//! ```
//!
//! # The pipeline
//!
//! ```text
//! ┌──────┐   ┌──────┐   ┌────────┐   ┌──────────┐     ┌───────────┐   ┌────────────┐
//! │ core │──►│ wire │──►│ client │──►│ informer │──┬─►│ workqueue │──►│ controller │──► your reconcilers
//! └──────┘   └──────┘   └────────┘   └──────────┘  │  └───────────┘   └────────────┘
//!  types      bytes to   requests,    local        │  ┌──────┐
//!             objects    watches      cache        ├─►│ grpc │──► your calls
//!                                                  │  └──────┘
//!                                                  └─► your handlers and reads
//! ```
//!
//! - **Configuration.** [`Config`] names the server and the credentials. It comes from a
//!   kubeconfig, from the pod's environment or from code; see [`config`].
//! - **Requests.** [`Client`] holds connections and credentials; [`Request`](client::Request) is a
//!   call to any path.
//! - **Collections.** [`Api`] is the handle on one collection: typed, dynamic, metadata only, or a
//!   [`View`] with just the fields you name. [`Packed`](api::Packed) holds whole objects in the
//!   encoding of the server, in a fraction of the memory.
//! - **Discovery.** [`CachedDiscovery`](discovery::CachedDiscovery) reads which resources a server
//!   serves; [`RestMapper`](discovery::RestMapper) resolves names such as `deploy`.
//! - **Watches.** [`Api::watch`] is a single watch; [`Api::watch_from`] is one that resumes when
//!   the connection breaks.
//! - **Local caches.** [`SharedInformer`] keeps a cache synced with the server. [`Store`] and
//!   [`Lister`](informer::Lister) read it; an [`EventHandler`](informer::EventHandler), closures or
//!   a stream receive its changes; an [`InformerFactory`] shares it within the program.
//! - **Work queues.** [`workqueue::WorkQueue`] holds keys without duplicates, with priorities,
//!   fairness, delays and rate limits.
//! - **Controllers.** A [`Reconciler`] compares the actual with the desired state; a [`Controller`]
//!   runs it for every key that changed; a [`Manager`] runs controllers with their informers,
//!   leader election, HTTP endpoints and graceful shutdown.
//! - **gRPC by service name.** [`grpc`] resolves `kubernetes:///greeter.shop:grpc` from the same
//!   watch, and its `KubeChannel` balances the calls of any tonic client over the pods.
//! - **Errors.** [`Error`] is classified by what the caller can do next; [`Status`](api::Status) is
//!   the error response of the server.
//!
//! # Features
//!
//! The client is always there. A program that needs no more leaves out the rest:
//! `dogwatch = { version = "0.1", default-features = false, features = ["latest"] }`.
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `latest` | yes | the newest Kubernetes version of k8s-openapi; without it, choose one with k8s-openapi's own features |
//! | `informer` | yes, by `controller` | [`informer`]: local caches |
//! | `workqueue` | yes, by `controller` | [`workqueue`], which needs no Kubernetes |
//! | `controller` | yes | [`controller`]: reconcilers, managers, leader election, Events |
//! | `grpc` | yes | [`grpc`]: channels for tonic by the names of Services |
//! | `grpc-crate` | | the same for the official `grpc` crate |
//! | `diagnostics` | | `dogwatch::diagnostics`: a live page of the program for a browser |
//! | `derive` | | `#[derive(CustomResource)]` and `#[derive(View)]` |
//! | `testing` | | `dogwatch::testing`: an API server in the process of a test |
//! | `zstd` | | compression of packed objects |
//! | `kube` | | a client from a `kube::Config` |
//!
//! # Conventions
//!
//! - `…Params` are sent to the server with a request, `…Options` adjust a value of this library,
//!   and `…Settings` are parts of a configuration such as a kubeconfig. A `…Builder` ends with
//!   `build`, `start` or `run`.
//! - A setter has the name of what it sets. `without_…` turns off what is on by default, and a
//!   duration of zero turns off a timer, as in client-go. A setter takes a `bool` where programs
//!   pass on a flag of their own.
//! - A value of which only the newest state matters is a receiver of tokio's `watch`, or a type
//!   with `changed()` if it has several sources; changes that all matter are a `Stream`.
//! - `get` returns an `Option` from a cache, and a `Result` from a server.
//!
//! # If you come from client-go
//!
//! | client-go | here |
//! |---|---|
//! | `clientcmd`, `rest.InClusterConfig` | [`Config::infer`], [`Config::from_kubeconfig`], [`Config::in_cluster`] |
//! | `clientcmd.ConfigOverrides` | [`config::Overrides`] |
//! | `kubernetes.Clientset`, `CoreV1().Pods(ns)` | [`Client`], [`Api::namespaced`] |
//! | `dynamic.Interface`, `unstructured.Unstructured` | [`Api::dynamic`] with [`DynamicObject`](api::DynamicObject) |
//! | `metadata.Interface` | [`Api::dynamic_metadata`] with [`PartialObjectMeta`](api::PartialObjectMeta), or `Api<PartialObjectMeta<Pod>>` |
//! | `rest.Request` | [`Request`](client::Request), from [`Client::get`] and similar methods |
//! | `metav1.ListOptions`, `CreateOptions`, `PatchOptions` | [`ListParams`](api::ListParams), [`WatchParams`](api::WatchParams), [`WriteParams`](api::WriteParams), [`PatchParams`](api::PatchParams) |
//! | `pager.ListPager` | [`Api::list_all`], [`Api::list_pages`] |
//! | `watch.Interface` | [`WatchStream`](api::WatchStream) |
//! | `watch.RetryWatcher` | [`RetryWatcher`](api::RetryWatcher), from [`Api::watch_from`] |
//! | `watch.Until`, `UntilWithSync`, `kubectl wait` | [`until`](api::until), [`Api::until`], [`Api::wait_until`], [`Api::wait_for`] |
//! | `apierrors.IsNotFound(err)` | [`Error::is_not_found`]; the full response is [`Error::status`] |
//! | `retry.RetryOnConflict` | [`retry_on_conflict`](api::retry_on_conflict) |
//! | `Apply` with apply configurations | [`Api::apply`] with any `Serialize` value |
//! | `discovery`, `restmapper`, `kubectl get po` | [`CachedDiscovery`](discovery::CachedDiscovery), [`RestMapper`](discovery::RestMapper) |
//! | `scale.ScalesGetter` | [`Api::get_scale`], [`Api::set_replicas`], [`RestMapper::scalable`](discovery::RestMapper::scalable) |
//! | `cache.SharedIndexInformer`, `cache.Controller` | [`SharedInformer`] |
//! | `informers.SharedInformerFactory`, `dynamicinformer` | [`InformerFactory`] |
//! | `cache.Store`, `cache.Indexer`, `Indexers` | [`Store`], [`Index`](informer::Index); consistent reads come from a [`Snapshot`](informer::Snapshot) |
//! | `listers` | [`Lister`](informer::Lister) |
//! | `cache.ResourceEventHandler`, `…Funcs`, `FilteringResourceEventHandler` | [`EventHandler`](informer::EventHandler), [`SharedInformer::on_update`] and similar methods, [`Filtered`](informer::Filtered) |
//! | `cache.DeletedFinalStateUnknown` | [`Deleted::Missed`](informer::Deleted::Missed) |
//! | `HasSynced`, `cache.WaitForCacheSync` | [`SharedInformer::synced`], [`Registration::synced`](informer::Registration::synced), [`InformerFactory::wait_for_sync`] |
//! | `SetTransform`, `SetWatchErrorHandler` | [`InformerBuilder::transform`](informer::InformerBuilder::transform), [`SharedInformer::health`] |
//! | `cache.Reflector`, `cache.ListWatch`, `cache.DeltaFIFO` | [`informer::Reflector`], [`ListWatch`](informer::ListWatch), [`informer::DeltaQueue`] |
//! | `cache.ObjectName` | [`ObjectKey`] |
//! | `workqueue` (and controller-runtime's `priorityqueue`) | [`workqueue`] |
//! | controller-runtime's `Reconciler`, `Builder`, `Manager`, `predicate` | [`Reconciler`], [`Controller`], [`Manager`], [`controller::Predicate`] |
//! | `leaderelection.LeaderElector`, `LeaderElectionConfig` | [`LeaderElector`](controller::LeaderElector), whose work is a future that is dropped when the lease is lost |
//! | `tools/events`, `record.EventRecorder` | [`EventBroadcaster`](controller::EventBroadcaster), [`EventRecorder`](controller::EventRecorder) |
//! | `controllerutil` finalizers, owner references, `CreateOrUpdate` | [`Finalizer`](controller::Finalizer), [`Owner`](controller::Owner), [`create_or_update`](controller::create_or_update) |

pub mod api;
pub mod client;
#[cfg(feature = "derive")]
mod definition;
#[cfg(feature = "testing")]
pub mod testing;

pub use dogwatch_client::{Api, Client, Config, Error, auth, conditions, config, discovery, tls, transport};
#[cfg(feature = "controller")]
pub use dogwatch_controller::{Action, Context, Controller, Manager, Reconciler};
pub use dogwatch_core::{Object, ObjectKey, View};
#[cfg(feature = "informer")]
pub use dogwatch_informer::{InformerFactory, SharedInformer, Store};

#[cfg(feature = "controller")]
pub use dogwatch_controller as controller;
#[cfg(feature = "diagnostics")]
pub use dogwatch_diagnostics as diagnostics;
#[cfg(feature = "grpc")]
pub use dogwatch_grpc as grpc;
#[cfg(feature = "informer")]
pub use dogwatch_informer as informer;
#[cfg(feature = "workqueue")]
pub use dogwatch_workqueue as workqueue;
pub use {http, k8s_openapi, kube_core};
#[cfg(feature = "derive")]
pub use {schemars, serde};

/// Derives a custom resource from its specification: the struct, its definition and its traits.
///
/// ```
/// use dogwatch::kube_core::{CustomResourceExt, Resource};
/// use dogwatch::CustomResource;
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, CustomResource, Deserialize, Serialize, JsonSchema)]
/// #[kube(group = "sea.example", version = "v1", kind = "Buoy", namespaced, status = "BuoyStatus")]
/// #[kube(shortname = "by", printcolumn(name = "Depth", type_ = "integer", json_path = ".spec.depth"))]
/// struct BuoySpec {
///     depth: i32,
/// }
///
/// #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
/// struct BuoyStatus {
///     afloat: bool,
/// }
///
/// let buoy = Buoy::new("north", BuoySpec { depth: 3 });
/// assert_eq!(buoy.meta().name.as_deref(), Some("north"));
/// assert!(buoy.status.is_none());
/// assert_eq!(Buoy::crd().spec.names.plural, "buoys");
/// ```
///
/// `Buoy` is used like any other kind: `Api::<Buoy>::namespaced(client, "default")`.
///
/// A program that depends on neither serde nor schemars uses those of this crate, and names them to
/// the two derives, whose code is outside of our control:
///
/// ```
/// use dogwatch::CustomResource;
/// use dogwatch::kube_core::CustomResourceExt;
/// use dogwatch::schemars::JsonSchema;
/// use dogwatch::serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, CustomResource, Deserialize, Serialize, JsonSchema)]
/// #[serde(crate = "dogwatch::serde")]
/// #[schemars(crate = "dogwatch::schemars")]
/// #[kube(group = "sea.example", version = "v1", kind = "Mooring", namespaced)]
/// struct MooringSpec {
///     buoy: String,
/// }
///
/// assert_eq!(Mooring::crd().spec.names.plural, "moorings");
/// ```
#[cfg(feature = "derive")]
#[doc(inline)]
pub use dogwatch_derive::CustomResource;

/// Derives [`Object`] and [`View`](trait@View) for a struct with some of the fields of a resource.
///
/// ```
/// use dogwatch::k8s_openapi::api::core::v1::Pod;
/// use dogwatch::api::Meta;
/// use dogwatch::{Object, View};
/// use serde::Deserialize;
///
/// #[derive(View, Deserialize)]
/// #[view(of = Pod)]
/// struct PodNode {
///     metadata: Meta,
///     spec: NodeName,
/// }
///
/// #[derive(Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct NodeName {
///     node_name: Option<String>,
/// }
///
/// # fn main() -> Result<(), serde_json::Error> {
/// let text = r#"{"metadata":{"name":"a","namespace":"b"},"spec":{"nodeName":"n"}}"#;
/// let pod: PodNode = serde_json::from_str(text)?;
/// assert_eq!(pod.key().map(String::from).as_deref(), Some("b/a"));
/// assert_eq!(pod.spec.node_name.as_deref(), Some("n"));
/// # Ok(())
/// # }
/// ```
///
/// `Api::<PodNode>::all(client)` lists and watches pods, and decodes these fields of them.
#[cfg(feature = "derive")]
#[doc(inline)]
pub use dogwatch_derive::View;

/// The names that generated code uses. They are no part of the public interface.
#[cfg(feature = "derive")]
#[doc(hidden)]
pub mod __private {
    pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    pub use {kube_core, schemars, serde};

    pub use crate::definition::{Column, Definition, Scale, add_rule, map, structural_schema};
}

/// The code in the README, compiled and run as tests.
#[cfg(all(doctest, feature = "testing", feature = "controller", feature = "grpc"))]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// The code in the README of this crate, compiled as tests.
#[cfg(all(doctest, feature = "informer"))]
#[doc = include_str!("../README.md")]
pub struct CrateReadme;

/// The code in the README of the macros and on their front page, compiled as tests here, where the
/// names in it exist.
#[cfg(all(doctest, feature = "derive"))]
#[doc = include_str!("../../derive/README.md")]
#[doc = include_str!("../../derive/src/example.md")]
pub struct DeriveReadme;
