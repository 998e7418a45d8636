//! What a server serves, and what a user's word for it means.
//!
//! ```text
//! files ◄─ http_cache ◄─ source ─┐
//! document ─► model ◄─ aggregated, legacy ◄─ fetch ◄─ disk ◄─ cache ◄─ mapper ◄─ scale
//! ```
//!
//! [`Discovery`] is one reading of the server's groups, versions and resources, in the server's order of priority.
//! [`CachedDiscovery`] keeps a reading until it is told to forget it, in memory and, if asked, in a directory shared
//! with kubectl; the answers of the server may be kept as well, to ask only for what changed. [`RestMapper`] turns `deploy`, `Deployment.v1.apps` or a [`Gvk`](dogwatch_core::Gvk) into the
//! resource that is meant.
//!
//! Nothing here knows the objects of a resource; that is what [`crate::Api`] is for.

mod model;
mod document;
mod files;
mod http_cache;
mod source;
mod aggregated;
mod legacy;
mod fetch;
mod version;
mod disk;
mod cache;
mod matching;
mod mapper;
mod scale;

pub use cache::{CachedDiscovery, DiscoveryOptions};
pub use disk::{DiskCache, kubectl_directory};
pub use fetch::DiscoveryFormat;
pub use mapper::{MapError, RestMapper};
pub use matching::{Ambiguity, Match, NoMatch};
pub use model::{
    ApiGroup, ApiVersion, Discovery, FailureReason, GroupFailure, ServedResource, ServedSubresource,
};
pub use scale::{Scalable, ScaleError};
