//! TaintNodesByCondition: new nodes get no pods until a controller finds that they are ready.
//!
//! Mirrors k8s.io/kubernetes v1.36.4 plugin/pkg/admission/nodetaint/admission.go.

use serde_json::{Value, json};

use crate::kinds::json_access::{items, object, text};

const KEY: &str = "node.kubernetes.io/not-ready";

/// Adds the taint to a new node that does not have it.
pub fn fill(node: &mut Value) {
    let is_it = |taint: &Value| text(taint, "/key") == KEY && text(taint, "/effect") == "NoSchedule";
    let mut taints = items(node, "/spec/taints").to_vec();
    if taints.iter().any(is_it) {
        return;
    }
    taints.push(json!({ "key": KEY, "effect": "NoSchedule" }));
    if let Some(map) = node.as_object_mut() {
        object(map, "spec").insert("taints".to_owned(), taints.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_node_is_tainted_once() {
        let mut node = json!({ "spec": { "taints": [{ "key": KEY, "effect": "NoExecute" }] } });
        fill(&mut node);
        fill(&mut node);
        let taints = json!([{ "key": KEY, "effect": "NoExecute" }, { "key": KEY, "effect": "NoSchedule" }]);
        assert_eq!(node["spec"]["taints"], taints);
    }
}
