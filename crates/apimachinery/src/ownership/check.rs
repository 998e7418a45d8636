//! The check of an object against its schema, before it is merged or compared.
//!
//! The messages are those of sigs.k8s.io/structured-merge-diff v6.3.3 typed/validate.go, which
//! clients see from kube-apiserver.

use std::fmt::{self, Display, Write};

use serde_json::Value;

use super::element::Element;
use super::field_set::Path;
use super::shape::{Items, Members, Shape};
use crate::schema::{Definitions, Scalar, Schema, Topology};
use crate::weight;

/// The schema errors of an object, in the order in which they were found. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SchemaErrors(Vec<String>);

/// The number of errors that are reported at most, and their size in bytes from which on no more
/// are. kube-apiserver reports all.
const MOST_REPORTED: usize = 1_000;
const MOST_BYTES: usize = 1024 * 1024;

/// The number of bytes that the defaults of keys may add to the elements of any object, and for
/// each part of the object. A list can have many keys, all of which may be absent from its items.
/// kube-apiserver has no limit.
const FREE_KEY_BYTES: usize = 1024 * 1024;
const KEY_BYTES_PER_PART: usize = 256;

/// The treatment of list items with the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duplicates {
    /// Accepted: stored objects may have them.
    Allowed,
    /// Rejected: they cannot be applied.
    Refused,
}

/// Checks an object against its schema.
pub(super) fn check(
    object: &Value,
    schema: &Schema,
    definitions: &dyn Definitions,
    duplicates: Duplicates,
) -> Result<(), SchemaErrors> {
    let key_bytes = weight::of(object).saturating_mul(KEY_BYTES_PER_PART).saturating_add(FREE_KEY_BYTES);
    let mut walk = Walk {
        definitions,
        duplicates,
        path: Path(Vec::new()),
        key_bytes,
        errors: Vec::new(),
        bytes: 0,
        left_out: 0,
    };
    walk.visit(object, schema);
    if walk.left_out > 0 {
        walk.errors.push(format!("{} more errors are not shown", walk.left_out));
    }
    if walk.errors.is_empty() { Ok(()) } else { Err(SchemaErrors(walk.errors)) }
}

struct Walk<'a> {
    definitions: &'a dyn Definitions,
    duplicates: Duplicates,
    path: Path,
    /// The number of bytes that the defaults of keys may still add.
    key_bytes: usize,
    errors: Vec<String>,
    /// The number of bytes in `errors`.
    bytes: usize,
    /// The number of errors beyond [`MOST_REPORTED`] and [`MOST_BYTES`].
    left_out: usize,
}

impl Walk<'_> {
    fn visit(&mut self, value: &Value, schema: &Schema) {
        match (Shape::of(schema, Some(value), self.definitions), value) {
            (_, Value::Null) => {}
            (Shape::Scalar(scalar), value) => {
                if let Some(error) = scalar_error(scalar, value) {
                    self.report(error);
                }
            }
            (Shape::List(list), Value::Array(items)) => self.visit_items(&list, items),
            (Shape::List(_), _) => self.report(format_args!("expected list, got {}", plain_holder(value))),
            (Shape::Object { members, .. }, Value::Object(fields)) => self.visit_fields(&members, fields),
            (Shape::Object { .. }, _) => {
                self.report(format_args!("expected map, got {}", plain_holder(value)))
            }
        }
    }

    fn visit_fields(&mut self, members: &Members, fields: &serde_json::Map<String, Value>) {
        for (name, value) in fields {
            self.path.0.push(Element::field(name));
            let schema = members.schema(name);
            match &schema {
                Some(schema) => self.visit(value, schema),
                None => self.report("field not declared in schema"),
            }
            self.path.0.pop();
            if schema.is_none() {
                return;
            }
        }
    }

    fn visit_items(&mut self, list: &Items, items: &[Value]) {
        let keyed = *list.topology() != Topology::Atomic;
        // The indexes of an atomic list cannot repeat.
        let refuse_duplicates = keyed && self.duplicates == Duplicates::Refused;
        let mut seen = std::collections::BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let element = if keyed {
                match list.element(item, self.definitions) {
                    Ok(element) => element,
                    Err(why) => return self.report(format_args!("element {index}: {why}")),
                }
            } else {
                Element::Index(i64::try_from(index).unwrap_or(i64::MAX))
            };
            match self.key_bytes.checked_sub(default_bytes(&element, item)) {
                Some(left) => self.key_bytes = left,
                None => {
                    return self.report(format_args!(
                        "element {index}: too many keys have defaults (a limit of this server)"
                    ));
                }
            }
            if refuse_duplicates && !seen.insert(element.clone()) {
                self.report(format_args!("duplicate entries for key {element}"));
            }
            self.path.0.push(element);
            self.visit(item, list.schema());
            self.path.0.pop();
        }
    }

    fn report(&mut self, error: impl Display) {
        if self.errors.len() >= MOST_REPORTED || self.bytes >= MOST_BYTES {
            self.left_out += 1;
            return;
        }
        let path = &self.path;
        let error = if path.0.is_empty() { error.to_string() } else { format!("{path}: {error}") };
        self.bytes += error.len();
        self.errors.push(error);
    }
}

impl SchemaErrors {
    /// Wraps the errors into one, prefixed with the attempt that failed.
    pub(super) fn within(self, attempt: &str) -> Self {
        Self(vec![format!("{attempt}: {self}")])
    }
}

impl fmt::Display for SchemaErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => f.write_str(one),
            many => write!(f, "errors:\n  {}", many.join("\n  ")),
        }
    }
}

/// Returns about the number of bytes that an element has more than its item, because of defaults.
fn default_bytes(element: &Element, item: &Value) -> usize {
    let Element::Key(fields) = element else { return 0 };
    let absent = fields.iter().filter(|(name, _)| item.get(name).is_none());
    absent.map(|field| size_of_val(field) + field.0.len() + field.1.0.as_str().map_or(0, str::len)).sum()
}

fn scalar_error(scalar: Option<Scalar>, value: &Value) -> Option<String> {
    match scalar {
        Some(Scalar::Integer | Scalar::Number) if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", type_name(value)))
        }
        Some(Scalar::String | Scalar::Bytes | Scalar::Duration) if !value.is_string() => {
            let mut shown = String::new();
            exact(value, &mut shown);
            Some(format!("expected string, got &value.valueUnstructured{{Value:{shown}}}"))
        }
        Some(Scalar::Boolean) if !value.is_boolean() => {
            Some(format!("expected boolean, got {}", plain_holder(value)))
        }
        _ if value.is_object() || value.is_array() => {
            Some(format!("expected any scalar, got {}", plain_holder(value)))
        }
        _ => None,
    }
}

/// Returns the name of the Go type of a value.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn plain_holder(value: &Value) -> String {
    let mut shown = "&{".to_owned();
    plain(value, &mut shown);
    shown.push('}');
    shown
}

/// Formats a value like Go's `%v`.
fn plain(value: &Value, shown: &mut String) {
    match value {
        Value::Null => shown.push_str("<nil>"),
        Value::String(text) => shown.push_str(text),
        Value::Array(items) => {
            shown.push('[');
            for (index, item) in items.iter().enumerate() {
                shown.push_str(if index == 0 { "" } else { " " });
                plain(item, shown);
            }
            shown.push(']');
        }
        Value::Object(fields) => {
            shown.push_str("map[");
            for (index, (name, value)) in fields.iter().enumerate() {
                let _ = write!(shown, "{}{name}:", if index == 0 { "" } else { " " });
                plain(value, shown);
            }
            shown.push(']');
        }
        other => shown.push_str(&other.to_string()),
    }
}

/// Formats a value like Go's `%#v`.
fn exact(value: &Value, shown: &mut String) {
    match value {
        Value::Null => shown.push_str("interface {}(nil)"),
        Value::Array(items) => {
            shown.push_str("[]interface {}{");
            for (index, item) in items.iter().enumerate() {
                shown.push_str(if index == 0 { "" } else { ", " });
                exact(item, shown);
            }
            shown.push('}');
        }
        Value::Object(fields) => {
            shown.push_str("map[string]interface {}{");
            for (index, (name, value)) in fields.iter().enumerate() {
                let _ = write!(shown, "{}{name:?}:", if index == 0 { "" } else { ", " });
                exact(value, shown);
            }
            shown.push('}');
        }
        other => shown.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::schema::{List, Map, NoDefinitions};

    /// Returns the time to check equal lists with these keys.
    fn time(keys: Vec<String>, lists: usize, list: &Value) -> (f64, Result<(), SchemaErrors>) {
        let value = Schema::List(Arc::new(List { item: Schema::Any, topology: Topology::Map(keys) }));
        let schema = Schema::Map(Arc::new(Map { value, atomic: false }));
        let object = Value::Object((0..lists).map(|it| (it.to_string(), list.clone())).collect());
        let start = cpu_time::ThreadTime::now();
        let found = check(&object, &schema, &NoDefinitions, Duplicates::Refused);
        (start.elapsed().as_secs_f64(), found)
    }

    /// The names of all keys were formatted for each list, even if no more errors were reported.
    #[test]
    fn errors_that_are_not_reported_are_not_formatted() {
        let without_key = json!([{}]);
        let (small, _) = time(vec!["k".repeat(100_000)], 50, &without_key);
        let (large, found) = time(vec!["k".repeat(100_000)], 2_000, &without_key);
        let found = found.expect_err("the items have no key").to_string();
        assert!(found.ends_with("1989 more errors are not shown"), "{}", &found[found.len() - 100..]);
        assert!(large < 5.0 * small.max(0.002), "{small} s and {large} s");
    }

    /// The names of all keys were copied for each list.
    #[test]
    fn a_list_costs_nothing_for_the_names_of_its_keys() {
        let time = |size: usize| {
            let keys = (0..20).map(|it| it.to_string().repeat(size)).collect();
            time(keys, 2_000, &json!([])).0
        };
        let (short, long) = (time(1), time(50_000));
        assert!(long < 5.0 * short.max(0.002), "{short} s with short names, {long} s with long ones");
    }
}
