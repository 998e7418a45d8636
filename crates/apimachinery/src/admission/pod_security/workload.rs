//! The pods that workloads create, and the updates of pods that matter.

use serde_json::Value;

use crate::kinds::json_access::{at, items, text};

/// Returns the template of the pods that an object of this resource creates, or `None` if it
/// creates none.
pub fn pod_template<'a>(group: &str, plural: &str, object: &'a Value) -> Option<&'a Value> {
    let pointer = match (group, plural) {
        ("", "podtemplates") => "/template",
        ("", "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => "/spec/template",
        ("batch", "cronjobs") => "/spec/jobTemplate/spec/template",
        _ => return None,
    };
    at(object, pointer)
}

/// Returns true if an update of a pod adds or removes containers or changes their images. Other
/// updates are not checked, since they cannot make a pod worse.
pub fn changes_images(new: &Value, old: &Value) -> bool {
    let images = |pod, list| -> Vec<&str> { items(pod, list).iter().map(|it| text(it, "/image")).collect() };
    let changes = |list| images(new, list) != images(old, list);
    let known = |container: &Value| {
        let others = items(old, "/spec/ephemeralContainers");
        let same_name = others.iter().find(|it| it["name"] == container["name"]);
        same_name.is_some_and(|it| text(it, "/image") == text(container, "/image"))
    };
    changes("/spec/containers")
        || changes("/spec/initContainers")
        || items(new, "/spec/ephemeralContainers").iter().any(|it| !known(it))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_of_workload_has_its_template() {
        let template = json!({ "spec": {} });
        let nested = json!({ "spec": { "template": template, "jobTemplate": { "spec": { "template": template } } }, "template": template });
        for (group, plural) in
            [("", "podtemplates"), ("apps", "deployments"), ("batch", "jobs"), ("batch", "cronjobs")]
        {
            assert_eq!(pod_template(group, plural, &nested), Some(&template), "{plural}");
        }
        assert_eq!(pod_template("", "services", &nested), None);
        assert_eq!(pod_template("", "replicationcontrollers", &json!({ "spec": {} })), None);
    }

    #[test]
    fn only_containers_and_images_of_pods_are_checked_again() {
        let pod = |image: &str, debug: &[&str]| {
            let debug: Vec<_> = debug.iter().map(|it| json!({ "name": it, "image": it })).collect();
            json!({ "spec": { "containers": [{ "name": "a", "image": image }], "ephemeralContainers": debug } })
        };
        assert!(!changes_images(&pod("x", &["d"]), &pod("x", &["d"])));
        assert!(changes_images(&pod("y", &[]), &pod("x", &[])));
        assert!(changes_images(&pod("x", &["d"]), &pod("x", &[])));
        assert!(!changes_images(&pod("x", &[]), &pod("x", &["d"])));
    }
}
