//! Parts of cells that several kinds share: names, shortened lists, selectors, containers.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::json_access::{at, entries, items, text};

/// Returns the name of an object.
pub(in crate::kinds) fn name(object: &Value) -> Value {
    text(object, "/metadata/name").into()
}

/// Returns name and age, the cells of kinds without columns of their own.
pub fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age::since_creation(object, now)]
}

/// Returns a text, or `none` if it is empty.
pub(in crate::kinds) fn non_empty_or<'a>(text: &'a str, none: &'a str) -> &'a str {
    if text.is_empty() { none } else { text }
}

/// Joins a list with commas, or returns `none` if it is empty.
pub(in crate::kinds) fn joined(list: &[String], none: &str) -> String {
    if list.is_empty() { none.to_owned() } else { list.join(",") }
}

/// Joins the first three of a list and adds the number of the others.
pub(in crate::kinds) fn first_three(list: &[String], none: &str) -> String {
    match list {
        [] => none.to_owned(),
        [a, b, c, rest @ ..] if !rest.is_empty() => format!("{a},{b},{c} + {} more...", rest.len()),
        all => all.join(","),
    }
}

/// Formats labels as a selector: `a=b,c=d`.
pub(in crate::kinds) fn labels(object: &Value, pointer: &str) -> String {
    let list: Vec<String> = entries(object, pointer)
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    joined(&list, "<none>")
}

/// Formats a label selector.
pub(in crate::kinds) fn selector(object: &Value, pointer: &str) -> String {
    let Some(selector) = at(object, pointer) else { return "<none>".to_owned() };
    let mut list: Vec<String> = entries(selector, "/matchLabels")
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for expression in items(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        let mut values: Vec<&str> = items(expression, "/values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        list.push(match text(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    joined(&list, "<none>")
}

/// Returns the names and images of the containers of a pod spec.
pub(in crate::kinds) fn containers(object: &Value, pod_spec: &str) -> [Value; 2] {
    let list = |field: &str| {
        let texts: Vec<&str> = items(object, &format!("{pod_spec}/containers"))
            .iter()
            .map(|container| text(container, field))
            .collect();
        Value::from(texts.join(","))
    };
    [list("/name"), list("/image")]
}

/// Returns the addresses of a load balancer, sorted and without duplicates.
pub(in crate::kinds) fn load_balancer(object: &Value) -> String {
    let mut list: Vec<&str> = items(object, "/status/loadBalancer/ingress")
        .iter()
        .map(|point| non_empty_or(text(point, "/ip"), text(point, "/hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    list.sort_unstable();
    list.dedup();
    list.join(",")
}

/// Returns the short names of access modes, without duplicates.
pub(in crate::kinds) fn access_modes(object: &Value, pointer: &str) -> String {
    let has = |mode: &str| items(object, pointer).iter().any(|known| known == mode);
    let short: Vec<&str> = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .iter()
    .filter(|(mode, _)| has(mode))
    .map(|(_, short)| *short)
    .collect();
    short.join(",")
}

/// Returns true if the condition of that type is true.
pub(in crate::kinds) fn condition(object: &Value, kind: &str) -> bool {
    items(object, "/status/conditions")
        .iter()
        .any(|condition| text(condition, "/type") == kind && text(condition, "/status") == "True")
}

/// Returns the condition of that type.
pub(in crate::kinds) fn find_condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, "/status/conditions").iter().find(|it| text(it, "/type") == kind)
}

/// Returns the phase of a volume or a claim; `Terminating` while it is being deleted.
pub(in crate::kinds) fn phase(object: &Value) -> Value {
    if at(object, "/metadata/deletionTimestamp").is_some() {
        return "Terminating".into();
    }
    text(object, "/status/phase").into()
}

/// Returns the storage class, which a deprecated annotation may name instead of the spec.
pub(in crate::kinds) fn storage_class(object: &Value) -> Value {
    let old = text(object, "/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
    non_empty_or(old, text(object, "/spec/storageClassName")).into()
}

/// Returns the string at a JSON pointer, or `<unset>`.
pub(in crate::kinds) fn unset(object: &Value, pointer: &str) -> Value {
    at(object, pointer).and_then(Value::as_str).unwrap_or("<unset>").into()
}
