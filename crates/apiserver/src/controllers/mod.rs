//! What keeps a cluster tidy while nobody asks: deletion of namespaces, definitions, claims and volumes, quotas, garbage,
//! old events.
//!
//! ```text
//! store ─► feed (cursors, bells) ─► pending (keys) ─► look at the store, decide, write through the verbs ─► store …
//! ```
//!
//! Each controller is one loop, and supervised: one that panics is started again and takes no other with it. Each has a task
//! of its own, unless the cluster is seeded: then all are one task, in fixed order. A loop wakes when something it follows has changed or a time is up, never to poll,
//! and acts on what is stored now, not on what it was told: a change only says where to look. What it decides is a pure
//! function. The verbs leave all of a change or nothing, so a controller may be dropped at any moment and started again.
//!
//! The `mod` lines below are in layer order.

mod part;
mod supervise;
pub(crate) mod feed;
pub(crate) mod pending;
pub(crate) mod reconcile;
pub(crate) mod recorder;
mod pauses;
mod finalizers;
mod purge;
mod namespaces;
mod definitions;
mod volumes;
mod quotas;
mod api_service;
mod expiry;
mod forgetting;
mod garbage;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use part::{Running, builtin, together, writer};
pub(crate) use supervise::supervised;

use crate::cluster::Cluster;

/// Which controllers run. All do, unless told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Controllers {
    /// Empties namespaces that are being deleted, and lets them go.
    pub namespaces: bool,
    /// Deletes objects whose owners are gone, and sees to it that deletions wait for, or leave, the dependents.
    pub garbage: bool,
    /// Accepts the names of definitions, and deletes the objects of those that are being deleted.
    pub definitions: bool,
    /// Removes the protection finalizers of claims and volumes that are being deleted and not in use.
    pub volumes: bool,
    /// Counts what is used of resource quotas. A quota that is not counted limits nothing.
    pub quotas: bool,
    /// Creates the service `default/kubernetes` again when it was deleted.
    pub api_service: bool,
    /// Deletes events an hour after their last change.
    pub events: bool,
    /// Forgets changes that are once or twice that old, so that nobody can list the state before them or watch from there.
    /// kube-apiserver has etcd forget after 5 minutes. By default history is bounded by its size and length only.
    pub history: Option<Duration>,
}

impl Default for Controllers {
    fn default() -> Self {
        Self {
            namespaces: true,
            garbage: true,
            definitions: true,
            volumes: true,
            quotas: true,
            api_service: true,
            events: true,
            history: None,
        }
    }
}

impl Controllers {
    /// None of them, as on a bare API server.
    pub fn none() -> Self {
        Self {
            namespaces: false,
            garbage: false,
            definitions: false,
            volumes: false,
            quotas: false,
            api_service: false,
            events: false,
            history: None,
        }
    }

    /// Those that the original runs inside the API server itself; the rest is left to a controller manager.
    pub fn of_server() -> Self {
        Self { definitions: true, api_service: true, events: true, ..Self::none() }
    }

    /// Runs the controllers until `shutdown` is ready. Dropping the future stops them too, at once and without harm.
    ///
    /// Must be polled inside a runtime: the bells that wake the controllers are tasks of their own, owned by this future.
    pub async fn run(self, cluster: Arc<Cluster>, shutdown: impl Future<Output = ()>) {
        together(self.supervised(&cluster), shutdown).await;
    }

    /// Returns the controllers, each of which runs for ever.
    pub(crate) fn supervised(self, cluster: &Arc<Cluster>) -> Vec<Running> {
        let mut all = Vec::new();
        if self.namespaces {
            all.push(reconcile::supervised(cluster, namespaces::Namespaces::default));
        }
        if self.definitions {
            all.push(reconcile::supervised(cluster, || definitions::Definitions));
        }
        if self.volumes {
            all.push(reconcile::supervised(cluster, volumes::Volumes::default));
        }
        if self.quotas {
            all.push(reconcile::supervised(cluster, quotas::Quotas::default));
        }
        if self.api_service {
            all.push(reconcile::supervised(cluster, api_service::ApiService::default));
        }
        if self.garbage {
            all.push(supervised(garbage::NAME, cluster, |it| Box::pin(garbage::run(it))));
        }
        if self.events {
            all.push(supervised("event-expiry", cluster, |it| Box::pin(expiry::run(it))));
        }
        if let Some(period) = self.history {
            all.push(supervised("history", cluster, move |it| Box::pin(forgetting::run(it, period))));
        }
        all
    }
}
