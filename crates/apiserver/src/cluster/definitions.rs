//! CustomResourceDefinitions: the served kinds follow the stored definitions immediately.

use std::sync::atomic::Ordering;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::{Cluster, ObjectRef, Writer};
use crate::ApiError;
use crate::custom::names;
use crate::kinds::DEFINITION;
use crate::registry::{DefinitionsAt, Kind};
use crate::store::Pending;

/// Updates the served kinds when it is dropped, for a caller that changes many definitions and
/// follows them together: its request may be cancelled before it is done.
#[derive(Debug)]
#[must_use = "it updates the served kinds when it is dropped"]
pub(super) struct RefreshOnDrop<'a>(Definitions<'a>);

tokio::task_local! {
    /// Set while a task accepts the names of definitions.
    static ACCEPTING_NAMES: ();
}

/// The stored definitions, which the served kinds follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Definitions<'a> {
    cluster: &'a Cluster,
}

impl Cluster {
    /// Returns the stored definitions.
    pub(crate) fn definitions(&self) -> Definitions<'_> {
        Definitions { cluster: self }
    }
}

impl<'a> Definitions<'a> {
    /// Sets whether the names of definitions are accepted as soon as they are stored. If not,
    /// definitions wait until a controller or a client accepts their names.
    pub(crate) fn accept_at_once(self, at_once: bool) {
        self.cluster.establishing.store(at_once, Ordering::Relaxed);
    }

    /// Follows a change of a definition. Does nothing for other kinds.
    pub(super) async fn changed(self, kind: &Kind) {
        if kind.is(&DEFINITION) {
            self.follow(kind).await;
        }
    }

    /// Returns a guard for changes of many objects of a kind, after which [`Self::changed`] is
    /// called once; `None` for kinds other than definitions.
    pub(super) fn refresh_on_drop(self, kind: &Kind) -> Option<RefreshOnDrop<'a>> {
        kind.is(&DEFINITION).then_some(RefreshOnDrop(self))
    }

    /// Returns a boxed future, because accepting names is itself a change of a definition, which
    /// calls this function again.
    fn follow(self, kind: &'a Kind) -> Pending<'a, ()> {
        Box::pin(async move {
            self.refresh();
            // The call that is accepting names continues with the next definition itself. Otherwise
            // the calls would nest as deep as there are definitions to accept.
            let nested = ACCEPTING_NAMES.try_with(|()| ()).is_ok();
            if !nested && self.cluster.establishing.load(Ordering::Relaxed) {
                ACCEPTING_NAMES.scope((), self.accept_names(kind)).await;
            }
        })
    }

    /// Updates the served kinds from the stored definitions. Calls are serialised, so that an older
    /// read never overwrites a newer one. Cheap if nothing has changed; only changed definitions
    /// are compiled.
    ///
    /// The objects of a definition live as long as the definition: a new one starts an empty
    /// collection, and when a definition is removed its collection is removed with its history.
    pub(crate) fn refresh(self) {
        let cluster = self.cluster;
        let store = cluster.store();
        cluster.registry.define(
            |known| stored_definitions(cluster, known),
            |collection| store.begin(collection),
            |collections| {
                collections.iter().for_each(|it| store.remove(it));
                // A watcher may have read a collection once more, which creates it again, empty.
                let catalog = cluster.catalog();
                let wanted = catalog.collections();
                store.remove_empty(|it| wanted.contains(it));
            },
        );
    }

    /// Accepts the names of every definition without conflicts, oldest first.
    async fn accept_names(self, kind: &Kind) {
        let writer = Writer::server("kube-apiserver");
        let mut left = usize::MAX;
        loop {
            let catalog = self.cluster.catalog();
            let mut waiting: Vec<_> = catalog.definitions().filter(|it| !it.is_settled()).collect();
            // A definition that changes its names may release those that another one waits for.
            if waiting.len() >= left {
                return;
            }
            left = waiting.len();
            waiting.sort_by_key(|it| it.version());
            for definition in waiting {
                if let Err(refusal) = self.settle_names(kind, definition.key(), &writer).await {
                    let name = definition.key().name();
                    tracing::warn!(definition = name, %refusal, "cannot accept the names of a definition");
                }
            }
        }
    }

    /// Accepts the names of one definition, except those that another definition of its group has.
    /// `kind` is the kind of CustomResourceDefinitions.
    ///
    /// # Errors
    /// The error of storing the status.
    pub(crate) async fn settle_names(
        self,
        kind: &Kind,
        key: &ObjectKey,
        writer: &Writer,
    ) -> Result<(), ApiError> {
        let catalog = self.cluster.catalog();
        // The name of a definition is `<plural>.<group>`.
        let group = key.name().split_once('.').map_or("", |(_, group)| group);
        let others = || {
            let others = catalog.definitions().filter(|it| it.group == group && it.key() != key);
            others.map(|it| &it.accepted)
        };
        let now = self.cluster.source.stamp();
        let settle = |it: &mut Value| names::settle_among(it, others(), &now);
        self.cluster.change(&ObjectRef::of(kind, key).part("status"), writer, settle).await.map(drop)
    }
}

impl RefreshOnDrop<'_> {
    /// Updates the served kinds now.
    pub(super) fn refresh(&self) {
        self.0.refresh();
    }
}

impl Drop for RefreshOnDrop<'_> {
    fn drop(&mut self) {
        self.refresh();
    }
}

/// Returns the definitions as they are stored now, unless they are still at a known position of
/// their log.
fn stored_definitions(cluster: &Cluster, known: Option<u64>) -> Option<DefinitionsAt> {
    let kind = cluster.catalog().kind("apiextensions.k8s.io", "v1", "customresourcedefinitions")?;
    cluster.store().read(&kind.collection, |history, revision| {
        let position = history.position_after(revision).ok();
        (position.is_none() || position != known).then(|| {
            let stored = history.list_at(revision, None).into_iter().flatten();
            (position, stored.cloned().collect())
        })
    })
}
