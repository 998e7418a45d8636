//! Discovery: the resources that a server serves, and the resolution of names to resources.
//!
//! ```text
//! files ◄─ http_cache ◄─ source ─┐
//! document ─► model ◄─ aggregated, legacy ◄─ fetch ◄─ disk ◄─ cache ◄─ mapper ◄─ scale
//! ```
//!
//! [`Discovery`] is one result: the server's groups, versions and resources, in the server's order
//! of priority. [`CachedDiscovery`] keeps a result until it is invalidated, in memory and
//! optionally in a directory shared with kubectl; HTTP responses may be cached as well, so that
//! only changes are transferred. [`RestMapper`] resolves `deploy`, `Deployment.v1.apps` or a
//! [`Gvk`](dogwatch_core::Gvk) to a resource.
//!
//! Nothing here knows the objects of a resource; that is the task of [`crate::Api`].

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
