//! The admission webhooks that a write is reviewed by, from the stored configurations.
//!
//! A configuration is in effect as soon as it is stored; `webhook_cache.rs` parses it once. Nothing
//! here calls a webhook.

use std::sync::{Arc, LazyLock};

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::Cluster;
use super::admission_attributes::AdmissionAttributes;
use super::selector::selects;
use super::webhook_cache::{ConfiguredWebhook, MatchedWebhook, WebhookCache, WebhookCaches};
use crate::kinds::NAMESPACE;
use crate::kinds::json_access::{at, text};
use crate::registry::{Catalog, Kind, Registry};
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
    /// Has the parsed configurations.
    caches: &'a WebhookCaches,
}

impl<'a> ConfiguredWebhooks<'a> {
    /// Returns the webhooks that are configured in a cluster.
    pub(super) fn of(cluster: &'a Cluster) -> Self {
        Self { store: cluster.store(), registry: &cluster.registry, caches: &cluster.webhook_caches }
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
    pub(super) fn mutating(&self, asked: &AdmissionAttributes<'_>) -> Arc<[MatchedWebhook]> {
        self.matched(&self.caches.mutating, &MUTATING, asked)
    }

    /// Returns the validating webhooks whose rules match, in order.
    pub(super) fn validating(&self, asked: &AdmissionAttributes<'_>) -> Arc<[MatchedWebhook]> {
        self.matched(&self.caches.validating, &VALIDATING, asked)
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
            let mut sides = [object, asked.old].into_iter().flatten();
            sides.any(|side| selects(selector, label_of(side)))
        };
        let by_namespace = |selector: &Value| self.selects_namespace(selector, asked, object);
        at(webhook, "/objectSelector").is_none_or(by_object)
            && at(webhook, "/namespaceSelector").is_none_or(by_namespace)
    }

    fn matched(
        &self,
        cache: &WebhookCache,
        configurations: &CollectionName,
        asked: &AdmissionAttributes<'_>,
    ) -> Arc<[MatchedWebhook]> {
        // Webhook configurations and admission policies are exempt: otherwise a webhook could block
        // its own removal.
        if asked.place.kind.def.group == GROUP {
            return Arc::default();
        }
        let catalog = self.registry.catalog();
        let matches = |it: &Arc<ConfiguredWebhook>| match_rules(&catalog, it, asked);
        cache.get(self.store, configurations).matching(&catalog, &asked.subject(asked.place.kind), matches)
    }

    /// Returns true if a `namespaceSelector` matches; it does for cluster-scoped objects other than
    /// namespaces.
    ///
    /// A namespace that is created or updated is selected by its new labels; for its subresources
    /// and its deletion the stored labels count (k8s.io/apiserver v0.36.4
    /// pkg/admission/plugin/webhook/predicates/namespace/matcher.go).
    fn selects_namespace(
        &self,
        selector: &Value,
        asked: &AdmissionAttributes<'_>,
        object: Option<&Value>,
    ) -> bool {
        if asked.place.kind.is(&NAMESPACE) {
            let new = object.filter(|_| asked.place.part.is_empty() && asked.operation != "DELETE");
            return selects(selector, label_of(new.or(asked.old).unwrap_or(&Value::Null)));
        }
        let key = asked.place.namespace.and_then(|it| ObjectKey::from_parts(None, it).ok());
        let Some(namespace) = key.and_then(|it| self.store.get(&"/namespaces".into(), &it)) else {
            return true;
        };
        // Not parsed: a namespace may be large, and each webhook asks for each object.
        let labels = namespace.labels();
        selects(selector, |key| labels.get(key))
    }
}

/// Returns a webhook if its rules match the write, in its own version or, unless `matchPolicy` is
/// `Exact`, in another one.
fn match_rules(
    catalog: &Catalog,
    webhook: &Arc<ConfiguredWebhook>,
    asked: &AdmissionAttributes<'_>,
) -> Option<MatchedWebhook> {
    let plain = asked.place.kind;
    let wanted = if rules::wants(webhook, &asked.subject(plain)) {
        None
    } else if text(webhook, "/matchPolicy") == "Exact" {
        return None;
    } else {
        let twin =
            |it: &Arc<Kind>| it.collection == plain.collection && rules::wants(webhook, &asked.subject(it));
        let all = catalog.served().resources().iter().filter(|it| it.plural == plain.def.plural);
        Some(all.filter_map(|it| catalog.kind(&it.group, &it.version, &it.plural)).find(twin)?)
    };
    Some(MatchedWebhook { webhook: Arc::clone(webhook), kind: wanted })
}

/// Returns the labels of an object.
fn label_of<'a>(object: &'a Value) -> impl Fn(&str) -> Option<&'a str> {
    let labels = at(object, "/metadata/labels");
    move |key| labels?.get(key)?.as_str()
}
