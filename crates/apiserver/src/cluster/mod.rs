//! The cluster: what is stored, what is served, and every verb that changes it.
//!
//! ```text
//! create ─┐
//! update ─┤  default ─► prepare ─► own ─► validate ─► commit, again when somebody else was faster
//! patch  ─┤
//! apply  ─┘                                             delete ─► finalizers, grace ─► commit
//! ```
//!
//! Requests, controllers and simulators change objects through the same verbs, so the same rules hold for all of them.
//! Nothing here knows HTTP. Every verb is complete when it returns; dropping its future before leaves either all of the
//! change or nothing of it.
//!
//! The `mod` lines below are in layer order.

mod user;
mod source;
mod addresses;
mod place;
mod decode;
mod pipeline;
mod namespaces;
mod create;
mod update;
mod patch;
mod scale;
mod delete;
mod parts;
mod reviews;
mod tokens;
mod definitions;
mod bootstrap;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use dogwatch_core::ObjectKey;
use serde_json::Value;

pub use decode::{Body, FieldValidation, decode, decode_as};
pub use delete::{DeleteOptions, Deleted, Propagation};
pub use patch::PatchBody;
pub use place::{Place, Shown, Writer, Written};
pub use source::Source;
pub use tokens::TokenKey;
pub use user::User;

use crate::refusal::Refusal;
use crate::registry::{Catalog, Kind, Registry};
use crate::store::{Encoded, Storage, Store};
use addresses::Addresses;

/// A cluster without a socket.
#[derive(Debug)]
pub struct Cluster {
    storage: Arc<dyn Storage>,
    registry: Registry,
    source: Source,
    addresses: Mutex<Addresses>,
    tokens: TokenKey,
    establishing: AtomicBool,
}

impl Cluster {
    /// An empty cluster in memory; [`Cluster::bootstrap`] puts into it what every cluster has.
    pub fn new(source: Source) -> Self {
        let tokens = TokenKey::new(&source);
        Self {
            storage: Arc::new(Store::default()),
            registry: Registry::default(),
            source,
            addresses: Mutex::default(),
            tokens,
            establishing: AtomicBool::new(true),
        }
    }

    /// A copy that goes its own way; costs next to nothing until one of them writes.
    #[must_use]
    pub fn fork(&self) -> Self {
        let copy = Self {
            storage: Arc::new(self.store().fork()),
            registry: Registry::default(),
            source: self.source.fork(),
            addresses: Mutex::new(self.addresses().clone()),
            tokens: self.tokens.clone(),
            establishing: AtomicBool::new(self.establishing.load(std::sync::atomic::Ordering::Relaxed)),
        };
        copy.refresh_definitions();
        copy
    }

    /// The copy of all objects that reads and watches are served from.
    pub fn store(&self) -> &Store {
        self.storage.local()
    }

    /// What decides about commits.
    pub fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    /// The kinds that are served now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.registry.catalog()
    }

    /// Where time, uids and names come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// A stored object.
    pub fn get(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<Encoded>> {
        self.store().get(&kind.collection, key)
    }

    /// All objects of a kind as they are stored, in one namespace or in all.
    pub fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Arc<Encoded>> {
        self.store().read(&kind.collection, |history, revision| {
            let all = history.list_at(revision, None).into_iter().flatten();
            all.filter(|it| namespace.is_none_or(|wanted| it.key().namespace() == Some(wanted)))
                .cloned()
                .collect()
        })
    }

    /// Makes an object of any kind that is served, wherever it says it belongs. For what is put in from inside.
    ///
    /// # Errors
    /// As for [`Cluster::create`]; 400 for a kind that is not served.
    pub async fn add(&self, object: Value, writer: &Writer) -> Result<Written, Refusal> {
        let says =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind_name) = (says("/apiVersion"), says("/kind"));
        let unknown =
            || Refusal::bad_request(format!("no kind {kind_name:?} is served in version {api_version:?}"));
        let kind = self.catalog().kind_of(&api_version, &kind_name).ok_or_else(unknown)?;
        let body = Body { bytes: object.to_string().into(), form: crate::request::BodyForm::Json };
        let (decoded, _) = decode(&kind, &body, FieldValidation::Strict)?;
        let namespace = match says("/metadata/namespace") {
            given if !given.is_empty() => Some(given),
            _ => kind.def.namespaced.then(|| "default".to_owned()),
        };
        let namespace = namespace.filter(|_| kind.def.namespaced);
        let place = Place { kind: &kind, namespace: namespace.as_deref(), name: "", part: "" };
        self.create(&place, decoded, writer).await
    }

    fn addresses(&self) -> std::sync::MutexGuard<'_, Addresses> {
        self.addresses.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
