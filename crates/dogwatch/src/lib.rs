//! Keeps programs synced with a Kubernetes cluster: the machinery of client-go, rebuilt for Rust.
//!
//! This is the crate to depend on. It contains no code of its own: it re-exports the crates below
//! it under short names. It works with the types you already have: those of [`k8s_openapi`], and
//! your own types with `#[derive(CustomResource)]`.
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
//!             WatchEvent::Added(pod) | WatchEvent::Modified(pod) => println!("{:?} exists", pod.key()),
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
//!  types      bytes to   requests,    local        │  ┌──────┐
//!             objects    watches      cache        ├─►│ grpc │──► your calls
//!                                                  │  └──────┘
//!                                                  └─► your handlers and reads
//! ```
//!
//! - **Configuration.** [`Config`] names the server and the credentials. It comes from a
//!   kubeconfig, from the pod's environment or from code; see [`config`].
//! - **Requests.** [`Client`] holds connections and credentials; [`Request`] is a call to any path.
//! - **Collections.** [`Api`] is the handle on one collection: typed, dynamic, metadata only, or a
//!   [`View`] with just the fields you name.
//! - **Discovery.** [`CachedDiscovery`] reads which resources a server serves; [`RestMapper`]
//!   resolves names such as `deploy`.
//! - **Watches.** [`Api::watch`] is a single watch; [`Api::watch_from`] is one that resumes when
//!   the connection breaks.
//! - **Local caches.** [`SharedInformer`] keeps a cache synced with the server. [`Store`] and
//!   [`Lister`] read it; an [`EventHandler`], closures or a stream receive its changes; an
//!   [`InformerFactory`] shares it within the program.
//! - **Work queues.** [`workqueue::WorkQueue`] holds keys without duplicates, with priorities,
//!   fairness, delays and rate limits.
//! - **Controllers.** A [`Reconciler`] compares the actual with the desired state; a [`Controller`]
//!   runs it for every key that changed; a [`Manager`] runs controllers with their informers,
//!   leader election, HTTP endpoints and graceful shutdown.
//! - **gRPC by service name.** [`grpc`] resolves `kubernetes:///greeter.shop:grpc` from the same
//!   watch, and its `KubeChannel` balances the calls of any tonic client over the pods.
//! - **Errors.** [`Error`] is classified by what the caller can do next; [`Status`] is the error
//!   response of the server.
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
//! | `rest.Request` | [`Request`], from [`Client::get`] and similar methods |
//! | `metav1.ListOptions`, `CreateOptions`, `PatchOptions` | [`ListParams`], [`WatchParams`], [`WriteParams`], [`PatchParams`] |
//! | `pager.ListPager` | [`Api::list_all`], [`Api::list_pages`] |
//! | `watch.Interface` | [`WatchStream`] |
//! | `watch.RetryWatcher` | [`RetryWatcher`], from [`Api::watch_from`] |
//! | `watch.Until`, `UntilWithSync`, `kubectl wait` | [`until`], [`Api::until`], [`Api::wait_until`], [`Api::wait_for`] |
//! | `apierrors.IsNotFound(err)` | [`Error::is_not_found`]; the full response is [`Error::status`] |
//! | `retry.RetryOnConflict` | [`retry_on_conflict`] |
//! | `Apply` with apply configurations | [`Api::apply`] with any `Serialize` value |
//! | `discovery`, `restmapper`, `kubectl get po` | [`CachedDiscovery`], [`RestMapper`] |
//! | `scale.ScalesGetter` | [`Api::get_scale`], [`Api::set_replicas`], [`RestMapper::scalable`] |
//! | `cache.SharedIndexInformer`, `cache.Controller` | [`SharedInformer`] |
//! | `informers.SharedInformerFactory`, `dynamicinformer` | [`InformerFactory`] |
//! | `cache.Store`, `cache.Indexer`, `Indexers` | [`Store`], [`Index`]; consistent reads come from a [`Snapshot`] |
//! | `listers` | [`Lister`] |
//! | `cache.ResourceEventHandler`, `…Funcs`, `FilteringResourceEventHandler` | [`EventHandler`], [`SharedInformer::on_update`] and similar methods, [`Filtered`] |
//! | `cache.DeletedFinalStateUnknown` | [`Deleted::Missed`] |
//! | `HasSynced`, `cache.WaitForCacheSync` | [`SharedInformer::synced`], [`Registration::synced`], [`InformerFactory::wait_for_sync`] |
//! | `SetTransform`, `SetWatchErrorHandler` | [`InformerBuilder::transform`], [`SharedInformer::health`] |
//! | `cache.Reflector`, `cache.ListWatch`, `cache.DeltaFIFO` | [`informer::Reflector`], [`ListWatch`], [`informer::DeltaQueue`] |
//! | `cache.ObjectName` | [`ObjectKey`] |
//! | `workqueue` (and controller-runtime's `priorityqueue`) | [`workqueue`] |
//! | controller-runtime's `Reconciler`, `Builder`, `Manager`, `predicate` | [`Reconciler`], [`Controller`], [`Manager`], [`controller::Predicate`] |
//! | `leaderelection.LeaderElector`, `LeaderElectionConfig` | [`LeaderElector`], whose work is a future that is dropped when the lease is lost |
//! | `tools/events`, `record.EventRecorder` | [`EventBroadcaster`], [`EventRecorder`] |
//! | `controllerutil` finalizers, owner references, `CreateOrUpdate` | [`Finalizer`], [`Owner`], [`create_or_update`] |

pub use dogwatch_client::api::{
    ApplyConflict, ApplyError, ConflictRetries, Deletion, List, LogParams, Patch, RowObject, StaticScope,
    Table, TableColumn, TableMeta, TableRow, retry_on_conflict,
};
pub use dogwatch_client::config::Impersonation;
pub use dogwatch_client::{
    Api, BoxError, CachedDiscovery, Client, ClientBuilder, ConditionResult, Config, DEFAULT_MAX_RETRIES,
    DEFAULT_PAGE_SIZE, Discovery, DistinctWarnings, Error, EventCondition, HttpService, HttpStack,
    IgnoreWarnings, InvalidRequest, ListStream, Listed, LogWarnings, Request, RequestBody, Response,
    ResponseBody, RestMapper, RetryWatcher, ServerBackoff, UntilError, Warning, WarningHandler, WatchStream,
    auth, boxed, config, discovery, in_order, tls, transport, until,
};
pub use dogwatch_controller::{
    Action, Controller, EventBroadcaster, EventRecorder, Finalizer, LeaderElector, Leadership, Manager,
    NewEvent, Owner, Reconciler, create_or_update,
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
pub use dogwatch_wire::{Bookmark, EventKind, ListMeta, UndecodableItem, WatchEvent};
pub use kube_core::{DynamicObject, PartialObjectMeta, Resource};

pub use dogwatch_controller as controller;
#[cfg(feature = "grpc")]
pub use dogwatch_grpc as grpc;
pub use dogwatch_informer as informer;
pub use dogwatch_workqueue as workqueue;
pub use {http, k8s_openapi, kube_core};

#[cfg(feature = "testing")]
pub mod testing;
