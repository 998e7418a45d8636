//! The pods of a Job: new ones, and the order in which surplus ones are deleted. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::job::{FINALIZER, IGNORED_FAILURES, INDEX, INDEX_FAILURES, Job};
use crate::json_access::{items, number, text};
use crate::object::Pod;
use crate::pod_template::new_pod;

/// The variable with the index of a pod.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The number of characters of a generated name before its random end: `MaxGeneratedNameLength` in
/// k8s.io/apiserver v0.36.4 pkg/storage/names/generate.go.
const LONGEST_PREFIX: usize = 58;

/// A pod to create.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NewPod {
    pub(super) index: Option<i64>,
    /// The former failures of the index, counted and ignored, if they have a limit.
    pub(super) failures: Option<(i64, i64)>,
}

/// Returns a new pod of a Job.
pub(super) fn create(job: Job<'_>, new: &NewPod) -> Value {
    let mut pod = new_pod(job.0, &job.0["spec"]["template"]);
    let mut finalizers = items(&pod, "/metadata/finalizers").to_vec();
    if !finalizers.iter().any(|it| it == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    pod["metadata"]["finalizers"] = finalizers.into();
    let Some(index) = new.index else { return pod };
    let (job_name, end) = (text(job.0, "/metadata/name"), format!("-{index}-"));
    let kept = job_name.get(..LONGEST_PREFIX.saturating_sub(end.len())).unwrap_or(job_name);
    pod["metadata"]["generateName"] = format!("{kept}{end}").into();
    pod["metadata"]["labels"][INDEX] = index.to_string().into();
    pod["metadata"]["annotations"][INDEX] = index.to_string().into();
    pod["spec"]["hostname"] = format!("{job_name}-{index}").into();
    if let Some((counted, ignored)) = new.failures {
        pod["metadata"]["annotations"][INDEX_FAILURES] = counted.to_string().into();
        if ignored > 0 {
            pod["metadata"]["annotations"][IGNORED_FAILURES] = ignored.to_string().into();
        }
    }
    let variable = json!({ "name": INDEX_VARIABLE, "valueFrom": { "fieldRef": {
        "fieldPath": format!("metadata.labels['{INDEX}']") } } });
    for list in ["initContainers", "containers"] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mut variables = items(container, "/env").to_vec();
            if !variables.iter().any(|it| it["name"] == INDEX_VARIABLE) {
                variables.push(variable.clone());
                container["env"] = variables.into();
            }
        }
    }
    pod
}

/// Returns the pods to delete so that this many fewer remain: those without a valid index or with
/// one that another pod has, and then those that are worth the least.
pub(super) fn surplus(job: Job<'_>, active: &[&Arc<Pod>], at_least: usize) -> Vec<Arc<Pod>> {
    let mut ranked: Vec<&Arc<Pod>> = active.to_vec();
    ranked.sort_by_cached_key(|it| worth(it));
    let (mut surplus, mut rest) = (Vec::new(), Vec::new());
    if job.is_indexed() {
        let mut best: BTreeMap<i64, &Arc<Pod>> = BTreeMap::new();
        for pod in ranked {
            match job.index_of(pod) {
                // A later one is worth more.
                Some(index) => surplus.extend(best.insert(index, pod).cloned()),
                None => surplus.push(Arc::clone(pod)),
            }
        }
        let kept: HashSet<&str> = best.values().map(|it| text(it, "/metadata/uid")).collect();
        let mut kept: Vec<_> =
            active.iter().filter(|it| kept.contains(text(it, "/metadata/uid"))).copied().collect();
        kept.sort_by_cached_key(|it| worth(it));
        rest = kept;
    } else {
        rest.extend(ranked);
    }
    let missing = at_least.saturating_sub(surplus.len());
    surplus.extend(rest.into_iter().take(missing).cloned());
    surplus
}

/// Returns a key that sorts pods from the least to the most valuable: `ActivePods` in
/// k8s.io/kubernetes v1.36.4 pkg/controller/controller_utils.go.
fn worth(pod: &Pod) -> impl Ord + use<> {
    let phase = match text(pod, "/status/phase") {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    let restarts =
        items(pod, "/status/containerStatuses").iter().filter_map(|it| number(it, "/restartCount"));
    (
        (!pod.node().is_empty(), phase, pod.ready.is_some()),
        Reverse(pod.ready.flatten()),
        Reverse(restarts.max()),
        Reverse(text(pod, "/metadata/creationTimestamp").to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(spec: Value) -> Value {
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "sum", "namespace": "n", "uid": "j" }, "spec": spec })
    }

    #[test]
    fn a_pod_knows_its_index_and_waits_to_be_counted() {
        let job = job(json!({ "completionMode": "Indexed", "template": { "spec": {
            "containers": [{ "name": "c" }, { "name": "d", "env": [{ "name": INDEX_VARIABLE, "value": "x" }] }] } } }));
        let pod = create(Job(&job), &NewPod { index: Some(7), failures: Some((2, 0)) });
        assert_eq!(
            (&pod["metadata"]["generateName"], &pod["spec"]["hostname"]),
            (&json!("sum-7-"), &json!("sum-7"))
        );
        assert_eq!(pod["metadata"]["annotations"], json!({ INDEX: "7", INDEX_FAILURES: "2" }));
        assert_eq!(pod["metadata"]["finalizers"], json!([FINALIZER]));
        let variables = |at: usize| pod["spec"]["containers"][at]["env"][0].clone();
        assert_eq!(variables(0)["valueFrom"]["fieldRef"]["fieldPath"], format!("metadata.labels['{INDEX}']"));
        assert_eq!(variables(1)["value"], "x");
        assert_eq!(create(Job(&job), &NewPod::default())["metadata"]["generateName"], "sum-");
    }

    #[test]
    fn pods_without_an_index_of_their_own_are_deleted_first() {
        let pod = |name: &str, index: &str, phase: &str| {
            Arc::new(Pod::from(
                json!({ "metadata": { "name": name, "uid": name, "annotations": { INDEX: index } },
                "status": { "phase": phase } }),
            ))
        };
        let pods = [
            pod("a", "0", "Running"),
            pod("b", "0", "Pending"),
            pod("c", "1", "Pending"),
            pod("d", "9", "Running"),
        ];
        let all: Vec<_> = pods.iter().collect();
        let names = |spec: Value, at_least: usize| {
            let job = job(spec);
            let found = surplus(Job(&job), &all, at_least);
            let mut names: Vec<_> = found.iter().map(|it| text(it, "/metadata/name").to_owned()).collect();
            names.sort();
            names.join(" ")
        };
        let indexed = json!({ "completionMode": "Indexed", "completions": 3 });
        assert_eq!(names(indexed.clone(), 0), "b d");
        assert_eq!(names(indexed, 3), "b c d");
        assert_eq!((names(json!({}), 0), names(json!({}), 2)), (String::new(), "b c".to_owned()));
    }
}
