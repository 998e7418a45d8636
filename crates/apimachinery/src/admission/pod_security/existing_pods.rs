//! The pods that a namespace has already when a stricter level is enforced.
//!
//! They are not affected, so the client that changes the namespace is only warned.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::check::Violation;
use super::policy::LevelVersion;
use super::standards::violations;
use crate::kinds::json_access::{flag, items, text};

/// The maximum number of pods that are checked: `defaultNamespaceMaxPodsToCheck` in
/// k8s.io/pod-security-admission v0.36.4 admission/admission.go.
const MAX_PODS: usize = 3_000;

/// Returns the warnings about the pods of a namespace that violate a level.
pub fn warnings_about_existing(namespace: &str, enforce: LevelVersion, pods: &[Value]) -> Vec<String> {
    let mut by_reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for pod in one_of_each_controller_first(pods).into_iter().take(MAX_PODS) {
        let broken = violations(enforce, &pod["metadata"], &pod["spec"]);
        if !broken.is_empty() {
            by_reasons.entry(Violation::reasons(&broken)).or_default().push(text(pod, "/metadata/name"));
        }
    }
    let mut warnings = Vec::new();
    if pods.len() > MAX_PODS {
        let all = pods.len();
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {MAX_PODS} of {all} existing pods"
        ));
    }
    if !by_reasons.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{enforce}\""
        ));
    }
    let about = |(reasons, names): (String, Vec<&str>)| {
        let first = names.iter().min().copied().unwrap_or_default();
        match names.len() {
            1 => format!("{first}: {reasons}"),
            2 => format!("{first} (and 1 other pod): {reasons}"),
            count => format!("{first} (and {} other pods): {reasons}", count - 1),
        }
    };
    let mut about_pods: Vec<_> = by_reasons.into_iter().map(about).collect();
    about_pods.sort_unstable();
    warnings.extend(about_pods);
    warnings
}

/// Returns all pods, those first that differ: one of each controller, and all without one.
fn one_of_each_controller_first(pods: &[Value]) -> Vec<&Value> {
    let mut seen = BTreeSet::new();
    let (mut first, mut further) = (Vec::new(), Vec::new());
    for pod in pods {
        let controller = items(pod, "/metadata/ownerReferences").iter().find(|it| flag(it, "/controller"));
        match controller {
            Some(it) if !seen.insert(text(it, "/uid")) => further.push(pod),
            _ => first.push(pod),
        }
    }
    first.extend(further);
    first
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Policy;
    use super::*;

    #[test]
    fn pods_with_the_same_violations_share_a_warning() {
        let labels = json!({ "pod-security.kubernetes.io/enforce": "baseline" });
        let enforce = Policy::of(&json!({ "metadata": { "labels": labels } })).enforce;
        let pod = |name: &str, field: &str| json!({ "metadata": { "name": name }, "spec": { field: true } });
        let pods = [
            pod("c", "hostPID"),
            pod("b", "hostIPC"),
            pod("a", "paused"),
            json!({ "metadata": { "name": "d" }, "spec": { "containers": [
                { "name": "x", "securityContext": { "privileged": true } }] } }),
        ];
        assert_eq!(
            warnings_about_existing("n", enforce, &pods),
            [
                "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
                "b (and 1 other pod): host namespaces",
                "d: privileged",
            ]
        );
        assert!(warnings_about_existing("n", enforce, &pods[2..3]).is_empty());
        let many = vec![pod("p", "hostPID"); MAX_PODS + 2];
        let warnings = warnings_about_existing("n", enforce, &many);
        assert_eq!(
            warnings[0],
            "new PodSecurity enforce level only checked against the first 3000 of 3002 existing pods"
        );
        assert_eq!(warnings[2], "p (and 2999 other pods): host namespaces");
    }

    #[test]
    fn one_pod_of_each_controller_comes_first() {
        let of = |name: &str, uid: &str| {
            let owner = json!([{ "uid": uid, "controller": true }]);
            json!({ "metadata": { "name": name, "ownerReferences": owner } })
        };
        let pods =
            [of("a", "1"), of("b", "1"), json!({ "metadata": { "name": "c" } }), of("d", "2"), of("e", "2")];
        let order = one_of_each_controller_first(&pods);
        let names: Vec<_> = order.into_iter().map(|it| text(it, "/metadata/name")).collect();
        assert_eq!(names, ["a", "c", "d", "b", "e"]);
    }
}
