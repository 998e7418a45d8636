//! Label selectors as objects hold them.

use std::collections::BTreeMap;

use dogwatch_core::{LabelSelector, Labels, Operator};
use serde_json::Value;

use crate::json_access::{at, entries, items, text};

/// Returns the selector of a workload. Returns `None` if it is not valid, or empty: controllers
/// take an empty one as selecting nothing.
pub(crate) fn of_workload(object: &Value) -> Option<LabelSelector> {
    of_budget(object).filter(|it| !it.is_everything())
}

/// Returns the selector of a PodDisruptionBudget, if it has one and it is valid. An empty one
/// selects all pods of the namespace.
pub(crate) fn of_budget(object: &Value) -> Option<LabelSelector> {
    let selector = at(object, "/spec/selector")?;
    let mut terms = vec![of_labels(selector, "/matchLabels")?];
    for term in items(selector, "/matchExpressions") {
        let operator = match text(term, "/operator") {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => return None,
        };
        let values = items(term, "/values").iter().filter_map(Value::as_str);
        terms.push(LabelSelector::everything().and(text(term, "/key"), operator, values).ok()?);
    }
    Some(LabelSelector::all_of(terms))
}

/// Returns the selector of a ReplicationController, which is a map of labels. Returns `None` if it
/// is not valid, or empty.
pub(crate) fn of_replication_controller(object: &Value) -> Option<LabelSelector> {
    of_labels(object, "/spec/selector").filter(|it| !it.is_everything())
}

/// Returns the selector of a service, if it has one.
pub(crate) fn of_service(service: &Value) -> Option<LabelSelector> {
    at(service, "/spec/selector")?;
    of_labels(service, "/spec/selector")
}

/// Returns a selector for the labels at a pointer.
pub(crate) fn of_labels(object: &Value, pointer: &str) -> Option<LabelSelector> {
    let labels = entries(object, pointer)
        .map(|(key, value)| LabelSelector::everything().equals(key, value.as_str().unwrap_or_default()).ok());
    Some(LabelSelector::all_of(labels.collect::<Option<Vec<_>>>()?))
}

/// Returns true if a selector matches an object.
pub(crate) fn selects(selector: &LabelSelector, object: &Value) -> bool {
    let labels: BTreeMap<String, String> = entries(object, "/metadata/labels")
        .map(|(key, value)| (key.to_owned(), value.as_str().unwrap_or_default().to_owned()))
        .collect();
    selector.matches(Labels::from(&labels))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_requirements_must_match_and_an_empty_selector_selects_nothing() {
        let workload = |selector: Value| json!({ "spec": { "selector": selector } });
        let pod = json!({ "metadata": { "labels": { "app": "web", "tier": "front" } } });
        for (selector, expected) in [
            (json!({ "matchLabels": { "app": "web" } }), true),
            (json!({ "matchLabels": { "app": "db" } }), false),
            (
                json!({ "matchLabels": { "app": "web" }, "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["front", "back"] }] }),
                true,
            ),
            (
                json!({ "matchExpressions": [{ "key": "tier", "operator": "NotIn", "values": ["front"] }] }),
                false,
            ),
            (
                json!({ "matchExpressions": [{ "key": "tier", "operator": "Exists" }, { "key": "x", "operator": "DoesNotExist" }] }),
                true,
            ),
            (json!({}), false),
            (json!({ "matchExpressions": [{ "key": "tier", "operator": "Like" }] }), false),
        ] {
            let found = of_workload(&workload(selector.clone())).is_some_and(|it| selects(&it, &pod));
            assert_eq!(found, expected, "{selector}");
        }
    }

    #[test]
    fn the_selector_of_a_replication_controller_is_a_map_of_labels() {
        let pod = json!({ "metadata": { "labels": { "app": "web", "tier": "front" } } });
        for (selector, expected) in [
            (json!({ "app": "web", "tier": "front" }), true),
            (json!({ "app": "web", "tier": "back" }), false),
            (json!({}), false),
            (json!(null), false),
        ] {
            let controller = json!({ "spec": { "selector": selector } });
            let found = of_replication_controller(&controller).is_some_and(|it| selects(&it, &pod));
            assert_eq!(found, expected, "{controller}");
        }
    }
}
