//! The admission webhooks that a write is reviewed by, from the stored configurations.
//!
//! The configurations are read again for each write, so a configuration is in effect as soon as it
//! is stored. Nothing here calls a webhook.

use std::sync::{Arc, LazyLock};

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::Cluster;
use super::admission_attributes::AdmissionAttributes;
use super::selector::selects;
use crate::kinds::NAMESPACE;
use crate::kinds::json_access::{at, items, text};
use crate::registry::{Kind, Registry};
use crate::store::{CollectionName, Store};
use crate::webhook::rules;

const GROUP: &str = "admissionregistration.k8s.io";
static MUTATING: LazyLock<CollectionName> =
    LazyLock::new(|| format!("{GROUP}/mutatingwebhookconfigurations").into());
static VALIDATING: LazyLock<CollectionName> =
    LazyLock::new(|| format!("{GROUP}/validatingwebhookconfigurations").into());

/// The configured webhooks, and the state that their rules and selectors are matched against.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConfiguredWebhooks<'a> {
    /// Has the configurations and the namespaces.
    store: &'a Store,
    /// Has the other versions of a kind, which a rule may name.
    registry: &'a Registry,
}

/// A webhook whose rules match a write.
#[derive(Debug)]
pub(super) struct MatchedWebhook {
    /// The webhook as its configuration describes it.
    pub(super) webhook: Value,
    /// The version in which the webhook sees the object, if it is another than that of the request.
    pub(super) kind: Option<Arc<Kind>>,
}

impl<'a> ConfiguredWebhooks<'a> {
    /// Returns the webhooks that are configured in a cluster.
    pub(super) fn of(cluster: &'a Cluster) -> Self {
        Self { store: cluster.store(), registry: &cluster.registry }
    }

    /// Returns true if any webhooks are configured.
    pub(super) fn any(&self) -> bool {
        let any = |it: &CollectionName| {
            self.store.read(it, |history, revision| {
                history.list_at(revision, None).into_iter().flatten().next().is_some()
            })
        };
        any(&MUTATING) || any(&VALIDATING)
    }

    /// Returns the mutating webhooks whose rules match, in order.
    pub(super) fn mutating(&self, asked: &AdmissionAttributes<'_>) -> Vec<MatchedWebhook> {
        self.matched(&MUTATING, asked)
    }

    /// Returns the validating webhooks whose rules match, in order.
    pub(super) fn validating(&self, asked: &AdmissionAttributes<'_>) -> Vec<MatchedWebhook> {
        self.matched(&VALIDATING, asked)
    }

    /// Returns true if the selectors of a webhook match a request whose object is now `object`.
    ///
    /// They are evaluated just before the webhook is called, since an earlier webhook may have
    /// changed the labels.
    pub(super) fn selects(
        &self,
        webhook: &Value,
        asked: &AdmissionAttributes<'_>,
        object: Option<&Value>,
    ) -> bool {
        let by_object = |selector: &Value| {
            let sides = [object, asked.old].into_iter().flatten();
            sides.into_iter().any(|side| selects(selector, &labels(side)))
        };
        let by_namespace = |selector: &Value| match self.namespace_labels(asked, object) {
            Some(labels) => selects(selector, &labels),
            None => true,
        };
        at(webhook, "/objectSelector").is_none_or(by_object)
            && at(webhook, "/namespaceSelector").is_none_or(by_namespace)
    }

    fn matched(
        &self,
        configurations: &CollectionName,
        asked: &AdmissionAttributes<'_>,
    ) -> Vec<MatchedWebhook> {
        let stored = self.store.list(configurations, None);
        // Webhook configurations and admission policies are exempt: otherwise a webhook could block
        // its own removal.
        if stored.is_empty() || asked.place.kind.def.group == GROUP {
            return Vec::new();
        }
        let webhooks = stored.iter().map(|it| it.to_value()).flat_map(|it| items(&it, "/webhooks").to_vec());
        webhooks.filter_map(|it| self.match_rules(it, asked)).collect()
    }

    /// Returns a webhook if its rules match the write, in its own version or, unless `matchPolicy` is
    /// `Exact`, in another one.
    fn match_rules(&self, webhook: Value, asked: &AdmissionAttributes<'_>) -> Option<MatchedWebhook> {
        let plain = asked.place.kind;
        let wanted = if rules::wants(&webhook, &asked.subject(plain)) {
            None
        } else if text(&webhook, "/matchPolicy") == "Exact" {
            return None;
        } else {
            let twin = |it: &Arc<Kind>| {
                it.collection == plain.collection && rules::wants(&webhook, &asked.subject(it))
            };
            let catalog = self.registry.catalog();
            let all = catalog.served().resources().iter().filter(|it| it.plural == plain.def.plural);
            Some(all.filter_map(|it| catalog.kind(&it.group, &it.version, &it.plural)).find(twin)?)
        };
        Some(MatchedWebhook { webhook, kind: wanted })
    }

    /// Returns the labels that a `namespaceSelector` is matched against; `None` for cluster-scoped
    /// objects other than namespaces.
    ///
    /// A namespace that is created or updated is selected by its new labels; for its subresources
    /// and its deletion the stored labels count (k8s.io/apiserver v0.36.4
    /// pkg/admission/plugin/webhook/predicates/namespace/matcher.go).
    fn namespace_labels(&self, asked: &AdmissionAttributes<'_>, object: Option<&Value>) -> Option<Value> {
        if asked.place.kind.is(&NAMESPACE) {
            let new = object.filter(|_| asked.place.part.is_empty() && asked.operation != "DELETE");
            return Some(new.or(asked.old).map(labels).unwrap_or_default());
        }
        let key = ObjectKey::from_parts(None, asked.place.namespace?).ok()?;
        let namespace = self.store.get(&"/namespaces".into(), &key)?;
        Some(labels(&namespace.to_value()))
    }
}

fn labels(object: &Value) -> Value {
    at(object, "/metadata/labels").cloned().unwrap_or_default()
}
