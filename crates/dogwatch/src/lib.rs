//! Keeps programs in step with a Kubernetes cluster: the machinery of client-go, rebuilt for Rust.
//!
//! This is the crate to depend on. It makes nothing itself: it hands out, under short names, what the crates below it
//! make. It works with the types you already have: those of [`k8s_openapi`], and your own with
//! `#[derive(CustomResource)]`, which is here behind the feature `derive` and also works from kube-derive.
//!
//! ```no_run
//! use dogwatch::k8s_openapi::api::core::v1::Pod;
//! use dogwatch::{Api, Client, ListParams, Object, WatchEvent, WatchParams};
//! use futures_util::TryStreamExt;
//!
//! #[tokio::main]
//! async fn main() -> anyhow::Result<()> {
//!     let pods = Api::<Pod>::default_namespaced(Client::from_env().await?);
//!
//!     let list = pods.list_all(&ListParams::default()).await?;
//!     println!("{} pods at version {}", list.items.len(), list.metadata.version);
//!
//!     let mut events = pods.watch_from(WatchParams::from(list.metadata.version))?;
//!     while let Some(event) = events.try_next().await? {
//!         match event {
//!             WatchEvent::Added(pod) | WatchEvent::Modified(pod) => println!("{:?} is there", pod.key()),
//!             WatchEvent::Deleted(pod) => println!("{:?} is gone", pod.key()),
//!             WatchEvent::Error(status) => anyhow::bail!("list again: {status}"),
//!             _ => {}
//!         }
//!     }
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
//!  words      bytes to   requests,    a local      │  ┌──────┐
//!             objects    watches      copy         ├─►│ grpc │──► your calls
//!                                                  │  └──────┘
//!                                                  └─► your handlers and reads
//! ```
//!
//! - **Which server, and who are we?** [`Config`], from a kubeconfig, a pod or by hand; everything about it is in [`config`].
//! - **Speak to it.** [`Client`] holds connections and credentials; [`Request`] is one call of any path.
//! - **Work on a collection.** [`Api`] is the handle on one: typed, dynamic, metadata only, or a [`View`] with just the
//!   fields you name, for which there is `#[derive(View)]` behind the feature `derive`.
//! - **Find out what there is.** [`CachedDiscovery`] reads what a server serves, [`RestMapper`] knows what `deploy` means.
//! - **Hear what changes.** [`Api::watch`] is one watch, [`Api::watch_from`] one that goes on when the connection breaks.
//! - **Have a copy of it.** [`SharedInformer`] keeps one in step with the server; [`Store`] and [`Lister`] read it, an
//!   [`EventHandler`], closures or a stream are told of its changes, and an [`InformerFactory`] shares it in the program.
//! - **Work on what changed.** [`workqueue::WorkQueue`] holds keys without duplicates, by priority, by turns, later, or with limits.
//! - **Bring things about.** A [`Reconciler`] compares what is with what should be; a [`Controller`] runs it for every key that
//!   changed, and a [`Manager`] runs controllers with their informers, elections, endpoints and an orderly end.
//! - **Call a service by its name.** [`grpc`] resolves `kubernetes:///greeter.shop:grpc` from the same watch, and its `KubeChannel`
//!   spreads the calls of any tonic client over the pods.
//! - **When it fails.** [`Error`] says what to do next; [`Status`] is the server's own word.
//!
//! # If you come from client-go
//!
//! | client-go | here |
//! |---|---|
//! | `clientcmd`, `rest.InClusterConfig` | [`Config::infer`], [`Config::from_kubeconfig`], [`Config::in_cluster`] |
//! | `clientcmd.ConfigOverrides` | [`config::Overrides`] |
//! | `kubernetes.Clientset`, `CoreV1().Pods(ns)` | [`Client`], [`Api::namespaced`] |
//! | `dynamic.Interface`, `unstructured.Unstructured` | [`Api::dynamic`] with [`DynamicObject`] |
//! | `metadata.Interface` | [`Api::dynamic_metadata`] with [`PartialObjectMeta`], or `Api<PartialObjectMeta<Pod>>` |
//! | `rest.Request` | [`Request`], from [`Client::get`] and its siblings |
//! | `metav1.ListOptions`, `CreateOptions`, `PatchOptions` | [`ListParams`], [`WatchParams`], [`WriteParams`], [`PatchParams`] |
//! | `pager.ListPager` | [`Api::list_all`], [`Api::list_pages`] |
//! | `watch.Interface` | [`WatchStream`] |
//! | `watch.RetryWatcher` | [`RetryWatcher`], from [`Api::watch_from`] |
//! | `watch.Until`, `UntilWithSync`, `kubectl wait` | [`until`], [`Api::until`], [`Api::wait_until`], [`Api::wait_for`] |
//! | `apierrors.IsNotFound(err)` | [`Error::is_not_found`]; the whole answer is [`Error::status`] |
//! | `retry.RetryOnConflict` | [`retry_on_conflict`] |
//! | `Apply` with apply configurations | [`Api::apply`] with anything that serializes |
//! | `discovery`, `restmapper`, `kubectl get po` | [`CachedDiscovery`], [`RestMapper`] |
//! | `scale.ScalesGetter` | [`Api::get_scale`], [`Api::set_replicas`], [`RestMapper::scalable`] |
//! | `cache.SharedIndexInformer`, `cache.Controller` | [`SharedInformer`] |
//! | `informers.SharedInformerFactory`, `dynamicinformer` | [`InformerFactory`] |
//! | `cache.Store`, `cache.Indexer`, `Indexers` | [`Store`], [`Index`]; what fits together is read from a [`Snapshot`] |
//! | `listers` | [`Lister`] |
//! | `cache.ResourceEventHandler`, `…Funcs`, `FilteringResourceEventHandler` | [`EventHandler`], [`SharedInformer::on_update`] and its siblings, [`Filtered`] |
//! | `cache.DeletedFinalStateUnknown` | [`Deleted::Missed`] |
//! | `HasSynced`, `cache.WaitForCacheSync` | [`SharedInformer::synced`], [`Registration::synced`], [`InformerFactory::wait_for_sync`] |
//! | `SetTransform`, `SetWatchErrorHandler` | [`InformerBuilder::transform`], [`SharedInformer::health`] |
//! | `cache.Reflector`, `cache.ListWatch`, `cache.DeltaFIFO` | [`informer::Reflector`], [`ListWatch`], [`informer::DeltaQueue`] |
//! | `cache.ObjectName` | [`ObjectKey`] |
//! | `workqueue` (and controller-runtime's `priorityqueue`) | [`workqueue`] |
//! | controller-runtime's `Reconciler`, `Builder`, `Manager`, `predicate` | [`Reconciler`], [`Controller`], [`Manager`], [`controller::Predicate`] |
//! | `leaderelection.LeaderElector`, `LeaderElectionConfig` | [`LeaderElector`], whose work is a future that is dropped at loss |
//! | `tools/events`, `record.EventRecorder` | [`EventBroadcaster`], [`EventRecorder`] |
//! | `controllerutil` finalizers, owner references, `CreateOrUpdate` | [`Finalizer`], [`Owner`], [`create_or_update`] |

pub use dogwatch_client::api::{
    ApplyConflict, ApplyError, ConflictRetries, Deletion, List, LogParams, Patch, RowObject, StaticScope,
    Table, TableColumn, TableMeta, TableRow, retry_on_conflict,
};
pub use dogwatch_client::config::Impersonation;
pub use dogwatch_client::{
    Api, BoxError, CachedDiscovery, Client, ClientBuilder, Config, DEFAULT_MAX_RETRIES, DEFAULT_PAGE_SIZE,
    Discovery, DistinctWarnings, Error, EventCondition, HttpService, HttpStack, IgnoreWarnings,
    InvalidRequest, Judgement, ListStream, Listed, LogWarnings, Request, RequestBody, Response, ResponseBody,
    RestMapper, RetryWatcher, ServerBackoff, UntilError, Warning, WarningHandler, WatchStream, auth, boxed,
    config, discovery, in_order, tls, transport, until,
};
pub use dogwatch_controller::{
    Action, Controller, EventBroadcaster, EventRecorder, Finalizer, LeaderElector, Led, Manager, Note, Owner,
    Reconciler, create_or_update,
};
pub use dogwatch_core::{
    Cause, DeleteParams, Details, FieldSelector, FieldSelectorError, FieldValidation, GetParams, Gvk, Gvr,
    Header, InvalidParams, InvalidPath, LabelSelector, LabelSelectorError, Labels, ListParams, Meta, Object,
    ObjectKey, ObjectKeyError, Operator, PatchParams, Preconditions, Propagation, Reason, Requirement,
    ResourcePath, ResourceType, ResourceVersion, Scope, Segment, Status, VersionMatch, View, WatchParams,
    WriteParams,
};
pub use dogwatch_informer::{
    Change, Changes, Deleted, EventHandler, Filtered, HandlerOptions, Health, HealthState, Index,
    InformerBuilder, InformerFactory, Lag, ListWatch, Lister, NAMESPACE_INDEX, NotSynced, Overflow,
    ReflectorOptions, Registration, Selection, SharedInformer, Snapshot, Store, SyncResult,
};
pub use dogwatch_wire::{BadItem, Bookmark, EventKind, ListMeta, WatchEvent};
pub use kube_core::{DynamicObject, PartialObjectMeta, Resource};

pub use dogwatch_controller as controller;
#[cfg(feature = "grpc")]
pub use dogwatch_grpc as grpc;
pub use dogwatch_informer as informer;
pub use dogwatch_workqueue as workqueue;
pub use {http, k8s_openapi, kube_core};

#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "derive")]
mod definition;

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
#[cfg(feature = "derive")]
#[doc(inline)]
pub use dogwatch_derive::CustomResource;

/// Derives [`Object`] and [`View`](trait@View) for a struct with some of the fields of a resource.
///
/// ```
/// use dogwatch::k8s_openapi::api::core::v1::Pod;
/// use dogwatch::{Meta, Object, View};
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
