//! Definitions of custom kinds: what is served follows what is stored, at once.

use std::sync::Arc;

use dogwatch_core::{ObjectKey, Reason};
use serde_json::Value;

use super::pipeline::is_definition;
use super::{Cluster, Place, Writer};
use crate::custom::names;
use crate::refusal::Refusal;
use crate::registry::Kind;
use crate::store::{Encoded, Pending};

impl Cluster {
    /// Whether definitions get their names at once. Without it they wait for somebody else to accept them.
    pub fn establish_definitions(&self, at_once: bool) {
        self.establishing.store(at_once, std::sync::atomic::Ordering::Relaxed);
    }

    /// Follows a change of a definition; nothing for other kinds.
    pub(super) async fn definitions_changed(&self, kind: &Kind) {
        if is_definition(kind) {
            self.follow_definitions(kind).await;
        }
    }

    /// Boxed, because accepting names is a change of a definition too.
    fn follow_definitions<'a>(&'a self, kind: &'a Kind) -> Pending<'a, ()> {
        Box::pin(async move {
            self.refresh_definitions();
            if self.establishing.load(std::sync::atomic::Ordering::Relaxed) {
                self.accept_names(kind).await;
            }
        })
    }

    /// Refuses to store an object of a custom kind whose definition is gone, or was replaced by another of its name.
    ///
    /// A request looks its kind up when it begins, and its body may take a minute to arrive. Stored then, the object would be
    /// in the collection of the new definition, which may have another scope: no request could name it.
    ///
    /// # Errors
    /// 404, as for a kind that was never served.
    pub(super) fn check_defined(&self, kind: &Kind) -> Result<(), Refusal> {
        if kind.def.custom && self.catalog().definition_of(kind).is_none() {
            return Err(Refusal::new(Reason::NotFound, "the server could not find the requested resource"));
        }
        Ok(())
    }

    /// Serves what is stored. One at a time, so that who has read less cannot have the last word. Costs little when nothing
    /// has changed, and compiles only what has.
    ///
    /// The objects of a definition live as long as it: with a new one they begin anew, and with the last they go, history
    /// and all.
    pub(crate) fn refresh_definitions(&self) {
        let store = self.store();
        self.registry.define(
            || self.stored_definitions(),
            |collection| store.begin(collection),
            |collection| {
                store.remove(collection);
                // Whoever followed it may have asked for it once more, which made an empty one.
                let catalog = self.catalog();
                store.remove_empty(|it| catalog.has_collection(it));
            },
        );
    }

    fn stored_definitions(&self) -> Vec<Arc<Encoded>> {
        let catalog = self.catalog();
        let kind = catalog.kind("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        kind.map(|it| self.list(&it, None)).unwrap_or_default()
    }

    /// Accepts the names of every definition that can have them, first come, first served.
    async fn accept_names(&self, kind: &Kind) {
        let writer = Writer::server("kube-apiserver");
        let catalog = self.catalog();
        let mut waiting: Vec<_> = catalog.definitions().filter(|it| !it.is_settled()).collect();
        waiting.sort_by_key(|it| it.version());
        for definition in waiting {
            if let Err(refusal) = self.settle_names(kind, definition.key(), &writer).await {
                let name = definition.key().name();
                tracing::warn!(definition = name, %refusal, "the names of a definition cannot be accepted");
            }
        }
    }

    /// Accepts the names of one definition, as far as no other of its group has them. `kind` is that of definitions.
    ///
    /// # Errors
    /// When that cannot be stored.
    pub(crate) async fn settle_names(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        writer: &Writer,
    ) -> Result<(), Refusal> {
        let catalog = self.catalog();
        // The name of a definition is its plural and its group.
        let group = key.name().split_once('.').map_or("", |(_, group)| group);
        let others = || {
            let others = catalog.definitions().filter(|it| it.group == group && it.key() != key);
            others.map(|it| &it.accepted)
        };
        let now = self.source.stamp();
        let settle = |it: &mut Value| names::settle_among(it, others(), &now);
        self.change(&Place::of(kind, key).part("status"), writer, settle).await.map(drop)
    }
}
