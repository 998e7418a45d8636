//! Validation of sets and keyed lists, which must not have duplicates, with the messages of
//! k8s.io/apiextensions-apiserver v0.36.4 pkg/apiserver/schema/listtype/validation.go.

use std::collections::HashMap;

use serde_json::Value;

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
        (Value::Array(items), Some(Topology::Set)) => repeated(items, shown, path, &mut problems),
        (Value::Array(items), Some(Topology::Map(keys))) => keyed(items, keys, path, &mut problems),
        _ => {}
    });
    problems
}

/// Reports each item whose text occurs twice, at its second occurrence. The text of an item is what
/// makes it unique, as it is shown. Texts are formatted one at a time: a short list of a request
/// can have 600,000 items.
fn repeated<'a>(
    items: &'a [Value],
    text_of: impl Fn(&'a Value) -> String,
    path: &ValuePath<'_>,
    problems: &mut FieldErrors,
) {
    let mut times: HashMap<String, usize> = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        let text = text_of(item);
        let Some(times) = times.get_mut(&text) else {
            times.insert(text, 1);
            continue;
        };
        *times += 1;
        if *times == 2 {
            problems.push_with(|| {
                let field = ValuePath::Item(path, index).to_string();
                FieldError::with_value(field, FieldErrorKind::Duplicate, text, "")
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
        shown(&Value::Object(found.collect()))
    };
    repeated(items, key_of, path, problems);
}

#[cfg(test)]
mod tests {
    use serde_json::{Map as Object, json};

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

    #[test]
    fn duplicates_are_reported_once_with_the_keys_in_alphabetical_order() {
        let lists = json!({"set": [1, 2, 1, "a<", 1, "a<"], "map": [
            {"b": 1, "a": "x", "c": 1}, {"a": "x", "b": 1}, {"b": 1, "a": "x"}, {"b": 1}, {"b": null}, {}, null]});
        let list = |kind: &str| json!({"type": "array", "x-kubernetes-list-type": kind});
        let mut map = list("map");
        map["x-kubernetes-list-map-keys"] = json!(["b", "a"]);
        let schema = json!({"type": "object", "properties": {"set": list("set"), "map": map}});
        let found: Vec<String> = problems(&lists, &Structural::parse(&schema))
            .into_iter()
            .map(|it| format!("{}: {}", it.field, it.message))
            .collect();
        let expected = [
            r#"map[1]: Duplicate value: {"a":"x","b":1}"#,
            "map[6]: Duplicate value: {}",
            "set[2]: Duplicate value: 1",
            r#"set[5]: Duplicate value: "a<""#,
        ];
        assert_eq!(found, expected);
    }
}
