//! What a cluster is made of. The verbs are below, each in a file of its own.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use dogwatch_core::ObjectKey;

use super::addresses::Addresses;
use super::charges::Charges;
use super::source::Source;
use super::token_key::TokenKey;
use crate::health::BackgroundHealth;
use crate::registry::{Catalog, Kind, Registry};
use crate::store::{Encoded, Storage, Store};
use crate::webhook::connections::Connections;

/// A cluster without a socket.
#[derive(Debug)]
pub struct Cluster {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) registry: Registry,
    pub(super) source: Source,
    pub(super) addresses: Mutex<Addresses>,
    pub(super) charges: Charges,
    pub(super) tokens: TokenKey,
    pub(super) establishing: AtomicBool,
    pub(super) background: BackgroundHealth,
    /// The connections to webhooks.
    pub(super) webhooks: Connections,
}

impl Cluster {
    /// An empty cluster in memory; [`Cluster::bootstrap`] puts into it what every cluster has.
    pub fn new(source: Source) -> Self {
        let first = source.first_revision();
        Self::beginning_at(first, source)
    }

    /// As [`Self::new`], but the first change gets the version after this one, which should be 1 or more. Versions from
    /// before it are too old for a list or a watch.
    pub fn beginning_at(first_revision: u64, source: Source) -> Self {
        let tokens = TokenKey::new(&source);
        Self {
            storage: Arc::new(Store::beginning_at(first_revision.max(1))),
            registry: Registry::default(),
            source,
            addresses: Mutex::default(),
            charges: Charges::default(),
            tokens,
            establishing: AtomicBool::new(true),
            background: BackgroundHealth::default(),
            webhooks: Connections::default(),
        }
    }

    /// Signs tokens with a key that does not follow from the [`Source`]. For a cluster that others can reach: a seed is no
    /// secret, and with the signing key anybody could issue tokens. Must be called before any token is known or issued.
    #[must_use]
    pub fn with_secret_token_key(mut self) -> Self {
        self.tokens = TokenKey::random();
        self
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

    /// The health of what runs beside the requests.
    pub fn background(&self) -> &BackgroundHealth {
        &self.background
    }

    /// A stored object.
    pub fn get(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<Encoded>> {
        self.store().get(&kind.collection, key)
    }

    /// All objects of a kind as they are stored, in one namespace or in all.
    pub fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Arc<Encoded>> {
        self.store().read(&kind.collection, |history, revision| {
            history.list_in(revision, namespace, None).into_iter().flatten().cloned().collect()
        })
    }

    pub(super) fn addresses(&self) -> std::sync::MutexGuard<'_, Addresses> {
        self.addresses.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
