//! Validation of sets and keyed lists, which must not have duplicates, with the messages of
//! k8s.io/apiextensions-apiserver v0.36.4 pkg/apiserver/schema/listtype/validation.go.

use std::collections::HashMap;

use serde_json::{Map as Object, Value};

use super::Structural;
use super::go_format::shown;
use super::nodes::Node;
use super::value_path::ValuePath;
use crate::api_error::{FieldError, FieldErrorKind};
use crate::field_errors::FieldErrors;
use crate::schema::Topology;

/// Returns the duplicates in the lists of an object.
pub(crate) fn problems(object: &Value, schema: &Structural) -> FieldErrors {
    let mut problems = FieldErrors::new();
    let root = Node { path: ValuePath::Root(""), value: object, schema };
    root.walk(&mut |Node { path, value, schema }| match (value, &schema.list) {
        (Value::Array(items), Some(Topology::Set)) => repeated(items, path, &mut problems),
        (Value::Array(items), Some(Topology::Map(keys))) => keyed(items, keys, path, &mut problems),
        _ => {}
    });
    problems
}

/// Reports each value that occurs twice, at its second occurrence.
fn repeated(items: &[Value], path: &ValuePath<'_>, problems: &mut FieldErrors) {
    let mut times: HashMap<String, usize> = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let times = times.entry(shown(item)).or_default();
        *times += 1;
        if *times == 2 {
            problems.push_with(|| {
                let field = ValuePath::Item(path, index).to_string();
                FieldError::with_value(field, FieldErrorKind::Duplicate, shown(item), "")
            });
        }
    }
}

fn keyed(items: &[Value], keys: &[String], path: &ValuePath<'_>, problems: &mut FieldErrors) {
    if let Some((index, item)) =
        items.iter().enumerate().find(|(_, item)| !(item.is_null() || item.is_object()))
    {
        let detail = "must be an object for an array of list-type map";
        let field = ValuePath::Item(path, index).to_string();
        problems.push(FieldError::with_value(field, FieldErrorKind::Invalid, shown(item), detail));
        return;
    }
    let key_of = |item: &Value| {
        let found = keys.iter().filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone())));
        Value::Object(found.collect::<Object<String, Value>>())
    };
    let found: Vec<Value> = items.iter().map(key_of).collect();
    repeated(&found, path, problems);
}
