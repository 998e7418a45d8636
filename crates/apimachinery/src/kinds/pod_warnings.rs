//! Warnings about deprecated parts of pods and of the templates of pods, and about entries of lists
//! that occur twice.
//!
//! Mirrors parts of `warningsForPodSpecAndMeta` in k8s.io/kubernetes v1.36.4
//! pkg/api/pod/warnings.go.

use std::collections::HashSet;

use serde_json::Value;

use crate::kinds::json_access::{at, items, text};
use crate::strconv::quote;

/// The volume sources that are deprecated: the field, its name in the warning, and the warning.
const VOLUMES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Returns the warnings about the pod spec at a pointer of an object. The metadata of the pod is
/// beside it.
pub(super) fn warnings(object: &Value, spec: &str) -> Vec<String> {
    let path = spec.trim_start_matches('/').replace('/', ".");
    let mut warnings = Vec::new();
    for (index, volume) in items(object, &format!("{spec}/volumes")).iter().enumerate() {
        for (field, shown, why) in VOLUMES {
            if at(volume, &format!("/{field}")).is_some() {
                warnings.push(format!("{path}.volumes[{index}].{shown}: {why}"));
            }
        }
    }
    for (list, key, what) in [("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")] {
        let mut seen = HashSet::new();
        for (index, item) in items(object, &format!("{spec}/{list}")).iter().enumerate() {
            let value = text(item, &format!("/{key}"));
            if !seen.insert(value) {
                warnings.push(format!("{path}.{list}[{index}].{key}: duplicate {what} {}", quote(value)));
            }
        }
    }
    warnings.extend(seccomp_annotations(object, spec));
    warnings
}

/// Returns a warning for each annotation that gives a profile to a pod or a container which has no
/// profile in its fields.
fn seccomp_annotations(object: &Value, spec: &str) -> Vec<String> {
    let metadata = spec.trim_end_matches("spec").to_owned() + "metadata";
    let Some(annotations) = at(object, &format!("{metadata}/annotations")) else { return Vec::new() };
    let lacks_profile = |it: &Value| at(it, "/securityContext/seccompProfile").is_none();
    let mut keys = Vec::new();
    if at(object, spec).is_some_and(lacks_profile) {
        keys.push(SECCOMP_OF_POD.to_owned());
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let containers = items(object, &format!("{spec}/{list}")).iter().filter(|it| lacks_profile(it));
        keys.extend(containers.map(|it| format!("{SECCOMP_OF_CONTAINER}{}", text(it, "/name"))));
    }
    let path = metadata.trim_start_matches('/').replace('/', ".");
    let present = keys.into_iter().filter(|it| annotations.get(it).is_some());
    present
        .map(|key| {
            format!(
                "{path}.annotations[{key}]: non-functional in v1.27+; use the \"seccompProfile\" field instead"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deprecated_volumes_and_annotations_are_named_with_their_path() {
        let pod = json!({
            "metadata": { "annotations": { (format!("{SECCOMP_OF_CONTAINER}a")): "x", (SECCOMP_OF_POD): "x" } },
            "spec": { "securityContext": { "seccompProfile": { "type": "RuntimeDefault" } },
                "containers": [{ "name": "a" }], "hostAliases": [{ "ip": "1.2.3.4" }, { "ip": "1.2.3.4" }],
                "volumes": [{ "name": "e", "emptyDir": {} }, { "name": "s", "storageos": {} }] } });
        let template = json!({ "spec": { "template": pod } });
        let expected = |prefix: &str| {
            [
                format!("{prefix}spec.volumes[1].storageOS: deprecated in v1.22, non-functional in v1.25+"),
                format!("{prefix}spec.hostAliases[1].ip: duplicate ip \"1.2.3.4\""),
                format!(
                    "{prefix}metadata.annotations[{SECCOMP_OF_CONTAINER}a]: non-functional in v1.27+; use the \"seccompProfile\" \
                     field instead"
                ),
            ]
        };
        assert_eq!(warnings(&pod, "/spec"), expected(""));
        assert_eq!(warnings(&template, "/spec/template/spec"), expected("spec.template."));
    }
}
