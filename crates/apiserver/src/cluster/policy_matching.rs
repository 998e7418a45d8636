//! The requests that a policy or a binding selects: rules, excluded rules and selectors.
//!
//! Mirrors k8s.io/apiserver v0.36.4 pkg/admission/plugin/policy/matching/matching.go.

use std::sync::Arc;

use serde_json::Value;

use super::admission_attributes::AdmissionAttributes;
use super::configured_webhooks::ConfiguredWebhooks;
use crate::kinds::json_access::{items, text};
use crate::registry::{Catalog, Kind};
use crate::webhook::rules;

/// A match of a policy with a request.
#[derive(Clone, Debug)]
pub(super) struct PolicyMatch {
    /// The version in which the policy sees the object, if it is another than that of the request.
    pub(super) kind: Option<Arc<Kind>>,
}

/// Returns the match of `matchConstraints` or `matchResources` with a request whose object is now
/// `object`; `None` if it does not match.
pub(super) fn matched(
    selectors: &ConfiguredWebhooks<'_>,
    catalog: &Catalog,
    resources: &Value,
    asked: &AdmissionAttributes<'_>,
    object: Option<&Value>,
) -> Option<PolicyMatch> {
    let name = asked.name(object);
    let by_rules = |list: &str| match_rules(catalog, resources, list, asked, &name);
    let included = match items(resources, "/resourceRules") {
        [] => PolicyMatch { kind: None },
        _ => by_rules("/resourceRules")?,
    };
    // Selectors cost more than rules, and the order makes no difference.
    if by_rules("/excludeResourceRules").is_some() || !selectors.selects(resources, asked, object) {
        return None;
    }
    Some(included)
}

fn match_rules(
    catalog: &Catalog,
    resources: &Value,
    list: &str,
    asked: &AdmissionAttributes<'_>,
    name: &str,
) -> Option<PolicyMatch> {
    let rules = items(resources, list);
    let plain = asked.place.kind;
    let wants = |kind: &Kind| {
        let subject = asked.subject(kind);
        rules.iter().any(|rule| {
            let listed = items(rule, "/resourceNames");
            (listed.is_empty() || listed.iter().any(|it| it == name)) && rules::covers(rule, &subject)
        })
    };
    if wants(plain) {
        return Some(PolicyMatch { kind: None });
    }
    if rules.is_empty() || text(resources, "/matchPolicy") == "Exact" {
        return None;
    }
    let all = catalog.served().resources().iter().filter(|it| it.plural == plain.def.plural);
    let mut twins = all.filter_map(|it| catalog.kind(&it.group, &it.version, &it.plural));
    let twin = |it: &Arc<Kind>| it.collection == plain.collection && wants(it);
    twins.find(twin).map(|it| PolicyMatch { kind: Some(it) })
}
