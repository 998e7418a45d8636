//! PodResizeValidator: a resized pod has to fit its node.
//!
//! Mirrors k8s.io/kubernetes v1.36.4 plugin/pkg/admission/podresize/admission.go.

use serde_json::Value;

use super::ResourceList;
use super::pod::{self, Side};
use crate::kinds::json_access::{at, text};
use crate::kinds::quantity::Quantity;

/// Returns the reason and the message if a node cannot take a pod as it is after a resize.
pub fn refuse(pod: &Value, node: &Value) -> Option<(&'static str, String)> {
    let system =
        at(node, "/metadata/labels").and_then(|it| it.get("kubernetes.io/os")).and_then(Value::as_str);
    if let Some(system) = system.filter(|it| *it != "linux") {
        let name = text(node, "/metadata/name");
        let why = format!("pod resize is only supported on linux nodes, node {name:?} is {system:?}");
        return Some(("UnsupportedPlatform", why));
    }
    let (allocatable, requests) =
        (ResourceList::at(node, "/status/allocatable"), pod::wanted(pod, Side::Requests));
    let mut missing = Vec::new();
    for (name, shown) in [("cpu", Quantity::thousandths as fn(Quantity) -> i128), ("memory", Quantity::units)]
    {
        let amount = |list: &ResourceList| list.get(name).unwrap_or(Quantity::count(0));
        let (requested, allocatable) = (amount(&requests), amount(&allocatable));
        if requested.exceeds(allocatable) {
            let (requested, allocatable) = (shown(requested), shown(allocatable));
            missing.push(format!("{name}, requested: {requested}, allocatable: {allocatable}"));
        }
    }
    (!missing.is_empty()).then(|| {
        let why = format!("node didn't have enough allocatable resources: {}", missing.join("; "));
        ("NodeCapacity", why)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_must_not_outgrow_its_node() {
        let pod = json!({ "spec": { "containers": [{ "resources": { "requests": { "cpu": "1500m", "memory": "2Gi" } } }] } });
        let node = |system: &str, cpu: &str, memory: &str| {
            json!({ "metadata": { "name": "n", "labels": { "kubernetes.io/os": system } },
                "status": { "allocatable": { "cpu": cpu, "memory": memory } } })
        };
        assert_eq!(refuse(&pod, &node("linux", "1500m", "2Gi")), None);
        let full = (
            "NodeCapacity",
            "node didn't have enough allocatable resources: cpu, requested: 1500, allocatable: 1000; memory, requested: \
             2147483648, allocatable: 0"
                .to_owned(),
        );
        assert_eq!(refuse(&pod, &node("linux", "1", "0")), Some(full));
        let (reason, why) = refuse(&pod, &node("windows", "9", "9Gi")).unwrap();
        assert_eq!(
            (reason, why.as_str()),
            ("UnsupportedPlatform", "pod resize is only supported on linux nodes, node \"n\" is \"windows\"")
        );
    }
}
