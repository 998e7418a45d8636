//! Definitions of custom kinds: what is served follows what is stored, at once.

use serde_json::Value;

use super::pipeline::is_definition;
use super::{Cluster, Place, Writer};
use crate::custom::names;
use crate::registry::Kind;
use crate::store::Pending;

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

    /// Serves what is stored. One at a time, so that who has read less cannot have the last word.
    pub(super) fn refresh_definitions(&self) {
        self.registry.define(|| self.stored_definitions());
        for kind in self.catalog().custom() {
            self.store().begin(&kind.collection);
        }
    }

    fn stored_definitions(&self) -> Vec<Value> {
        let Some(kind) = self.catalog().kind("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        else {
            return Vec::new();
        };
        let mut stored = self.list(&kind, None);
        // First come, first served.
        stored.sort_by_key(|it| it.version());
        stored.iter().map(|it| it.to_value()).collect()
    }

    /// Accepts the names of every definition that can have them.
    async fn accept_names(&self, kind: &Kind) {
        let writer = Writer::server("kube-apiserver");
        let definitions = self.stored_definitions();
        for definition in &definitions {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let place = Place { kind, namespace: None, name, part: "status" };
            let others = || definitions.iter().filter(|it| it["metadata"]["name"] != name);
            let now = self.source.stamp();
            let changed = self.change(&place, &writer, |it| names::settle(it, others(), &now)).await;
            if let Err(refusal) = changed {
                tracing::warn!(definition = name, %refusal, "the names of a definition cannot be accepted");
            }
        }
    }
}
