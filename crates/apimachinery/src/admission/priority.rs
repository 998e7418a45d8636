//! Priority: the priority of a pod, from its priority class.
//!
//! Mirrors k8s.io/kubernetes v1.36.4 plugin/pkg/admission/priority/admission.go.

use serde_json::Value;

use crate::kinds::json_access::{at, flag, number, object, text};

/// Sets the priority and the preemption policy of a new pod. `class` is the class that it names, or
/// else the default class, if there is one.
///
/// # Errors
/// The message of the rejection, if the pod sets other values than its class.
pub fn fill(pod: &mut Value, class: Option<&Value>) -> Result<(), String> {
    let default = || Value::from("PreemptLowerPriority");
    let (priority, policy) = match class {
        Some(class) => (number(class, "/value").unwrap_or(0), at(class, "/preemptionPolicy").cloned()),
        None => (0, Some(default())),
    };
    let Some(map) = pod.as_object_mut() else { return Ok(()) };
    let spec = object(map, "spec");
    if let Some(class) = class {
        spec.insert("priorityClassName".to_owned(), text(class, "/metadata/name").into());
    }
    let decided = [
        ("priority", "integer value of priority", Some(Value::from(priority))),
        ("preemptionPolicy", "string value of PreemptionPolicy", policy),
    ];
    for (key, description, value) in decided {
        let Some(value) = value else { continue };
        let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let Some(given) = spec.get(key).filter(|it| !it.is_null() && **it != value) {
            return Err(format!(
                "the {description} ({}) must not be provided in pod spec; priority admission controller computed {} from the given \
                 PriorityClass name",
                shown(given),
                shown(&value)
            ));
        }
        spec.insert(key.to_owned(), value);
    }
    Ok(())
}

/// Keeps the priority of a pod if an update leaves it out.
pub fn keep(pod: &mut Value, old: &Value) {
    let Some(map) = pod.as_object_mut() else { return };
    let spec = object(map, "spec");
    for key in ["priority", "preemptionPolicy"] {
        if let Some(value) = old["spec"].get(key).filter(|_| spec.get(key).is_none_or(Value::is_null)) {
            spec.insert(key.to_owned(), value.clone());
        }
    }
}

/// Returns the default class: of several, which only a race can leave behind, the one with the
/// lowest value.
pub fn default_class(classes: impl Iterator<Item = Value>) -> Option<Value> {
    classes.filter(|it| flag(it, "/globalDefault")).min_by_key(|it| number(it, "/value"))
}

/// Returns the message if a class must not be the default one, because `other` is already.
pub fn refuse_second_default(class: &Value, is_new: bool, other: Option<&Value>) -> Option<String> {
    let other = text(other.filter(|_| flag(class, "/globalDefault"))?, "/metadata/name");
    let is_same = !is_new && other == text(class, "/metadata/name");
    (!is_same)
        .then(|| format!("PriorityClass {other} is already marked as default. Only one default can exist"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_gets_the_priority_of_its_class() {
        let class = json!({ "metadata": { "name": "high" }, "value": 7, "preemptionPolicy": "Never" });
        let mut pod = json!({ "spec": { "priority": null } });
        fill(&mut pod, Some(&class)).unwrap();
        fill(&mut pod, Some(&class)).unwrap();
        assert_eq!(
            pod["spec"],
            json!({ "priority": 7, "preemptionPolicy": "Never", "priorityClassName": "high" })
        );
        let mut changed = json!({ "spec": { "priority": 8 } });
        keep(&mut changed, &pod);
        assert_eq!(changed["spec"], json!({ "priority": 8, "preemptionPolicy": "Never" }));
        let mut pod = json!({ "spec": {} });
        fill(&mut pod, None).unwrap();
        assert_eq!(pod["spec"], json!({ "priority": 0, "preemptionPolicy": "PreemptLowerPriority" }));
    }

    #[test]
    fn a_pod_must_not_choose_its_priority() {
        let mut pod = json!({ "spec": { "priority": 5 } });
        assert_eq!(
            fill(&mut pod, None).unwrap_err(),
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 from \
             the given PriorityClass name"
        );
        let mut pod = json!({ "spec": { "preemptionPolicy": "Never" } });
        assert!(fill(&mut pod, None).unwrap_err().contains("PreemptionPolicy (Never)"));
    }

    #[test]
    fn one_class_can_be_the_default() {
        let class = |name: &str, value: i64, default: bool| json!({ "metadata": { "name": name }, "value": value, "globalDefault": default });
        let (low, high, other) = (class("low", 1, true), class("high", 9, true), class("other", 0, false));
        let found = default_class([&high, &other, &low].into_iter().cloned());
        assert_eq!(found.as_ref(), Some(&low));
        assert_eq!(refuse_second_default(&low, false, found.as_ref()), None);
        assert_eq!(refuse_second_default(&other, true, found.as_ref()), None);
        assert_eq!(
            refuse_second_default(&high, true, found.as_ref()).as_deref(),
            Some("PriorityClass low is already marked as default. Only one default can exist")
        );
    }
}
