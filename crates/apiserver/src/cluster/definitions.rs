//! CustomResourceDefinitions: the served kinds follow the stored definitions immediately.

use std::sync::Arc;

use dogwatch_core::{ObjectKey, Reason};
use serde_json::Value;

use super::{Cluster, ObjectRef, Writer};
use crate::ApiError;
use crate::custom::names;
use crate::kinds::DEFINITION;
use crate::registry::Kind;
use crate::store::{Encoded, Pending};

tokio::task_local! {
    /// Set while a task accepts the names of definitions.
    static ACCEPTING_NAMES: ();
}

impl Cluster {
    /// Sets whether the names of definitions are accepted as soon as they are stored. If not,
    /// definitions wait until a controller or a client accepts their names.
    pub fn establish_definitions(&self, at_once: bool) {
        self.establishing.store(at_once, std::sync::atomic::Ordering::Relaxed);
    }

    /// Follows a change of a definition. Does nothing for other kinds.
    pub(super) async fn definitions_changed(&self, kind: &Kind) {
        if kind.is(&DEFINITION) {
            self.follow_definitions(kind).await;
        }
    }

    /// Returns a boxed future, because accepting names is itself a change of a definition, which
    /// calls this function again.
    fn follow_definitions<'a>(&'a self, kind: &'a Kind) -> Pending<'a, ()> {
        Box::pin(async move {
            self.refresh_definitions();
            // The call that is accepting names continues with the next definition itself. Otherwise
            // the calls would nest as deep as there are definitions to accept.
            let nested = ACCEPTING_NAMES.try_with(|()| ()).is_ok();
            if !nested && self.establishing.load(std::sync::atomic::Ordering::Relaxed) {
                ACCEPTING_NAMES.scope((), self.accept_names(kind)).await;
            }
        })
    }

    /// Rejects an object of a custom kind whose definition was deleted, or replaced by another of
    /// its name.
    ///
    /// A request looks up its kind when it begins, and its body may take a minute to arrive. Stored
    /// then, the object would be in the collection of the new definition, which may have another
    /// scope: no request could name it.
    ///
    /// # Errors
    /// 404, as for a kind that was never served.
    pub(super) fn check_defined(&self, kind: &Kind) -> Result<(), ApiError> {
        if kind.def.custom && self.catalog().definition_of(kind).is_none() {
            return Err(ApiError::new(Reason::NotFound, "the server could not find the requested resource"));
        }
        Ok(())
    }

    /// Rejects a new object of a custom kind whose definition is being deleted: nothing would delete
    /// it before its collection is removed.
    ///
    /// # Errors
    /// 403, as `forbidCreateAdmission` in k8s.io/apiextensions-apiserver v0.36.4
    /// pkg/apiserver/customresource_handler.go.
    pub(super) fn check_accepts_new(&self, kind: &Kind, name: &str) -> Result<(), ApiError> {
        if kind.def.custom && self.catalog().definition_of(kind).is_some_and(|it| it.is_terminating()) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::forbidden(&kind.def.group, &kind.def.plural, name, why));
        }
        Ok(())
    }

    /// Updates the served kinds from the stored definitions. Calls are serialised, so that an older
    /// read never overwrites a newer one. Cheap if nothing has changed; only changed definitions
    /// are compiled.
    ///
    /// The objects of a definition live as long as the definition: a new one starts an empty
    /// collection, and when a definition is removed its collection is removed with its history.
    pub(crate) fn refresh_definitions(&self) {
        let store = self.store();
        self.registry.define(
            || self.stored_definitions(),
            |collection| store.begin(collection),
            |collection| {
                store.remove(collection);
                // A watcher may have read the collection once more, which creates it again, empty.
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

    /// Accepts the names of every definition without conflicts, oldest first.
    async fn accept_names(&self, kind: &Kind) {
        let writer = Writer::server("kube-apiserver");
        let mut left = usize::MAX;
        loop {
            let catalog = self.catalog();
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
        &self,
        kind: &Kind,
        key: &ObjectKey,
        writer: &Writer,
    ) -> Result<(), ApiError> {
        let catalog = self.catalog();
        // The name of a definition is `<plural>.<group>`.
        let group = key.name().split_once('.').map_or("", |(_, group)| group);
        let others = || {
            let others = catalog.definitions().filter(|it| it.group == group && it.key() != key);
            others.map(|it| &it.accepted)
        };
        let now = self.source.stamp();
        let settle = |it: &mut Value| names::settle_among(it, others(), &now);
        self.change(&ObjectRef::of(kind, key).part("status"), writer, settle).await.map(drop)
    }
}
