//! The taints of a node that follow from its conditions, as k8s.io/kubernetes v1.36.4
//! pkg/controller/nodelifecycle/node_lifecycle_controller.go sets them.

use serde_json::{Value, json};

use crate::condition;
use crate::json_access::{flag, items, text};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The conditions that keep new pods off a node, with their status and the key of the taint.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Updates the taints of a node. Returns true if that changed anything. Taints of others stay.
pub(super) fn update(node: &mut Value, now: &str) -> bool {
    let wanted = wanted(node);
    let is = |taint: &Value, key: &str, effect: &str| {
        text(taint, "/key") == key && text(taint, "/effect") == effect
    };
    let stays =
        |taint: &Value| !is_managed(taint, node) || wanted.iter().any(|(key, effect)| is(taint, key, effect));
    let mut taints: Vec<Value> = items(node, "/spec/taints").iter().filter(|it| stays(it)).cloned().collect();
    for (key, effect) in &wanted {
        if !taints.iter().any(|it| is(it, key, effect)) {
            taints.push(json!({ "key": key, "effect": effect, "timeAdded": now }));
        }
    }
    if taints == items(node, "/spec/taints") {
        return false;
    }
    if !taints.is_empty() {
        node["spec"]["taints"] = taints.into();
    } else if let Some(spec) = node["spec"].as_object_mut() {
        spec.remove("taints");
    }
    true
}

/// Returns the keys and the effects of the taints that a node should have.
fn wanted(node: &Value) -> Vec<(&'static str, &'static str)> {
    let holds = |it: &&(&str, &str, &str)| condition::status(node, it.0) == it.1;
    let mut wanted: Vec<_> = BY_CONDITION.iter().filter(holds).map(|it| (it.2, "NoSchedule")).collect();
    if flag(node, "/spec/unschedulable") {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    match condition::status(node, "Ready") {
        "False" => wanted.push((NOT_READY, "NoExecute")),
        "Unknown" => wanted.push((UNREACHABLE, "NoExecute")),
        _ => {}
    }
    wanted
}

/// Returns true if a taint follows from the conditions of a node, and so is removed when they
/// change. Without the condition `Ready`, nothing is known about the pods of the node.
fn is_managed(taint: &Value, node: &Value) -> bool {
    let key = text(taint, "/key");
    match text(taint, "/effect") {
        "NoSchedule" => key == UNSCHEDULABLE || BY_CONDITION.iter().any(|it| it.2 == key),
        "NoExecute" => matches!(key, NOT_READY | UNREACHABLE) && condition::find(node, "Ready").is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(conditions: &[(&str, &str)]) -> Value {
        let conditions: Vec<_> =
            conditions.iter().map(|(kind, status)| json!({ "type": kind, "status": status })).collect();
        json!({ "spec": {}, "status": { "conditions": conditions } })
    }

    /// Returns the taints after an update, as `key:effect` without the domain.
    fn updated(node: &mut Value) -> Vec<String> {
        update(node, "t");
        assert!(!update(node, "later"), "up to date");
        let taints = items(node, "/spec/taints").iter();
        let short = |it: &Value| text(it, "/key").trim_start_matches("node.kubernetes.io/").to_owned();
        taints.map(|it| format!("{}:{}", short(it), text(it, "/effect"))).collect()
    }

    #[test]
    fn taints_follow_the_conditions() {
        for (conditions, expected) in [
            (&[("Ready", "True")][..], &[][..]),
            (&[], &[]),
            (&[("Ready", "False")], &["not-ready:NoSchedule", "not-ready:NoExecute"]),
            (&[("Ready", "Unknown")], &["unreachable:NoSchedule", "unreachable:NoExecute"]),
            (
                &[("Ready", "True"), ("DiskPressure", "True"), ("PIDPressure", "Unknown")],
                &["disk-pressure:NoSchedule"],
            ),
        ] {
            assert_eq!(updated(&mut node(conditions)), expected, "{conditions:?}");
        }
        let mut cordoned = node(&[("Ready", "True")]);
        cordoned["spec"]["unschedulable"] = true.into();
        assert_eq!(updated(&mut cordoned), ["unschedulable:NoSchedule"]);
        cordoned["spec"]["unschedulable"] = Value::Null;
        assert_eq!(updated(&mut cordoned), [] as [&str; 0]);
        assert_eq!(cordoned["spec"].get("taints"), None);
    }

    #[test]
    fn taints_of_others_and_their_times_stay() {
        let mut node = node(&[("Ready", "False")]);
        let mine = json!({ "key": "mine", "effect": "NoExecute" });
        let known = json!({ "key": NOT_READY, "effect": "NoSchedule", "timeAdded": "before" });
        let other = json!({ "key": UNREACHABLE, "effect": "NoExecute" });
        node["spec"]["taints"] = json!([mine, known, other]);
        assert!(update(&mut node, "t"));
        let added = json!({ "key": NOT_READY, "effect": "NoExecute", "timeAdded": "t" });
        assert_eq!(node["spec"]["taints"], json!([mine, known, added]));
        node["status"]["conditions"][0]["status"] = "True".into();
        assert!(update(&mut node, "t"));
        assert_eq!(node["spec"]["taints"], json!([mine]));
    }
}
