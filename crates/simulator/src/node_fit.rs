//! The nodes that a pod may run on by its own constraints: node selector, required node affinity,
//! and taints.

use serde_json::Value;

use crate::json_access::{at, items, text};
use crate::selector::{of_labels, selects};

/// Returns true if a node has the labels of a pod's node selector, and matches its required node
/// affinity.
pub(crate) fn matches_selection(pod: &Value, node: &Value) -> bool {
    of_labels(pod, "/spec/nodeSelector").is_some_and(|it| selects(&it, node)) && matches_affinity(pod, node)
}

/// Returns true if a node matches the required node affinity of a pod: all requirements of at least
/// one term.
fn matches_affinity(pod: &Value, node: &Value) -> bool {
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    at(pod, required).is_none()
        || items(pod, &format!("{required}/nodeSelectorTerms")).iter().any(|it| matches_term(it, node))
}

/// Returns true if a node matches all requirements of a term. An empty term matches no node.
pub(crate) fn matches_term(term: &Value, node: &Value) -> bool {
    let labels = |key: &str| node.pointer("/metadata/labels")?.get(key)?.as_str();
    let fields = |key: &str| (key == "metadata.name").then(|| text(node, "/metadata/name"));
    let (by_label, by_field) = (items(term, "/matchExpressions"), items(term, "/matchFields"));
    !(by_label.is_empty() && by_field.is_empty())
        && by_label.iter().all(|it| is_true(it, labels(text(it, "/key"))))
        && by_field.iter().all(|it| is_true(it, fields(text(it, "/key"))))
}

/// Returns the names of the only nodes that a pod may run on, if its required node affinity names
/// them.
pub(crate) fn named_nodes(pod: &Value) -> Option<Vec<&str>> {
    let required =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let mut names = Vec::new();
    for term in items(pod, required) {
        let is_name = |it: &&Value| text(it, "/key") == "metadata.name" && text(it, "/operator") == "In";
        let named = items(term, "/matchFields").iter().find(is_name)?;
        names.extend(items(named, "/values").iter().filter_map(Value::as_str));
    }
    (!names.is_empty()).then_some(names)
}

/// Returns true if a value, which may be absent, meets a requirement.
fn is_true(term: &Value, value: Option<&str>) -> bool {
    let listed = || value.is_some_and(|value| items(term, "/values").iter().any(|it| it == value));
    let numbers = || {
        let bound = items(term, "/values").first()?.as_str()?.parse::<i64>().ok()?;
        Some((value?.parse::<i64>().ok()?, bound))
    };
    match text(term, "/operator") {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Returns the first taint of a node with one of these effects that a pod does not tolerate.
pub(crate) fn untolerated<'a>(pod: &Value, node: &'a Value, effects: &[&str]) -> Option<&'a Value> {
    let taints = items(node, "/spec/taints").iter();
    let mut relevant = taints.filter(|it| effects.contains(&text(it, "/effect")));
    relevant.find(|taint| !items(pod, "/spec/tolerations").iter().any(|it| tolerates(it, taint)))
}

/// Returns true if a toleration tolerates a taint.
pub(crate) fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let (key, effect) = (text(toleration, "/key"), text(toleration, "/effect"));
    let value = text(toleration, "/operator") == "Exists"
        || (!key.is_empty() && text(toleration, "/value") == text(taint, "/value"));
    (effect.is_empty() || effect == text(taint, "/effect"))
        && (key.is_empty() || key == text(taint, "/key"))
        && value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, taints: Value) -> Value {
        json!({ "metadata": { "name": name, "labels": { "disk": name } }, "spec": { "taints": taints } })
    }

    #[test]
    fn a_taint_keeps_pods_off_that_do_not_tolerate_it() {
        let tainted = node("c", json!([{ "key": "only", "value": "gpu", "effect": "NoSchedule" }]));
        for (toleration, expected) in [
            (json!({ "key": "only", "operator": "Equal", "value": "gpu", "effect": "NoSchedule" }), true),
            (json!({ "key": "only", "operator": "Exists" }), true),
            (json!({ "operator": "Exists" }), true),
            (json!({ "key": "only", "value": "cpu" }), false),
            (json!({ "key": "only", "operator": "Exists", "effect": "NoExecute" }), false),
        ] {
            let pod = json!({ "spec": { "tolerations": [toleration] } });
            assert_eq!(untolerated(&pod, &tainted, &["NoSchedule"]).is_none(), expected, "{pod}");
            assert_eq!(untolerated(&pod, &tainted, &["NoExecute"]), None);
        }
    }

    #[test]
    fn a_pod_may_require_nodes_by_name_and_by_label() {
        let nodes = [node("a", json!([])), node("b", json!([]))];
        let term = |key: &str, operator: &str| json!({ "key": key, "operator": operator, "values": ["b"] });
        for (alternatives, expected) in [
            (json!([{ "matchFields": [term("metadata.name", "In")] }]), "b"),
            (json!([{ "matchExpressions": [term("disk", "NotIn")] }]), "a"),
            (json!([{ "matchExpressions": [term("disk", "In"), term("none", "Exists")] }]), ""),
            (
                json!([{ "matchExpressions": [term("none", "Exists")] }, { "matchExpressions": [term("disk", "In")] }]),
                "b",
            ),
            (json!([{ "matchExpressions": [term("disk", "Gt")] }]), ""),
            (json!([{}]), ""),
        ] {
            let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": alternatives } });
            let pod = json!({ "spec": { "affinity": { "nodeAffinity": required } } });
            let fitting = nodes.iter().filter(|it| matches_selection(&pod, it));
            let names: String = fitting.map(|it| text(it, "/metadata/name")).collect();
            assert_eq!(names, expected, "{pod}");
            assert_eq!(named_nodes(&pod).is_some(), pod.to_string().contains("metadata.name"), "{pod}");
        }
        let selecting = json!({ "spec": { "nodeSelector": { "disk": "a" } } });
        assert!(matches_selection(&selecting, &nodes[0]) && !matches_selection(&selecting, &nodes[1]));
    }
}
