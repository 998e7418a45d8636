//! Forking of a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::Cluster;
use super::charges::Charges;
use super::policy_cache::PolicyCaches;
use super::webhook_cache::WebhookCaches;
use crate::authorization::Authorizer;
use crate::health::BackgroundHealth;
use crate::webhook::connections::Connections;

impl Cluster {
    /// Returns an independent copy of the cluster. Cheap until one of the two writes.
    #[must_use]
    pub fn fork(&self) -> Self {
        let copy = Self {
            storage: Arc::new(self.store().fork()),
            registry: self.registry.fork(),
            source: self.source.fork(),
            addresses: Mutex::new(self.addresses.lock().fork()),
            charges: Charges::default(),
            token_key: self.token_key.clone(),
            authorizer: Authorizer::new(self.authorizer.mode()),
            plugins: self.plugins,
            establishing: AtomicBool::new(self.establishing.load(Ordering::Relaxed)),
            background: BackgroundHealth::default(),
            connections: Connections::default(),
            webhook_caches: WebhookCaches::default(),
            policy_caches: PolicyCaches::default(),
        };
        copy.definitions().refresh();
        copy
    }
}
