//! Validation of sets and keyed lists, which must not have duplicates, with the messages of
//! k8s.io/apiextensions-apiserver v0.36.4 pkg/apiserver/schema/listtype/validation.go.

use std::collections::HashMap;

use serde_json::{Map as Object, Value};

use super::Structural;
use super::go_format::shown;
use super::nodes::{Node, nodes};
use crate::api_error::{FieldError, FieldErrorKind};
use crate::schema::Topology;

/// Returns the duplicates in the lists of an object.
pub(crate) fn problems(object: &Value, schema: &Structural) -> Vec<FieldError> {
    let mut problems = Vec::new();
    for Node { path, value, schema } in nodes(object, schema, "") {
        match (value, &schema.list) {
            (Value::Array(items), Some(Topology::Set)) => repeated(items, &path, &mut problems),
            (Value::Array(items), Some(Topology::Map(keys))) => keyed(items, keys, &path, &mut problems),
            _ => {}
        }
    }
    problems
}

/// Reports each value that occurs twice, at its second occurrence.
fn repeated(items: &[Value], path: &str, problems: &mut Vec<FieldError>) {
    let mut times: HashMap<String, usize> = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let times = times.entry(shown(item)).or_default();
        *times += 1;
        if *times == 2 {
            let field = format!("{path}[{index}]");
            problems.push(FieldError::with_value(field, FieldErrorKind::Duplicate, shown(item), ""));
        }
    }
}

fn keyed(items: &[Value], keys: &[String], path: &str, problems: &mut Vec<FieldError>) {
    if let Some((index, item)) =
        items.iter().enumerate().find(|(_, item)| !(item.is_null() || item.is_object()))
    {
        let detail = "must be an object for an array of list-type map";
        let field = format!("{path}[{index}]");
        problems.push(FieldError::with_value(field, FieldErrorKind::Invalid, shown(item), detail));
        return;
    }
    let key_of = |item: &Value| {
        let found = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(found.collect::<Object<String, Value>>())
    };
    let found: Vec<Value> = items.iter().map(key_of).collect();
    repeated(&found, path, problems);
}
