//! AppArmor profiles in annotations, as they were given before Kubernetes 1.30: new pods get the
//! field as well.
//!
//! Mirrors `applyAppArmorVersionSkew` in k8s.io/kubernetes v1.36.4
//! pkg/registry/core/pod/strategy.go.

use serde_json::{Value, json};

use crate::kinds::json_access::{at, each, items, object, text};

const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Sets the profiles of the containers of a new pod that have one in an annotation only.
pub(super) fn fill(pod: &mut Value) {
    if text(pod, "/spec/os/name") == "windows" {
        return;
    }
    let Some(annotations) = at(pod, "/metadata/annotations").cloned() else { return };
    let of_pod = at(pod, "/spec/securityContext/appArmorProfile").cloned();
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for list in CONTAINERS {
        for container in each(spec, list) {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            let Some(given) = profile(&annotations, name).filter(|it| Some(it) != of_pod.as_ref()) else {
                continue;
            };
            let is_set = container.get("securityContext").and_then(|it| it.get("appArmorProfile"));
            if is_set.is_none_or(Value::is_null) {
                object(container, "securityContext").insert("appArmorProfile".to_owned(), given);
            }
        }
    }
}

/// Returns the profile that an annotation gives to a container, if it is a valid one.
fn profile(annotations: &Value, container: &str) -> Option<Value> {
    match annotations.get(format!("{ANNOTATION}{container}"))?.as_str()? {
        "runtime/default" => Some(json!({ "type": "RuntimeDefault" })),
        "unconfined" => Some(json!({ "type": "Unconfined" })),
        other => {
            let name = other.strip_prefix("localhost/").filter(|it| !it.is_empty() && it.trim() == *it)?;
            Some(json!({ "type": "Localhost", "localhostProfile": name }))
        }
    }
}

/// Returns the warnings about annotations of a new pod.
pub(super) fn warnings(pod: &Value) -> Vec<String> {
    let Some(annotations) = at(pod, "/metadata/annotations") else { return Vec::new() };
    let of_pod = at(pod, "/spec/securityContext/appArmorProfile");
    let is_warned = |container: &&Value| {
        let given = profile(annotations, text(container, "/name"));
        let set = at(container, "/securityContext/appArmorProfile");
        let key = format!("{ANNOTATION}{}", text(container, "/name"));
        annotations.get(&key).is_some()
            && match given {
                None => set.is_none(),
                Some(given) => set == Some(&given) && of_pod != Some(&given),
            }
    };
    let containers = CONTAINERS.iter().flat_map(|list| items(pod, &format!("/spec/{list}")));
    let warn = |container: &Value| {
        let name = text(container, "/name");
        format!(
            "metadata.annotations[{ANNOTATION}{name}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
        )
    };
    if text(pod, "/spec/os/name") == "windows" {
        return Vec::new();
    }
    containers.filter(is_warned).map(warn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_become_fields_unless_the_pod_says_the_same() {
        let annotated = |values: &[(&str, &str)]| -> Value {
            values
                .iter()
                .map(|(name, value)| (format!("{ANNOTATION}{name}"), (*value).into()))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let mut pod = json!({ "metadata": { "annotations": annotated(&[
                ("a", "unconfined"), ("b", "localhost/x"), ("c", "runtime/default"), ("d", "other"), ("e", "unconfined")]) },
            "spec": { "securityContext": { "appArmorProfile": { "type": "RuntimeDefault" } },
                "initContainers": [{ "name": "a" }],
                "containers": [{ "name": "b" }, { "name": "c" }, { "name": "d" },
                    { "name": "e", "securityContext": { "appArmorProfile": { "type": "RuntimeDefault" } } }] } });
        fill(&mut pod);
        let profile =
            |list: &str, index: usize| pod["spec"][list][index]["securityContext"]["appArmorProfile"].clone();
        assert_eq!(profile("initContainers", 0), json!({ "type": "Unconfined" }));
        assert_eq!(profile("containers", 0), json!({ "type": "Localhost", "localhostProfile": "x" }));
        assert_eq!((profile("containers", 1), profile("containers", 2)), (Value::Null, Value::Null));
        assert_eq!(profile("containers", 3), json!({ "type": "RuntimeDefault" }));
        assert_eq!(warnings(&pod).len(), 3, "a, b and d");
    }
}
