//! Lists that are sets or keyed may not say a thing twice.

use std::collections::HashMap;

use serde_json::{Map as Object, Value};

use super::Structural;
use super::printed::shown;
use crate::refusal::{Problem, ProblemKind};
use crate::schema::Topology;

/// The duplicates in the lists of an object.
pub(crate) fn problems(object: &Value, schema: &Structural) -> Vec<Problem> {
    let mut problems = Vec::new();
    visit(object, schema, "", &mut problems);
    problems
}

fn visit(value: &Value, schema: &Structural, path: &str, problems: &mut Vec<Problem>) {
    match value {
        Value::Object(object) => {
            for (key, child) in object {
                if let Some(property) = schema.properties.get(key) {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    visit(child, property, &path, problems);
                } else if let Some(additional) = schema.additional_schema() {
                    visit(child, additional, &format!("{path}[{key}]"), problems);
                }
            }
        }
        Value::Array(items) => {
            match &schema.list {
                Some(Topology::Set) => repeated(items, path, problems),
                Some(Topology::Map(keys)) => keyed(items, keys, path, problems),
                _ => {}
            }
            if let Some(schema) = schema.items.as_deref() {
                for (index, item) in items.iter().enumerate() {
                    visit(item, schema, &format!("{path}[{index}]"), problems);
                }
            }
        }
        _ => {}
    }
}

/// Reports each value that is there twice, where it is there the second time.
fn repeated(items: &[Value], path: &str, problems: &mut Vec<Problem>) {
    let mut times: HashMap<String, usize> = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let times = times.entry(shown(item)).or_default();
        *times += 1;
        if *times == 2 {
            let field = format!("{path}[{index}]");
            problems.push(Problem::with_value(field, ProblemKind::Duplicate, shown(item), ""));
        }
    }
}

fn keyed(items: &[Value], keys: &[String], path: &str, problems: &mut Vec<Problem>) {
    if let Some((index, item)) =
        items.iter().enumerate().find(|(_, item)| !(item.is_null() || item.is_object()))
    {
        let detail = "must be an object for an array of list-type map";
        let field = format!("{path}[{index}]");
        problems.push(Problem::with_value(field, ProblemKind::Invalid, shown(item), detail));
        return;
    }
    let key_of = |item: &Value| {
        let found = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(found.collect::<Object<String, Value>>())
    };
    let found: Vec<Value> = items.iter().map(key_of).collect();
    repeated(&found, path, problems);
}
