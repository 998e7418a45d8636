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
        return problems.push_with(|| {
            let field = ValuePath::Item(path, index).to_string();
            FieldError::with_value(field, FieldErrorKind::Invalid, shown(item), detail)
        });
    }
    let key_of = |item: &Value| {
        let found = keys.iter().filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone())));
        Value::Object(found.collect::<Object<String, Value>>())
    };
    let found: Vec<Value> = items.iter().map(key_of).collect();
    repeated(&found, path, problems);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The path of each list was formatted, although no more problems are reported.
    #[test]
    fn many_invalid_keyed_lists_below_a_long_key_are_reported_in_part() {
        let list = json!({"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object"}});
        let schema = Structural::parse(&json!({"type": "object", "additionalProperties": {
            "type": "object", "additionalProperties": list}}));
        let lists: Object<String, Value> = (0..20_000).map(|it| (format!("l{it}"), json!([1]))).collect();
        let object = json!({ "k".repeat(1 << 20): lists });
        let start = cpu_time::ThreadTime::now();
        let problems = problems(&object, &schema);
        assert_eq!((problems.len(), problems.count()), (2, 20_000), "one, and a note");
        assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    }
}
