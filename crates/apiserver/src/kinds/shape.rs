//! How typed objects look on the wire: which empty fields are left out, and which are shown even so.
//!
//! The facts are a table of all types; this file walks an object along it. What the table does not know stays as it is.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::kinds::quantity::{rewrite, rewrite_resource};

/// One field of a type.
#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    presence: Presence,
    /// What the field is where it is shown empty; the letter of the table.
    zero: u8,
    container: Container,
    /// The type of the field or of what its list or map holds; empty for plain values.
    target: &'static str,
    /// Whether an empty list stays one: the original stores these types as JSON, all others in a form that has no empty lists.
    keeps_empty: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Presence {
    /// Left out where it is empty.
    Omitted,
    /// Shown even where it is empty.
    Always,
    /// Shown where it was set, empty or not.
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

/// Gives an object of a built-in kind the shape of a typed one. Says whether the kind is in the table.
pub(crate) fn apply(group: &str, version: &str, kind: &str, object: &mut Map<String, Value>) -> bool {
    let package = match group {
        "" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        group => group.split('.').next().unwrap_or_default(),
    };
    let name = format!("{package}/{version}.{kind}");
    let Some(fields) = TYPES.get(name.as_str()) else { return false };
    walk(fields, object);
    true
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

/// Whether a field counts as not set. One that is shown where it was set is empty only where it is null; one that is
/// always shown keeps what it says, unless that is an empty list or map.
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
    fn empty_fields_are_left_out_or_shown_as_their_type_says() {
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

    /// A client that speaks protobuf sends the empty fields of a schema too; `id: ""` was refused as an id.
    #[test]
    fn schemas_in_a_definition_say_nothing_that_was_not_said() {
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
    fn an_empty_list_stays_one_where_objects_are_stored_as_json() {
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
    fn a_kind_that_is_not_in_the_table_stays_as_it_is() {
        let mut object = json!({"spec": {"a": null}});
        assert!(!apply("example.com", "v1", "Foo", object.as_object_mut().expect("an object")));
        assert_eq!(object, json!({"spec": {"a": null}}));
    }
}
