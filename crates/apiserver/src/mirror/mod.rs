//! Copies of collections of other API servers, served at those servers' resource versions.
//!
//! ```text
//! another server ══ LIST, WATCH ══► owner ── replace, apply, advance ──► Mirror
//!                                                                         │ respond
//!                                     clients ◄── GET, LIST, WATCH ───────┘
//! ```
//!
//! A [`Mirror`] is a read-only copy of one resource. Its owner follows the other server and feeds
//! the mirror what it sees, as the bytes that arrived; the mirror answers any number of clients
//! with the read path of this crate: selectors, tables, metadata, JSON, YAML and protobuf, pages,
//! bookmarks and WatchLists. Nothing here sends a request.
//!
//! Objects carry the resource versions of the other server, and so do lists. A client can therefore
//! change between the mirror and that server, or between two mirrors, without listing again.
//!
//! ```
//! use dogwatch_apiserver::ApiError;
//! use dogwatch_apiserver::mirror::{
//!     Freshness, Mirror, MirrorObject, MirrorSettings, MirroredResource, Pending, View,
//! };
//!
//! /// In a program, the version comes from the other server.
//! struct At(u64);
//!
//! impl Freshness for At {
//!     fn newest(&self) -> Pending<'_, Result<u64, ApiError>> {
//!         Box::pin(std::future::ready(Ok(self.0)))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let maps = MirroredResource::new("", "v1", "configmaps", "ConfigMap").namespaced();
//! let mirror = Mirror::new(maps, MirrorSettings::default());
//! let map = r#"{"metadata":{"name":"settings","namespace":"default","resourceVersion":"41"}}"#;
//! mirror.replace(42, vec![MirrorObject::json(map)])?;
//!
//! let request = http::Request::get("/api/v1/namespaces/default/configmaps/settings").body(())?;
//! let response = mirror.respond(request, View::unchanged(), &At(42)).await;
//! assert_eq!(response.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! The `mod` lines below are in layer order.

mod resource;
mod settings;
mod object;
mod error;
mod view;
mod views;
mod backend;
mod feed;
mod copy;
mod replacement;

pub use self::copy::{Mirror, MirrorUsage};
pub use crate::http::{Freshness, ListMemory, ListShare};
pub use crate::store::Pending;
pub use error::MirrorError;
pub use object::{MirrorEncoding, MirrorEvent, MirrorEventType, MirrorObject};
pub use replacement::Replacement;
pub use resource::MirroredResource;
pub use settings::MirrorSettings;
pub use view::View;

use crate::request::ContinueToken;

/// Returns true if a `continue` token is of a mirror, in this process or another. Any other token
/// is for the mirrored server: a mirror rejects it with 410.
///
/// ```
/// use dogwatch_apiserver::mirror::is_mirror_token;
///
/// // {"v":"meta.k8s.io/v1","rv":7,"start":"default/a\u0000"}, from kube-apiserver
/// let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Nywic3RhcnQiOiJkZWZhdWx0L2FcdTAwMDAifQ";
/// assert!(!is_mirror_token(token));
/// ```
pub fn is_mirror_token(token: &str) -> bool {
    ContinueToken::decode(token).is_ok_and(|it| it.is_of_copy)
}
