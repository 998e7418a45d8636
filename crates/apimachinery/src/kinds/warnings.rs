//! Warnings about objects that are accepted all the same, in kube-apiserver's words.
//!
//! Warnings that only one kind has are in the file of that kind. Those here are of
//! k8s.io/kubernetes v1.36.4 pkg/api/pod/warnings.go and of k8s.io/apiextensions-apiserver v0.36.4
//! pkg/registry/customresource/validator.go.

use std::collections::HashSet;

use serde_json::Value;

use crate::kinds::json_access::{at, items};
use crate::kinds::pod_warnings;
use crate::kinds::rules::KindRules;

/// The finalizers that need no domain.
const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Returns the warnings about a built-in object; `old` is its previous state, if it exists.
pub fn builtin(rules: &KindRules, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = (rules.warnings)(object, old);
    if let Some(spec) = rules.pod_spec
        && old.is_none_or(|old| old.get("spec") != object.get("spec"))
    {
        warnings.extend(missing_selectors(object, spec));
        warnings.extend(pod_warnings::warnings(object, spec));
    }
    warnings
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
    use crate::kinds::index::of_kind;

    #[test]
    fn a_deprecated_field_is_mentioned_when_it_is_added() {
        let service = json!({"spec": {"externalIPs": ["1.2.3.4"]}});
        assert_eq!(builtin(of_kind("", "Service"), &service, None).len(), 1);
        assert!(builtin(of_kind("", "Service"), &service, Some(&service)).is_empty());
        assert!(builtin(of_kind("", "ConfigMap"), &service, None).is_empty());
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
        assert_eq!(builtin(of_kind("apps", "Deployment"), &deployment, None), expected);
        assert!(builtin(of_kind("apps", "Deployment"), &deployment, Some(&deployment)).is_empty());
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
