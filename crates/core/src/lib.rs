//! The vocabulary of dogwatch: keys, versions, selectors, parameters, paths and `Status`.
//!
//! ```text
//! name ─► key ─► version ─► meta ─► object ─► selector ─► params ─► path ─► status
//! ```
//!
//! This crate has no tasks, sockets or clocks. It defines how Kubernetes names things
//! ([`ObjectKey`], [`Gvk`], [`ResourceType`]) and orders them ([`ResourceVersion`]), what a cache
//! needs of an object ([`Object`], [`View`], [`Meta`]), how requests select objects
//! ([`LabelSelector`], [`FieldSelector`], [`ListParams`] and the other parameters,
//! [`ResourcePath`]), and how a server reports an error ([`Status`]).
//!
//! ```
//! use dogwatch_core::{Gvk, LabelSelector, Object, ObjectKey, ResourcePath, ResourceType, ResourceVersion};
//! use k8s_openapi::api::core::v1::Pod;
//!
//! let key: ObjectKey = "shop/web".parse()?;
//! let pods = ResourceType::namespaced(Gvk::new("", "v1", "Pod"), "pods");
//! let path = ResourcePath::of(&pods).namespace("shop").name(key.name()).build()?;
//! assert_eq!(path, "/api/v1/namespaces/shop/pods/web");
//!
//! let mut pod = Pod::default();
//! pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
//! let selector: LabelSelector = "app in (web,api)".parse()?;
//! assert!(selector.matches(pod.header().labels));
//!
//! // Versions are numbers of any length, not texts.
//! assert!(ResourceVersion::new("9").is_older_than(&ResourceVersion::new("10")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod error_chain;
mod exponential_delay;
pub mod names;
mod null;
mod prefixed;
mod shared_labels;
mod shared_str;
mod kind;
mod key;
mod version;
mod meta;
mod header_bytes;
mod object;
mod requirement;
mod label_selector;
mod field_selector;
mod selectors;
mod params;
mod path;
mod status;
mod kube;

pub use error_chain::ErrorChain;
pub use exponential_delay::{ExponentialDelay, saturating_scale};
pub use field_selector::{FieldSelector, FieldSelectorError};
pub use key::{ObjectKey, ObjectKeyError};
pub use kind::{Gvk, Gvr, ResourceType, Scope};
pub use kube::SelectorError;
pub use label_selector::{LabelSelector, LabelSelectorError};
pub use meta::{Header, Labels, Meta};
pub use null::null_as_default;
pub use object::{Object, View};
pub use params::{
    DeleteParams, FieldValidation, GetParams, InvalidParams, ListParams, PatchParams, Preconditions,
    Propagation, VersionMatch, WatchParams, WriteParams,
};
pub use path::{InvalidPath, ResourcePath, Segment};
pub use requirement::{Operator, Requirement};
pub use selectors::Selectors;
pub use shared_str::SharedStr;
pub use status::{Cause, Details, Reason, Status};
pub use version::ResourceVersion;

/// The code in the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
