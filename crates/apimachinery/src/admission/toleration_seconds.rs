//! DefaultTolerationSeconds: pods stay for five minutes on nodes that are not ready or not
//! reachable.
//!
//! Mirrors k8s.io/kubernetes v1.36.4 plugin/pkg/admission/defaulttolerationseconds/admission.go.

use serde_json::{Value, json};

use crate::kinds::json_access::{object, text};

/// The taints of such nodes.
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Adds the tolerations to a pod, unless it tolerates or limits these taints itself.
pub fn fill(pod: &mut Value) {
    let Some(map) = pod.as_object_mut() else { return };
    let spec = object(map, "spec");
    let slot = spec.entry("tolerations").or_insert(Value::Null);
    if !slot.is_array() {
        *slot = json!([]);
    }
    let Some(tolerations) = slot.as_array_mut() else { return };
    for key in TAINTS {
        let is_about = |toleration: &Value| {
            let (of, effect) = (text(toleration, "/key"), text(toleration, "/effect"));
            (of == key || of.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        };
        if !tolerations.iter().any(is_about) {
            tolerations.push(
                json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 }),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_of_the_pod_come_before_the_defaults() {
        let mut pod = json!({ "spec": { "tolerations": [
            { "key": TAINTS[1], "effect": "NoSchedule", "operator": "Exists" },
            { "key": TAINTS[0], "operator": "Exists", "tolerationSeconds": 5 }] } });
        fill(&mut pod);
        fill(&mut pod);
        let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
        assert_eq!(tolerations.len(), 3);
        assert_eq!(
            tolerations[2],
            json!({ "key": TAINTS[1], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 })
        );
        let mut pod = json!({ "spec": { "tolerations": [{ "operator": "Exists" }] } });
        fill(&mut pod);
        assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 1, "it tolerates everything");
    }
}
