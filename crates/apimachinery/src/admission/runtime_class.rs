//! Runtime classes: the overhead of a pod of a class, and the nodes that it can run on.
//!
//! Mirrors k8s.io/kubernetes v1.36.4 plugin/pkg/admission/runtimeclass/admission.go.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::ResourceList;
use crate::kinds::json_access::{at, entries, items, object};

/// The message about a pod with another overhead than its class.
const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// Sets overhead, node selector and tolerations of a pod from its runtime class. `class` is the
/// class that the pod names.
///
/// # Errors
/// The message of the rejection, if pod and class conflict.
pub fn fill(pod: &mut Value, class: &Value) -> Result<(), String> {
    if at(class, "/overhead").is_some() {
        let fixed = ResourceList::at(class, "/overhead/podFixed");
        let declared = ResourceList::at(pod, "/spec/overhead");
        if !declared.is_empty() && !same(&fixed, &declared) {
            return Err(MISMATCH.to_owned());
        }
        if let Some(overhead) = at(class, "/overhead/podFixed") {
            pod["spec"]["overhead"] = overhead.clone();
        }
    }
    schedule(pod, class)
}

/// Returns the message if a pod has another overhead than its class, or one although it has no
/// class, or one without an overhead.
pub fn refuse(pod: &Value, class: Option<&Value>) -> Option<String> {
    if let Some(class) = class.filter(|it| at(it, "/overhead").is_some()) {
        let fixed = ResourceList::at(class, "/overhead/podFixed");
        return (!same(&fixed, &ResourceList::at(pod, "/spec/overhead"))).then(|| MISMATCH.to_owned());
    }
    at(pod, "/spec/overhead").is_some().then(|| {
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned()
    })
}

fn same(some: &ResourceList, others: &ResourceList) -> bool {
    let equal = |(name, amount): (&str, crate::kinds::quantity::Quantity)| {
        others.get(name).is_some_and(|it| it.equals(amount))
    };
    some.names().count() == others.names().count() && some.iter().all(equal)
}

fn schedule(pod: &mut Value, class: &Value) -> Result<(), String> {
    for (key, value) in entries(class, "/scheduling/nodeSelector") {
        let declared = pod.pointer("/spec/nodeSelector").and_then(|it| it.get(key));
        if let Some(declared) = declared.filter(|it| *it != value) {
            let (of_class, of_pod) =
                (value.as_str().unwrap_or_default(), declared.as_str().unwrap_or_default());
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {of_class}; pod.spec.nodeSelector[{key}] = {of_pod}"
            ));
        }
    }
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
    let wanted: Map<String, Value> = entries(class, "/scheduling/nodeSelector")
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .collect();
    if !wanted.is_empty() {
        object(spec, "nodeSelector").extend(wanted);
    }
    let more = items(class, "/scheduling/tolerations");
    if !more.is_empty() {
        let slot = spec.entry("tolerations").or_insert_with(|| Value::Array(Vec::new()));
        if let Some(tolerations) = slot.as_array_mut() {
            let known: HashSet<&Value> = tolerations.iter().collect();
            let new: Vec<Value> = more.iter().filter(|it| !known.contains(it)).cloned().collect();
            tolerations.extend(new);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_takes_overhead_and_scheduling_from_its_class() {
        let class = json!({ "overhead": { "podFixed": { "cpu": "10m" } },
            "scheduling": { "nodeSelector": { "a": "b" }, "tolerations": [{ "key": "k", "operator": "Exists" }] } });
        let mut pod = json!({ "spec": { "nodeSelector": { "x": "y" } } });
        fill(&mut pod, &class).unwrap();
        fill(&mut pod, &class).unwrap();
        assert_eq!(
            pod["spec"],
            json!({ "nodeSelector": { "a": "b", "x": "y" }, "overhead": { "cpu": "10m" },
                "tolerations": [{ "key": "k", "operator": "Exists" }] })
        );
        assert_eq!(refuse(&pod, Some(&class)), None);
    }

    #[test]
    fn a_pod_that_conflicts_with_its_class_is_rejected() {
        let class = json!({ "overhead": { "podFixed": { "cpu": "10m" } }, "scheduling": { "nodeSelector": { "a": "b" } } });
        let mut pod = json!({ "spec": { "overhead": { "cpu": "11m" } } });
        assert!(fill(&mut pod, &class).unwrap_err().contains("doesn't match"));
        let mut pod = json!({ "spec": { "nodeSelector": { "a": "c" } } });
        assert_eq!(
            fill(&mut pod, &class).unwrap_err(),
            "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c"
        );
        let pod = json!({ "spec": { "overhead": { "cpu": "11m" } } });
        assert!(refuse(&pod, None).is_some() && refuse(&pod, Some(&json!({}))).is_some());
        // A webhook may have changed it.
        assert_eq!(refuse(&pod, Some(&class)).as_deref(), Some(MISMATCH));
    }
}
