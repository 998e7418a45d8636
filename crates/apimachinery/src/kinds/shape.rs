//! The wire format of typed objects: which empty fields are omitted, and which are serialized even
//! so.
//!
//! The rules are a table of all types; this file applies it to an object. Fields that are not in
//! the table stay unchanged.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::kinds::quantity::{rewrite, rewrite_resource};

/// One field of a type.
#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    presence: Presence,
    /// The zero value of the field, as a letter of the table.
    zero: u8,
    container: Container,
    /// The type of the field or of the items of its list or map; empty for plain values.
    target: &'static str,
    /// True if an empty list stays empty instead of becoming null: kube-apiserver stores these
    /// types as JSON (k8s.io/kubernetes v1.36.4 pkg/controlplane/apiserver/apiextensions.go and
    /// aggregator.go), all others as protobuf, which has no empty lists.
    keeps_empty: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Presence {
    /// Omitted if it is empty.
    Omitted,
    /// Serialized even if it is empty.
    Always,
    /// Serialized if it was set, empty or not.
    WhereSet,
}

#[derive(Clone, Copy)]
enum Container {
    None,
    List,
    Map,
}

static TYPES: LazyLock<HashMap<&'static str, Vec<Field>>> = LazyLock::new(|| {
    let lines = include_str!("../../data/field-shapes.tsv").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut parts = line.split('\t');
            let name = parts.next().unwrap_or_default();
            let keeps_empty = name.starts_with("apiextensions/") || name.starts_with("apiregistration/");
            (name, parts.filter_map(|it| field(it, keeps_empty)).collect())
        })
        .collect()
});

fn field(written: &'static str, keeps_empty: bool) -> Option<Field> {
    let (name, shape) = written.split_once('=')?;
    let [how, zero, container, ..] = *shape.as_bytes() else { return None };
    let presence = match how {
        b'o' => Presence::Omitted,
        b'z' => Presence::Always,
        _ => Presence::WhereSet,
    };
    let container = match container {
        b'[' => Container::List,
        b'{' => Container::Map,
        _ => Container::None,
    };
    Some(Field { name, presence, zero, container, target: shape.get(3..)?, keeps_empty })
}

/// Gives an object of a built-in kind the wire format of its type. Returns true if the kind is in
/// the table.
pub fn apply(group: &str, version: &str, kind: &str, object: &mut Map<String, Value>) -> bool {
    let Some(fields) = fields_of(group, version, kind) else { return false };
    walk(fields, object);
    true
}

/// Returns the status of a built-in kind in which no field is set, unless it is omitted then.
pub(in crate::kinds) fn blank_status(group: &str, version: &str, kind: &str) -> Option<Value> {
    let status = fields_of(group, version, kind)?.iter().find(|it| it.name == "status")?;
    let mut object = Map::new();
    walk(std::slice::from_ref(status), &mut object);
    object.remove("status")
}

/// Returns the name of the Go package that has the types of a group.
pub fn go_package(group: &str) -> &str {
    match group {
        "" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        group => group.split('.').next().unwrap_or_default(),
    }
}

fn fields_of(group: &str, version: &str, kind: &str) -> Option<&'static [Field]> {
    let name = format!("{}/{version}.{kind}", go_package(group));
    TYPES.get(name.as_str()).map(Vec::as_slice)
}

fn walk(fields: &[Field], object: &mut Map<String, Value>) {
    for field in fields {
        let there = object.get_mut(field.name);
        if there.is_none() && field.presence != Presence::Always {
            continue;
        }
        let empty = there.is_none_or(|value| {
            inside(field, value);
            is_empty(value, field)
        });
        match field.presence {
            _ if !empty => {}
            Presence::Omitted | Presence::WhereSet => {
                object.remove(field.name);
            }
            Presence::Always => {
                let mut zero = zero(field.zero);
                inside(field, &mut zero);
                object.insert(field.name.to_owned(), zero);
            }
        }
    }
}

/// Returns true if a field counts as not set. A field of [`Presence::WhereSet`] is empty only if it
/// is null; one of [`Presence::Always`] keeps its value, unless that is an empty list or map.
fn is_empty(value: &Value, field: &Field) -> bool {
    let shown = field.presence == Presence::Always;
    match value {
        Value::Null => true,
        _ if field.presence == Presence::WhereSet => false,
        Value::Array(list) => list.is_empty() && !(shown && field.keeps_empty),
        Value::Object(map) => map.is_empty() && (!shown || matches!(field.container, Container::Map)),
        _ if shown => false,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
    }
}

fn zero(letter: u8) -> Value {
    match letter {
        b's' => "".into(),
        b'i' => 0.into(),
        b'b' => false.into(),
        b'q' => "0".into(),
        b'd' => "0s".into(),
        b'o' => Value::Object(Map::new()),
        _ => Value::Null,
    }
}

fn inside(field: &Field, value: &mut Value) {
    match field.container {
        Container::None if field.zero == b'q' => rewrite(value),
        Container::None => target(field.target, value),
        Container::List => {
            value.as_array_mut().into_iter().flatten().for_each(|item| target(field.target, item));
        }
        Container::Map => {
            let items = value.as_object_mut().into_iter().flat_map(Map::values_mut);
            if field.target == "quantity" {
                items.for_each(rewrite_resource);
            } else {
                items.for_each(|item| target(field.target, item));
            }
        }
    }
}

fn target(name: &str, value: &mut Value) {
    if name == "quantity" {
        return rewrite(value);
    }
    if let (Some(fields), Some(object)) = (TYPES.get(name), value.as_object_mut()) {
        walk(fields, object);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_fields_are_omitted_or_serialized_as_their_type_declares() {
        let mut pod = json!({"metadata": {"labels": {}}, "spec": {"hostNetwork": false, "priority": 0, "containers": [
            {"name": "c", "env": [], "resources": {"limits": {"cpu": 0.5}}, "stdin": null}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert!(apply("", "v1", "Pod", pod.as_object_mut().expect("an object")));
        let shaped = json!({"metadata": {}, "spec": {"priority": 0, "containers": [
            {"name": "c", "resources": {"limits": {"cpu": "500m"}}}]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null}]}});
        assert_eq!(pod, shaped);
    }

    /// A protobuf client sends the empty fields of a schema too; `id: ""` used to be rejected as an
    /// id.
    #[test]
    fn empty_fields_of_schemas_in_a_definition_are_omitted() {
        let schema = json!({"id": "", "type": "object", "nullable": false, "properties": {"a": {
            "type": "array", "pattern": "", "items": {"type": "string", "format": ""}, "maxItems": 0}},
            "additionalProperties": true, "default": {"a": ""}, "x-kubernetes-preserve-unknown-fields": false});
        let mut definition = json!({"spec": {"versions": [{"name": "v1", "deprecated": false, "schema": {"openAPIV3Schema": schema}}]}});
        let map = definition.as_object_mut().expect("an object");
        assert!(apply("apiextensions.k8s.io", "v1", "CustomResourceDefinition", map));
        assert_eq!(
            definition["spec"]["versions"][0],
            json!({"name": "v1", "served": false, "storage": false, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "maxItems": 0}},
                "additionalProperties": true, "default": {"a": ""}, "x-kubernetes-preserve-unknown-fields": false}}})
        );
    }

    #[test]
    fn an_empty_list_stays_empty_in_types_that_are_stored_as_json() {
        let mut definition = json!({"spec": {"versions": []}});
        apply(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
            definition.as_object_mut().expect("an object"),
        );
        assert_eq!(
            (&definition["spec"]["versions"], &definition["status"]["conditions"]),
            (&json!([]), &Value::Null)
        );
        let mut pod = json!({"spec": {"containers": []}});
        apply("", "v1", "Pod", pod.as_object_mut().expect("an object"));
        assert_eq!(pod["spec"]["containers"], Value::Null);
    }

    #[test]
    fn a_kind_that_is_not_in_the_table_stays_unchanged() {
        let mut object = json!({"spec": {"a": null}});
        assert!(!apply("example.com", "v1", "Foo", object.as_object_mut().expect("an object")));
        assert_eq!(object, json!({"spec": {"a": null}}));
    }
}
