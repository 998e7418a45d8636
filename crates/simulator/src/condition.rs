//! Conditions of objects, as lists in their status.

use serde_json::{Value, json};

use crate::json_access::{items, text};

/// Returns the condition of a type.
pub(crate) fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, "/status/conditions").iter().find(|it| text(it, "/type") == kind)
}

/// Returns true if a condition is true.
pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    find(object, kind).is_some_and(|it| text(it, "/status") == "True")
}

/// Returns the status of a condition; empty if there is none.
pub(crate) fn status<'a>(object: &'a Value, kind: &str) -> &'a str {
    find(object, kind).map_or("", |it| text(it, "/status"))
}

/// Sets a condition in a list. Its transition time changes only with its status. Reason and message
/// may be empty.
pub(crate) fn set(list: &mut Vec<Value>, kind: &str, status: &str, reason: &str, message: &str, now: &str) {
    let known = list.iter().position(|it| text(it, "/type") == kind);
    let since = known.map(|at| &list[at]).filter(|it| text(it, "/status") == status);
    let since = since.map_or(now, |it| text(it, "/lastTransitionTime")).to_owned();
    // The fields that the server adds, such as `lastProbeTime`, stay: without them, each report
    // would be another write.
    let mut new = known.map_or_else(|| json!({}), |at| list[at].clone());
    for (field, value) in [("type", kind), ("status", status), ("lastTransitionTime", &since)] {
        new[field] = value.into();
    }
    for (field, words) in [("reason", reason), ("message", message)] {
        match new.as_object_mut() {
            Some(new) if words.is_empty() => drop(new.remove(field)),
            _ => new[field] = words.into(),
        }
    }
    match known {
        Some(at) => list[at] = new,
        None => list.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_changes_only_with_its_status() {
        let mut list = Vec::new();
        set(&mut list, "Ready", "False", "Why", "because", "t1");
        set(&mut list, "Ready", "False", "Other", "", "t2");
        assert_eq!(
            list,
            [json!({ "type": "Ready", "status": "False", "lastTransitionTime": "t1", "reason": "Other" })]
        );
        list[0]["lastProbeTime"] = Value::Null;
        set(&mut list, "Ready", "True", "", "", "t3");
        assert!(list[0].get("lastProbeTime").is_some(), "other fields stay");
        let object = json!({ "status": { "conditions": list } });
        assert!(is_true(&object, "Ready") && !is_true(&object, "Other"));
        assert_eq!(find(&object, "Ready").unwrap()["lastTransitionTime"], "t3");
    }
}
