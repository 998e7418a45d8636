//! Warnings about objects that are accepted all the same, in kube-apiserver's words.
//!
//! They are those of k8s.io/kubernetes v1.36.4 pkg/api/service/warnings.go and
//! pkg/api/pod/warnings.go, and of k8s.io/apiextensions-apiserver v0.36.4
//! pkg/registry/customresource/validator.go.

use std::collections::HashSet;

use serde_json::Value;

use crate::kinds::json_access::{at, items, text};

/// The finalizers that need no domain.
const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Returns the warnings about a built-in object; `old` is its previous state, if it exists.
pub fn builtin(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    match (group, kind) {
        ("", "Service") => {
            if at(object, "/spec/trafficDistribution").is_some_and(|it| it == "PreferClose") {
                let (old, new) = ("PreferClose", "PreferSameZone");
                warnings.push(format!("spec.trafficDistribution: {old:?} is deprecated; use {new:?}"));
            }
            let none_before = old.is_none_or(|it| items(it, "/spec/externalIPs").is_empty());
            if none_before && !items(object, "/spec/externalIPs").is_empty() {
                warnings.push(
                    "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
                        .to_owned(),
                );
            }
        }
        ("", "Pod") => {
            for (index, secret) in items(object, "/spec/imagePullSecrets").iter().enumerate() {
                if text(secret, "/name").is_empty() {
                    warnings.push(format!("spec.imagePullSecrets[{index}].name: invalid empty name \"\""));
                }
            }
        }
        ("networking.k8s.io", "Ingress") if old.is_none() => {
            let class = "kubernetes.io/ingress.class";
            if at(object, "/metadata/annotations").is_some_and(|it| it.get(class).is_some()) {
                warnings.push(format!(
                    "annotation {class:?} is deprecated, please use 'spec.ingressClassName' instead"
                ));
            }
        }
        _ => {}
    }
    if let Some(spec) = pod_spec_of(group, kind)
        && old.is_none_or(|old| old.get("spec") != object.get("spec"))
    {
        warnings.extend(missing_selectors(object, spec));
    }
    warnings
}

/// Returns the pointer to the pod spec in objects of a kind that creates pods.
fn pod_spec_of(group: &str, kind: &str) -> Option<&'static str> {
    Some(match (group, kind) {
        ("", "Pod") => "/spec",
        ("", "PodTemplate") => "/template/spec",
        ("", "ReplicationController") | ("apps", _) | ("batch", "Job") => "/spec/template/spec",
        ("batch", "CronJob") => "/spec/jobTemplate/spec/template/spec",
        _ => return None,
    })
}

/// Returns a warning for each affinity term and spread constraint without a label selector: it
/// matches no pods.
fn missing_selectors(object: &Value, spec: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut check = |pointer: String, term: &str| {
        for (index, item) in items(object, &pointer).iter().enumerate() {
            if at(item, &format!("{term}/labelSelector")).is_none() {
                let field =
                    format!("{pointer}[{index}]{term}/labelSelector").replacen('/', "", 1).replace('/', ".");
                warnings.push(format!("{field}: a null labelSelector results in matching no pod"));
            }
        }
    };
    for affinity in ["podAffinity", "podAntiAffinity"] {
        let of = format!("{spec}/affinity/{affinity}");
        check(format!("{of}/requiredDuringSchedulingIgnoredDuringExecution"), "");
        check(format!("{of}/preferredDuringSchedulingIgnoredDuringExecution"), "/podAffinityTerm");
    }
    check(format!("{spec}/topologySpreadConstraints"), "");
    warnings
}

/// Returns the warnings about an object of a custom kind: finalizers without a domain may conflict
/// with those of other writers. Finalizers that the old state has are not mentioned again.
pub fn custom(object: &Value, old: Option<&Value>) -> Vec<String> {
    let before: HashSet<&Value> = old.into_iter().flat_map(|it| items(it, "/metadata/finalizers")).collect();
    let added = items(object, "/metadata/finalizers").iter().filter(|it| !before.contains(it));
    let plain = added.filter_map(Value::as_str).filter(|it| !it.contains('/') && !STANDARD.contains(it));
    plain
        .map(|it| {
            // A name with dots looks like a domain already: it lacks the part after the slash.
            let path = if it.contains('.') { " including a path (/)" } else { "" };
            format!(
                "metadata.finalizers: {it:?}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with \
                 other finalizer writers"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deprecated_field_is_mentioned_when_it_is_added() {
        let service = json!({"spec": {"externalIPs": ["1.2.3.4"]}});
        assert_eq!(builtin("", "Service", &service, None).len(), 1);
        assert!(builtin("", "Service", &service, Some(&service)).is_empty());
        assert!(builtin("", "ConfigMap", &service, None).is_empty());
    }

    #[test]
    fn terms_without_a_selector_are_reported_by_their_path() {
        let terms = json!([{"topologyKey": "z"}, {"labelSelector": {}}]);
        let spec = json!({"topologySpreadConstraints": terms, "affinity": {"podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {"topologyKey": "z"}}]}}});
        let deployment = json!({"spec": {"template": {"spec": spec}}});
        let at = "spec.template.spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]";
        let expected = [
            format!("{at}.podAffinityTerm.labelSelector: a null labelSelector results in matching no pod"),
            "spec.template.spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"
                .to_owned(),
        ];
        assert_eq!(builtin("apps", "Deployment", &deployment, None), expected);
        assert!(builtin("apps", "Deployment", &deployment, Some(&deployment)).is_empty());
    }

    #[test]
    fn finalizers_of_custom_objects_should_have_a_domain() {
        let object = json!({"metadata": {"finalizers": ["x", "example.com/x", "orphan"]}});
        let warnings = custom(&object, None);
        assert!(
            warnings.len() == 1 && warnings[0].starts_with("metadata.finalizers: \"x\": prefer"),
            "{warnings:?}"
        );
        assert!(!warnings[0].contains("path"), "{warnings:?}");
        assert!(custom(&object, Some(&object)).is_empty());
        let dotted = json!({"metadata": {"finalizers": ["documents.kube.rs"]}});
        assert_eq!(
            custom(&dotted, None),
            [
                "metadata.finalizers: \"documents.kube.rs\": prefer a domain-qualified finalizer name including a path (/) to avoid \
              accidental conflicts with other finalizer writers"
            ]
        );
    }
}
