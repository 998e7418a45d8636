//! What a writer should know of an object that is taken all the same, in the words of the original.

use serde_json::Value;

use crate::kinds::look::{at, items, text};

/// The finalizers that need no domain.
const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// What to say of a built-in object; `old` is what it was, if it was.
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
        warnings.extend(selecting_nothing(object, spec));
    }
    warnings
}

/// Where a kind that makes pods says how they are to be.
fn pod_spec_of(group: &str, kind: &str) -> Option<&'static str> {
    Some(match (group, kind) {
        ("", "Pod") => "/spec",
        ("", "PodTemplate") => "/template/spec",
        ("", "ReplicationController") | ("apps", _) | ("batch", "Job") => "/spec/template/spec",
        ("batch", "CronJob") => "/spec/jobTemplate/spec/template/spec",
        _ => return None,
    })
}

/// What is to be kept apart from pods, or together with them, says which: those of no selector are none.
fn selecting_nothing(object: &Value, spec: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut look = |pointer: String, term: &str| {
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
        look(format!("{of}/requiredDuringSchedulingIgnoredDuringExecution"), "");
        look(format!("{of}/preferredDuringSchedulingIgnoredDuringExecution"), "/podAffinityTerm");
    }
    look(format!("{spec}/topologySpreadConstraints"), "");
    warnings
}

/// What to say of an object of a custom kind: finalizers without a domain meet those of others sooner or later. Those that
/// were there before are not mentioned again.
pub fn custom(object: &Value, old: Option<&Value>) -> Vec<String> {
    let before = old.map(|it| items(it, "/metadata/finalizers")).unwrap_or_default();
    let added = items(object, "/metadata/finalizers").iter().filter(|it| !before.contains(it));
    let plain = added.filter_map(Value::as_str).filter(|it| !it.contains('/') && !STANDARD.contains(it));
    plain
        .map(|it| {
            // A name with dots looks like a domain already: what it lacks is the part after the slash.
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
    fn what_is_old_is_told_once() {
        let service = json!({"spec": {"externalIPs": ["1.2.3.4"]}});
        assert_eq!(builtin("", "Service", &service, None).len(), 1);
        assert!(builtin("", "Service", &service, Some(&service)).is_empty());
        assert!(builtin("", "ConfigMap", &service, None).is_empty());
    }

    #[test]
    fn terms_without_a_selector_are_told_of_where_they_stand() {
        let terms = json!([{"topologyKey": "z"}, {"labelSelector": {}}]);
        let spec = json!({"topologySpreadConstraints": terms, "affinity": {"podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {"topologyKey": "z"}}]}}});
        let deployment = json!({"spec": {"template": {"spec": spec}}});
        let at = "spec.template.spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]";
        let told = [
            format!("{at}.podAffinityTerm.labelSelector: a null labelSelector results in matching no pod"),
            "spec.template.spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"
                .to_owned(),
        ];
        assert_eq!(builtin("apps", "Deployment", &deployment, None), told);
        assert!(builtin("apps", "Deployment", &deployment, Some(&deployment)).is_empty());
    }

    #[test]
    fn finalizers_of_custom_objects_should_have_a_domain() {
        let object = json!({"metadata": {"finalizers": ["x", "example.com/x", "orphan"]}});
        let told = custom(&object, None);
        assert!(told.len() == 1 && told[0].starts_with("metadata.finalizers: \"x\": prefer"), "{told:?}");
        assert!(!told[0].contains("path"), "{told:?}");
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
