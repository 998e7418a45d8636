//! The background controllers: those that run inside kube-apiserver, the counting of quotas, and
//! the aggregation of roles. All others are clients of the server, such as `ControllerManager` of
//! `dogwatch-simulator`.
//!
//! ```text
//! store ─► feed (cursors, notifiers) ─► work queue (keys) ─► read, decide, write by the verbs ─► store …
//! ```
//!
//! Each controller is one supervised loop: one that panics is restarted and does not affect the
//! others. Each has a task of its own, unless the cluster is seeded: then all run in one task, in
//! fixed order. A loop wakes when a followed collection has changed or a timer has expired, never
//! to poll. It acts on what is stored now: a change only determines which keys to process.
//! Decisions are pure functions. The verbs leave a whole change or none of it, so a controller may
//! be dropped at any moment and restarted.
//!
//! The `mod` lines below are in layer order.

mod background;
mod supervise;
pub(crate) mod feed;
pub(crate) mod reconcile;
mod purge;
#[cfg(test)]
mod gated_storage;
mod definitions;
mod quotas;
mod role_aggregation;
mod api_service;
mod api_registration;
mod flow_schemas;
mod identity_lease;
mod expiry;
mod compaction;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use background::{Running, together};
pub(crate) use supervise::supervised;

use crate::cluster::Cluster;

/// The selection of controllers that run. All run by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Controllers {
    /// Accepts the names of definitions, and deletes the objects of those that are being deleted.
    pub definitions: bool,
    /// Counts the usage of resource quotas. A quota that is not counted limits nothing.
    pub quotas: bool,
    /// Collects the rules of aggregated ClusterRoles, such as `admin`, `edit` and `view`.
    pub role_aggregation: bool,
    /// Creates the service `default/kubernetes` again if it is deleted.
    pub api_service: bool,
    /// Keeps an APIService for each group and version of custom resources.
    pub api_registration: bool,
    /// Sets the status of flow schemas.
    pub flow_schemas: bool,
    /// Renews the lease of the server after each such period. kube-apiserver does so every 10
    /// seconds (`IdentityLeaseRenewIntervalPeriod` in k8s.io/kubernetes v1.36.4
    /// pkg/controlplane/apiserver/server.go). Defaults to `None`: nothing is written without a
    /// request.
    pub identity_lease: Option<Duration>,
    /// Deletes events an hour after their last change.
    pub events: bool,
    /// Compacts changes that are between one and two periods old: earlier states can then be
    /// neither listed nor watched. kube-apiserver compacts etcd every 5 minutes
    /// (`DefaultCompactInterval` in k8s.io/apiserver v0.36.4 pkg/storage/storagebackend/config.go).
    /// Defaults to `None`: the history is bounded only by its size and length.
    pub history: Option<Duration>,
}

impl Default for Controllers {
    fn default() -> Self {
        Self {
            definitions: true,
            quotas: true,
            role_aggregation: true,
            api_service: true,
            api_registration: true,
            flow_schemas: true,
            identity_lease: None,
            events: true,
            history: None,
        }
    }
}

impl Controllers {
    /// Returns a selection without any controllers, as on a bare API server.
    pub fn none() -> Self {
        Self {
            definitions: false,
            quotas: false,
            role_aggregation: false,
            api_service: false,
            api_registration: false,
            flow_schemas: false,
            identity_lease: None,
            events: false,
            history: None,
        }
    }

    /// Runs the controllers until `shutdown` is ready. Dropping the future also stops them, at once
    /// and safely.
    ///
    /// Must be polled inside a runtime: the tasks that wake the controllers are spawned there, and
    /// owned by this future.
    pub async fn run(self, cluster: Arc<Cluster>, shutdown: impl Future<Output = ()>) {
        together(self.supervised(&cluster), shutdown).await;
    }

    /// Returns the controllers as futures, none of which returns.
    pub(crate) fn supervised(self, cluster: &Arc<Cluster>) -> Vec<Running> {
        let mut all = Vec::new();
        if self.definitions {
            all.push(reconcile::supervised(cluster, || definitions::Definitions));
        }
        if self.quotas {
            all.push(reconcile::supervised(cluster, quotas::Quotas::default));
        }
        if self.role_aggregation {
            all.push(reconcile::supervised(cluster, role_aggregation::RoleAggregation::default));
        }
        if self.api_service {
            all.push(reconcile::supervised(cluster, api_service::ApiService::default));
        }
        if self.api_registration {
            all.push(reconcile::supervised(cluster, || api_registration::ApiRegistration));
        }
        if self.flow_schemas {
            all.push(reconcile::supervised(cluster, || flow_schemas::FlowSchemas));
        }
        if let Some(period) = self.identity_lease {
            all.push(supervised("identity-lease", cluster, move |it| {
                Box::pin(identity_lease::run(it, period))
            }));
        }
        if self.events {
            all.push(supervised("event-expiry", cluster, |it| Box::pin(expiry::run(it))));
        }
        if let Some(period) = self.history {
            all.push(supervised("history", cluster, move |it| Box::pin(compaction::run(it, period))));
        }
        all
    }
}
