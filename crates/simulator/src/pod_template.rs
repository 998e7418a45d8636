//! Pods that controllers create from the template of a workload.

use serde_json::{Value, json};

use crate::json_access::text;
use crate::owner::reference;

/// Returns a new pod of a workload. Its name is generated from that of the workload.
pub(crate) fn new_pod(workload: &Value, template: &Value) -> Value {
    let mut metadata = json!({ "generateName": format!("{}-", text(workload, "/metadata/name")),
        "namespace": workload["metadata"]["namespace"], "ownerReferences": [reference(workload)] });
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(field).filter(|it| !it.is_null()) {
            metadata[field] = value.clone();
        }
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"] })
}

/// Gives a pod this name instead of a generated one.
pub(crate) fn set_name(pod: &mut Value, name: &str) {
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("generateName");
        metadata.insert("name".to_owned(), name.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_the_metadata_of_the_template_and_one_owner() {
        let template = json!({ "metadata": { "labels": { "app": "web" }, "finalizers": ["x/y"] },
            "spec": { "containers": [] } });
        let set = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": { "name": "web", "namespace": "n", "uid": "u" } });
        let mut pod = new_pod(&set, &template);
        assert_eq!(pod["metadata"]["generateName"], "web-");
        assert_eq!((&pod["metadata"]["labels"]["app"], &pod["spec"]), (&json!("web"), &template["spec"]));
        assert_eq!(pod["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], true);
        assert_eq!(pod["metadata"].get("annotations"), None);
        set_name(&mut pod, "web-0");
        assert_eq!((&pod["metadata"]["name"], pod["metadata"].get("generateName")), (&json!("web-0"), None));
    }
}
