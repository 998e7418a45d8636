//! Defaults of HorizontalPodAutoscalers.

use serde_json::json;

use crate::kinds::json_access::{Object, fill, object, object_if_present};

/// Annotations in which autoscalers of version 1 keep what version 2 has fields for.
const OF_OLD_AUTOSCALERS: [&str; 4] = [
    "autoscaling.alpha.kubernetes.io/metrics",
    "autoscaling.alpha.kubernetes.io/behavior",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "autoscaling.alpha.kubernetes.io/conditions",
];

/// Sets the defaults of an autoscaler of this version.
pub(super) fn defaults(version: &str, map: &mut Object) {
    let spec = object(map, "spec");
    fill(spec, "minReplicas", 1);
    if version == "v1" {
        return;
    }
    // In version 2 these annotations have no meaning, because it has fields for what they hold, and
    // are never kept.
    let metadata = object(map, "metadata");
    if let Some(annotations) = object_if_present(metadata, "annotations") {
        let before = annotations.len();
        annotations.retain(|name, _| !OF_OLD_AUTOSCALERS.contains(&name.as_str()));
        if annotations.is_empty() && before > 0 {
            metadata.remove("annotations");
        }
    }
    let spec = object(map, "spec");
    spec.entry("metrics").or_insert_with(|| {
        json!([{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 80}}}])
    });
    if let Some(behavior) = object_if_present(spec, "behavior") {
        let up = object(behavior, "scaleUp");
        fill(up, "stabilizationWindowSeconds", 0);
        fill(up, "selectPolicy", "Max");
        up.entry("policies").or_insert_with(|| {
            json!([{"type": "Pods", "value": 4, "periodSeconds": 15},
                   {"type": "Percent", "value": 100, "periodSeconds": 15}])
        });
        let down = object(behavior, "scaleDown");
        fill(down, "selectPolicy", "Max");
        down.entry("policies")
            .or_insert_with(|| json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
    }
}
