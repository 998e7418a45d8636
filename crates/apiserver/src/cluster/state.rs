//! The state of a cluster. The verbs are in the files below, one for each.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use dogwatch_core::ObjectKey;

use super::addresses::Addresses;
use super::charges::Charges;
use super::policy_cache::PolicyCaches;
use super::service_network::ServiceNetwork;
use super::signing_key::ServiceAccountKeys;
use super::source::Source;
use super::token_key::TokenKey;
use super::webhook_cache::WebhookCaches;
use crate::admission_plugin::{AdmissionPlugin, EnabledPlugins};
use crate::authorization::{AccessRequest, AuthorizationMode, Authorizer, Decision};
use crate::health::BackgroundHealth;
use crate::registry::{Catalog, Kind, Registry};
use crate::store::{Encoded, Storage, Store};
use crate::user::User;
use crate::webhook::connections::Connections;

/// A cluster without a listener.
#[derive(Debug)]
pub struct Cluster {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) registry: Registry,
    pub(super) source: Source,
    pub(super) addresses: Mutex<Addresses>,
    pub(super) charges: Charges,
    pub(super) token_key: TokenKey,
    pub(super) authorizer: Authorizer,
    pub(super) plugins: EnabledPlugins,
    /// True if the names of definitions are accepted as soon as they are stored.
    pub(super) establishing: AtomicBool,
    pub(super) background: BackgroundHealth,
    /// The connections to webhooks.
    pub(super) connections: Connections,
    pub(super) webhook_caches: WebhookCaches,
    pub(super) policy_caches: PolicyCaches,
}

impl Cluster {
    /// Creates an empty cluster in memory. [`Cluster::bootstrap`] adds the objects that every
    /// cluster has.
    pub fn new(source: Source) -> Self {
        let first = source.first_revision();
        Self::beginning_at(first, source)
    }

    /// Creates an empty cluster like [`Self::new`], whose first change gets the version after
    /// `first_revision`, which should be at least 1. Lists and watches at earlier versions are
    /// answered as expired.
    pub fn beginning_at(first_revision: u64, source: Source) -> Self {
        let token_key = TokenKey::new(&source);
        Self {
            storage: Arc::new(Store::beginning_at(first_revision.max(1))),
            registry: Registry::default(),
            source,
            addresses: Mutex::default(),
            charges: Charges::default(),
            token_key,
            authorizer: Authorizer::default(),
            plugins: EnabledPlugins::default(),
            establishing: AtomicBool::new(true),
            background: BackgroundHealth::default(),
            connections: Connections::default(),
            webhook_caches: WebhookCaches::default(),
            policy_caches: PolicyCaches::default(),
        }
    }

    /// Signs tokens with a random key instead of one that is derived from the [`Source`]. For a
    /// cluster that other machines can reach: a seed is not secret, and a client that has the
    /// signing key could issue tokens. Must be called before any token is known or issued.
    #[must_use]
    pub fn with_secret_token_key(mut self) -> Self {
        self.token_key = TokenKey::random();
        self
    }

    /// Sets the way in which users are authorized. Defaults to [`AuthorizationMode::AlwaysAllow`].
    #[must_use]
    pub fn with_authorization(mut self, mode: AuthorizationMode) -> Self {
        self.authorizer = Authorizer::new(mode);
        self
    }

    /// Sets the network of the addresses of services. Must be called before there are any.
    #[must_use]
    pub fn with_service_network(mut self, network: ServiceNetwork) -> Self {
        self.addresses = Mutex::new(Addresses::of(network));
        self
    }

    /// Returns the network of the addresses of services.
    pub(crate) fn service_network(&self) -> ServiceNetwork {
        self.addresses.lock().network()
    }

    /// Signs and verifies tokens with these keys. Must be called before any token is known or
    /// issued.
    #[must_use]
    pub fn with_token_keys(mut self, keys: ServiceAccountKeys) -> Self {
        self.token_key = self.token_key.with_keys(keys);
        self
    }

    /// Sets the issuers of tokens that are accepted, the first of which issues them. Must not be
    /// empty.
    #[must_use]
    pub fn with_token_issuers(mut self, issuers: Vec<String>) -> Self {
        self.token_key = self.token_key.with_issuers(issuers);
        self
    }

    /// Switches an admission plugin on or off.
    #[must_use]
    pub fn with_plugin(mut self, plugin: AdmissionPlugin, on: bool) -> Self {
        self.plugins.switch(plugin, on);
        self
    }

    /// Returns the way in which users are authorized.
    pub fn authorization(&self) -> AuthorizationMode {
        self.authorizer.mode()
    }

    /// Decides whether a user may do what is requested.
    pub(crate) fn authorize(&self, user: &User, request: &AccessRequest<'_>) -> Decision {
        self.authorizer.authorize(self.store(), user, request)
    }

    /// Replaces the storage, which must have this cluster's store as its local copy.
    #[cfg(test)]
    pub(crate) fn with_storage<S: Storage + 'static>(mut self, storage: impl FnOnce(Store) -> S) -> Self {
        self.storage = Arc::new(storage(self.store().clone()));
        self
    }

    /// Returns the local store, which reads and watches are served from.
    pub fn store(&self) -> &Store {
        self.storage.local()
    }

    /// Returns the storage, which decides about commits.
    pub fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    /// Returns the catalog of the kinds that are served now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.registry.catalog()
    }

    /// Returns the source of time, uids and names.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the health of the background tasks.
    pub fn background(&self) -> &BackgroundHealth {
        &self.background
    }

    /// Returns a stored object.
    pub fn get(&self, kind: &Kind, key: &ObjectKey) -> Option<Arc<Encoded>> {
        self.store().get(&kind.collection, key)
    }

    /// Returns all objects of a kind as they are stored, in one namespace or in all.
    pub fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Arc<Encoded>> {
        self.store().list(&kind.collection, namespace)
    }

    /// Returns true if a quota of the namespace may have been charged for an object that is not
    /// stored yet.
    pub(crate) fn has_pending_charge(&self, namespace: &str) -> bool {
        self.charges.is_pending(namespace)
    }
}
