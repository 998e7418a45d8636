//! Selectors as objects hold them: `matchLabels` and `matchExpressions`.

use serde_json::Value;

use crate::kinds::json_access::{entries, items, text};

/// Returns true if a selector matches an object with the labels that `label` returns by their key.
/// An empty selector matches everything.
pub(super) fn selects<'a>(selector: &Value, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let equal = entries(selector, "/matchLabels")
        .all(|(key, value)| label(key).is_some_and(|it| value.as_str() == Some(it)));
    let expressed = items(selector, "/matchExpressions").iter().all(|it| {
        let has = label(text(it, "/key"));
        let listed =
            has.is_some_and(|label| items(it, "/values").iter().any(|it| it.as_str() == Some(label)));
        match text(it, "/operator") {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => has.is_some(),
            _ => has.is_none(),
        }
    });
    equal && expressed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_requirements_of_a_selector_must_match() {
        let labels = json!({ "app": "web", "tier": "front" });
        let expression = |operator: &str, key: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
        for (selector, selected) in [
            (json!({}), true),
            (json!({ "matchLabels": { "app": "web" } }), true),
            (json!({ "matchLabels": { "app": "web", "x": "y" } }), false),
            (expression("In", "app", &["a", "web"]), true),
            (expression("In", "x", &["web"]), false),
            (expression("NotIn", "app", &["web"]), false),
            (expression("NotIn", "x", &["web"]), true),
            (expression("Exists", "tier", &[]), true),
            (expression("DoesNotExist", "tier", &[]), false),
        ] {
            let label = |key: &str| labels.get(key)?.as_str();
            assert_eq!(selects(&selector, label), selected, "{selector}");
        }
        assert!(!selects(&json!({ "matchLabels": { "app": "web" } }), |_| None));
    }
}
