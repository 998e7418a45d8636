//! Validation of a value against a structural schema, with the messages of kube-apiserver.
//!
//! On an update, the old object is compared: an invalid value that has not changed passes
//! (ratcheting), if the old value can be identified. That is the case for fields of objects and
//! items of keyed lists, not for items of other lists.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display};

use serde_json::{Map as Object, Value};

use super::go_format::{quoted, quoted_list, shown};
use super::numbers::{self, Fault};
use super::structural::{Additional, Structural, Type};
use super::value_path::ValuePath;
use super::{formats, prune};
use crate::api_error::{FieldError, FieldErrorKind};
use crate::field_errors::FieldErrors;
use crate::schema::Topology;

/// The field of a problem that is not about one field.
pub(crate) const NOWHERE: &str = "<nil>";

/// The largest number of problems that are reported. kube-apiserver reports all and compares each
/// with all others: 2,000 invalid items in a list whose schema has an `enum` of 500 values exceed
/// its time limit of 34 seconds.
const MOST_REPORTED: usize = 1_000;

/// The size of all messages, in bytes, from which on no more problems are reported.
const MOST_BYTES: usize = 1024 * 1024;

/// Returns all problems of a whole object, by key. With `old`, unchanged invalid values pass.
pub fn validate(object: &Value, old: Option<&Value>, schema: &Structural) -> FieldErrors {
    problems(schema, object, old, NOWHERE)
}

/// Validates a part of an object like [`validate`], such as `status`: paths begin with `prefix`,
/// messages do not.
pub fn validate_part(value: &Value, old: Option<&Value>, schema: &Structural, prefix: &str) -> FieldErrors {
    problems(schema, value, old, prefix)
}

fn problems(schema: &Structural, value: &Value, old: Option<&Value>, prefix: &str) -> FieldErrors {
    let place = |found: Found| {
        let name = found.name.strip_prefix('.').unwrap_or(&found.name);
        let field = match (name.is_empty(), prefix == NOWHERE) {
            (true, _) => prefix.to_owned(),
            (false, true) => name.to_owned(),
            (false, false) => format!("{prefix}.{name}"),
        };
        FieldError { field, kind: found.kind, message: found.message }
    };
    check(schema, value, old, &ValuePath::Root(""), false).found.into_iter().map(place).collect()
}

/// One problem. `words` is the message of kube-apiserver's validator; equal ones are reported once.
struct Found {
    name: String,
    kind: FieldErrorKind,
    message: String,
    words: String,
}

/// The result of a check. `matches` counts the checks that passed: of several alternatives the
/// closest is reported.
#[derive(Default)]
struct Outcome {
    /// True if problems are not reported, only `failed` is set: alternatives are first compared,
    /// and then only the closest one is reported. A message costs as much as the path is long.
    quiet: bool,
    /// True if there was a problem.
    failed: bool,
    found: Vec<Found>,
    /// The words of everything in `found`.
    said: HashSet<String>,
    /// The number of bytes in `found`.
    bytes: usize,
    matches: usize,
}

impl Outcome {
    fn add(&mut self, found: Found) {
        if !self.is_full() && !self.said.contains(&found.words) {
            self.said.insert(found.words.clone());
            self.bytes += found.name.len() + found.message.len() + found.words.len();
            self.found.push(found);
        }
    }

    /// Adds a problem, which is only formatted if it is reported.
    fn add_with(&mut self, found: impl FnOnce() -> Found) {
        self.failed = true;
        if !self.quiet && !self.is_full() {
            self.add(found());
        }
    }

    /// Returns true if no more problems are reported, so that the rest can be skipped.
    fn is_full(&self) -> bool {
        self.found.len() >= MOST_REPORTED || self.bytes >= MOST_BYTES
    }

    fn forget_all(&mut self) {
        self.failed = false;
        self.found.clear();
        self.said.clear();
        self.bytes = 0;
    }

    fn merge(&mut self, other: Self) {
        self.failed |= other.failed;
        other.found.into_iter().for_each(|found| self.add(found));
        self.matches += other.matches;
    }

    fn invalid(&mut self, path: &ValuePath<'_>, value: &str, words: impl Display) {
        self.add_with(|| {
            let words = words.to_string();
            let message = format!("Invalid value: {value}: {words}");
            Found { name: path.to_string(), kind: FieldErrorKind::Invalid, message, words }
        });
    }

    fn wrong_type(&mut self, path: &ValuePath<'_>, expected: &str, actual: &str) {
        self.add_with(|| {
            let words = format!("{path} in body must be of type {expected}: {}", quoted(actual));
            let message = format!("Invalid value: {}: {words}", quoted(actual));
            Found { name: path.to_string(), kind: FieldErrorKind::TypeInvalid, message, words }
        });
    }

    /// Adds a problem that is not about one field.
    fn nowhere(&mut self, words: impl Display) {
        self.add_with(|| {
            let words = words.to_string();
            let message = format!("Invalid value: \"\": {words}");
            Found { name: String::new(), kind: FieldErrorKind::Invalid, message, words }
        });
    }

    fn other(&mut self, path: &ValuePath<'_>, kind: FieldErrorKind, detail: &str, words: impl Display) {
        self.add_with(|| {
            let message = FieldError::new("", kind, detail).message;
            Found { name: path.to_string(), kind, message, words: words.to_string() }
        });
    }
}

/// Checks a value. `old` is its former value, if known.
fn check(
    schema: &Structural,
    value: &Value,
    old: Option<&Value>,
    path: &ValuePath<'_>,
    quiet: bool,
) -> Outcome {
    let mut outcome = Outcome { quiet, ..Outcome::default() };
    if value.is_null() {
        check_null(schema, path, &mut outcome);
    } else {
        check_value(schema, value, old, path, &mut outcome);
    }
    if outcome.failed && old == Some(value) {
        outcome.forget_all();
    }
    outcome
}

fn check_null(schema: &Structural, path: &ValuePath<'_>, outcome: &mut Outcome) {
    if schema.types().is_empty() || schema.nullable {
        outcome.matches += 1;
    } else {
        outcome.wrong_type(path, &expected(schema), "null");
    }
    check_enum(schema, &Value::Null, path, outcome);
}

fn check_value(
    schema: &Structural,
    value: &Value,
    old: Option<&Value>,
    path: &ValuePath<'_>,
    outcome: &mut Outcome,
) {
    if !schema.types().is_empty() || schema.limits.format.is_some() {
        check_type(schema, value, path, outcome);
        outcome.matches += 1;
    }
    check_alternatives(schema, value, path, outcome);
    outcome.matches += 1;
    match value {
        Value::String(text) => check_text(schema, text, path, outcome),
        Value::Number(number) => {
            for fault in numbers::faults(number, schema, path) {
                match fault {
                    Fault::Plain(words) => outcome.nowhere(words),
                    Fault::OfValue(words) => outcome.invalid(path, &shown(value), words),
                    Fault::OfLimit { limit, words } => outcome.invalid(path, &limit, words),
                }
            }
            outcome.matches += 2;
        }
        Value::Array(items) => {
            check_items(schema, items, old, path, outcome);
            outcome.matches += 2;
        }
        _ => {}
    }
    check_enum(schema, value, path, outcome);
    outcome.matches += 1;
    if let Value::Object(object) = value {
        check_object(schema, object, old, path, outcome);
        outcome.matches += 1;
    }
    outcome.matches += 1;
}

fn check_type(schema: &Structural, value: &Value, path: &ValuePath<'_>, outcome: &mut Outcome) {
    let types = schema.types();
    let (actual, native) = match value {
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Number(number) if number.as_i64().is_some() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Null => ("null", ""),
    };
    let fits = types.iter().any(|kind| match (kind, value) {
        (Type::Number, Value::Number(_)) => true,
        (Type::Integer, Value::Number(number)) => numbers::is_whole(number),
        _ => kind.name() == actual,
    });
    if let Some(format) = &schema.limits.format {
        let wordy = matches!(value, Value::String(_) | Value::Array(_));
        if !wordy && !fits && native != format {
            return outcome.wrong_type(path, format, native);
        }
        if wordy && !types.iter().any(|kind| matches!(kind, Type::Number | Type::Integer)) {
            outcome.matches += 1;
            return;
        }
    }
    if fits {
        outcome.matches += 1;
    } else {
        outcome.wrong_type(path, &expected(schema), actual);
    }
}

fn expected(schema: &Structural) -> String {
    let names: Vec<&str> = schema.types().iter().map(|kind| kind.name()).collect();
    names.join(",")
}

fn check_alternatives(schema: &Structural, value: &Value, path: &ValuePath<'_>, outcome: &mut Outcome) {
    let limits = &schema.limits;
    if !limits.any_of.is_empty() {
        check_any_of(&limits.any_of, value, path, outcome);
    }
    if !limits.one_of.is_empty() {
        check_one_of(&limits.one_of, value, path, outcome);
    }
    if !limits.all_of.is_empty() {
        let mut passed = 0;
        for schema in &limits.all_of {
            let result = check(schema, value, None, path, outcome.quiet);
            passed += usize::from(!result.failed);
            outcome.merge(result);
        }
        if passed < limits.all_of.len() {
            let more = if passed == 0 { ". None validated" } else { "" };
            outcome.nowhere(format_args!("{} must validate all the schemas (allOf){more}", QuotedPath(path)));
        }
    }
    if let Some(not) = &limits.not
        && !check(not, value, None, path, true).failed
    {
        outcome.nowhere(format_args!("{} must not validate the schema (not)", QuotedPath(path)));
    }
    outcome.matches += 1;
}

/// The alternative that most checks of a value passed.
#[derive(Default)]
struct Closest<'a>(Option<(&'a Structural, Outcome)>);

impl<'a> Closest<'a> {
    fn consider(&mut self, schema: &'a Structural, result: Outcome) {
        if self.0.as_ref().is_none_or(|(_, closest)| result.matches > closest.matches) {
            self.0 = Some((schema, result));
        }
    }

    fn report(self, value: &Value, path: &ValuePath<'_>, outcome: &mut Outcome) {
        let Some((schema, result)) = self.0 else { return };
        outcome.merge(if outcome.quiet { result } else { check(schema, value, None, path, false) });
    }
}

/// A path that is formatted with quotes.
struct QuotedPath<'a>(&'a ValuePath<'a>);

impl Display for QuotedPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.0.to_string()))
    }
}

fn check_any_of(schemas: &[Structural], value: &Value, path: &ValuePath<'_>, outcome: &mut Outcome) {
    let mut closest = Closest::default();
    for schema in schemas {
        let result = check(schema, value, None, path, true);
        if !result.failed {
            return outcome.merge(result);
        }
        closest.consider(schema, result);
    }
    outcome.nowhere(format_args!("{} must validate at least one schema (anyOf)", QuotedPath(path)));
    closest.report(value, path, outcome);
}

fn check_one_of(schemas: &[Structural], value: &Value, path: &ValuePath<'_>, outcome: &mut Outcome) {
    let mut closest = Closest::default();
    let mut passed: Vec<Outcome> = Vec::new();
    for schema in schemas {
        let result = check(schema, value, None, path, true);
        if result.failed {
            closest.consider(schema, result);
        } else {
            passed.push(result);
        }
    }
    let words = "must validate one and only one schema (oneOf).";
    match passed.len() {
        0 => {
            outcome.nowhere(format_args!("{} {words} Found none valid", QuotedPath(path)));
            closest.report(value, path, outcome);
        }
        1 => passed.into_iter().for_each(|result| outcome.merge(result)),
        several => {
            outcome.nowhere(format_args!("{} {words} Found {several} valid alternatives", QuotedPath(path)));
        }
    }
}

fn check_text(schema: &Structural, text: &str, path: &ValuePath<'_>, outcome: &mut Outcome) {
    let limits = &schema.limits;
    let length = text.chars().count() as u64;
    outcome.matches += 1;
    if let Some(most) = limits.max_length.filter(|most| length > *most) {
        let words = format_args!("{path} in body should be at most {most} chars long");
        let detail = format!("may not be more than {most} bytes");
        outcome.other(path, FieldErrorKind::TooLong, &detail, words);
    } else if let Some(least) = limits.min_length.filter(|least| length < *least) {
        outcome.invalid(
            path,
            &quoted(text),
            format_args!("{path} in body should be at least {least} chars long"),
        );
    } else if let Some(pattern) = &limits.pattern
        && !pattern.is_match(text)
    {
        outcome.invalid(
            path,
            &quoted(text),
            format_args!("{path} in body should match '{}'", pattern.as_str()),
        );
    }
    if let Some(format) = limits.format.as_deref().filter(|format| formats::known(format)) {
        outcome.matches += 1;
        if !formats::fits(format, text) {
            outcome.wrong_type(path, format, text);
        }
    }
}

fn check_enum(schema: &Structural, value: &Value, path: &ValuePath<'_>, outcome: &mut Outcome) {
    let allowed = &schema.limits.one_of_values;
    // Null is never allowed by an enum, even if it lists null.
    if allowed.listed.is_empty() || (!value.is_null() && numbers::is_allowed(value, allowed)) {
        return;
    }
    outcome.add_with(|| {
        let listed = quoted_list(allowed.listed.iter().map(numbers::listed));
        let message = format!("Unsupported value: {}: supported values: {listed}", shown(value));
        let words = format!("{path} in body should be one of {listed}");
        Found { name: path.to_string(), kind: FieldErrorKind::NotSupported, message, words }
    });
}

fn check_items(
    schema: &Structural,
    items: &[Value],
    old: Option<&Value>,
    path: &ValuePath<'_>,
    outcome: &mut Outcome,
) {
    if let Some(schema_of_items) = schema.items.as_deref() {
        let former = FormerItems::new(schema, old);
        for (index, item) in items.iter().enumerate() {
            if outcome.is_full() {
                break;
            }
            let old = former.of(item);
            outcome.merge(check(schema_of_items, item, old, &ValuePath::Item(path, index), outcome.quiet));
        }
    }
    let size = items.len() as u64;
    if let Some(least) = schema.limits.min_items.filter(|least| size < *least) {
        outcome.invalid(
            path,
            &size.to_string(),
            format_args!("{path} in body should have at least {least} items"),
        );
    }
    if let Some(most) = schema.limits.max_items.filter(|most| size > *most) {
        too_many(path, size, most, format_args!("{path} in body should have at most {most} items"), outcome);
    }
}

/// The items of the old list by their keys, for keyed lists.
struct FormerItems<'a> {
    keys: &'a [String],
    /// By the JSON of the keys: a list has up to 200,000 items, so it is not searched for each.
    items: HashMap<String, &'a Value>,
}

impl<'a> FormerItems<'a> {
    fn new(schema: &'a Structural, old: Option<&'a Value>) -> Self {
        let (Some(Topology::Map(keys)), Some(Value::Array(old))) = (&schema.list, old) else {
            return Self { keys: &[], items: HashMap::new() };
        };
        let mut items = HashMap::with_capacity(old.len());
        for item in old.iter().filter(|it| it.is_object()) {
            // The first of several items with the same keys counts.
            items.entry(key_of(keys, item)).or_insert(item);
        }
        Self { keys, items }
    }

    fn of(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() { None } else { self.items.get(&key_of(self.keys, item)).copied() }
    }
}

fn key_of(keys: &[String], item: &Value) -> String {
    // An absent key differs from a null.
    keys.iter().map(|key| item.get(key).map_or_else(|| ";".to_owned(), |it| format!("{it};"))).collect()
}

fn too_many(path: &ValuePath<'_>, size: u64, most: u64, words: impl Display, outcome: &mut Outcome) {
    let plural = if most == 1 { "" } else { "s" };
    let detail = format!("{size}: must have at most {most} item{plural}");
    outcome.other(path, FieldErrorKind::TooMany, &detail, words);
}

fn check_object(
    schema: &Structural,
    object: &Object<String, Value>,
    old: Option<&Value>,
    path: &ValuePath<'_>,
    outcome: &mut Outcome,
) {
    let limits = &schema.limits;
    let size = object.len() as u64;
    if let Some(least) = limits.min_properties.filter(|least| size < *least) {
        outcome.invalid(
            path,
            &size.to_string(),
            format_args!("{path} in body should have at least {least} properties"),
        );
    }
    if let Some(most) = limits.max_properties.filter(|most| size > *most) {
        too_many(
            path,
            size,
            most,
            format_args!("{path} in body should have at most {most} properties"),
            outcome,
        );
    }
    for (key, value) in object {
        if outcome.is_full() {
            break;
        }
        // The type fields of the root are not compared with the old ones, since both objects were
        // converted to this version.
        let old = old.and_then(|old| old.get(key)).filter(|_| !path.is_empty() || !is_type_field(key));
        match (schema.properties.get(key), &schema.additional) {
            (Some(property), _) => {
                outcome.merge(check(property, value, old, &ValuePath::Field(path, key), outcome.quiet));
            }
            (None, Some(Additional::Of(schema))) => {
                outcome.merge(check(schema, value, old, &ValuePath::Entry(path, key), outcome.quiet))
            }
            (None, Some(Additional::Allowed(false))) => {
                outcome.invalid(
                    path,
                    &quoted(key),
                    format_args!("{path}.{key} in body is a forbidden property"),
                );
            }
            _ => {}
        }
    }
    for key in limits.required.iter().filter(|key| !object.contains_key(*key)) {
        if outcome.is_full() {
            break;
        }
        let path = ValuePath::Entry(path, key);
        outcome.other(&path, FieldErrorKind::Required, "", format_args!("{path} in body is required"));
    }
}

fn is_type_field(key: &str) -> bool {
    prune::is_meta(key) && key != "metadata"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_list_of_invalid_items_is_validated_quickly_and_reported_in_part() {
        let schema = Structural::parse(&json!({"type": "object", "properties": {
            "l": {"type": "array", "items": {"type": "integer"}}}}));
        let object = json!({"l": vec!["x"; 100_000]});
        // A comparison of each with all others took minutes.
        let problems = validate(&object, None, &schema);
        assert_eq!(problems.len(), MOST_REPORTED);
        assert_eq!(problems[999].field, "l[999]");
        assert!(validate(&object, Some(&object), &schema).is_empty(), "unchanged invalid items pass");
    }

    #[test]
    fn the_former_item_of_a_keyed_list_is_found_in_a_long_one() {
        let schema = Structural::parse(&json!({"type": "object", "properties": {"l": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"],
            "items": {"type": "object", "properties": {
                "k": {"type": "integer"}, "p": {"type": "string"}, "v": {"type": "string", "maxLength": 2}}}}}}));
        let list = |value: &str| (0..20_000).map(|it| json!({"k": it, "v": value})).collect::<Vec<_>>();
        let old = json!({ "l": list("long") });
        let mut new = old.clone();
        new["l"].as_array_mut().expect("a list").reverse();
        new["l"][7]["v"] = json!("longer");
        new["l"][8]["p"] = json!("another key");
        let wrong: Vec<String> = validate(&new, Some(&old), &schema).into_iter().map(|it| it.field).collect();
        assert_eq!(wrong, ["l[7].v", "l[8].v"], "only changed items are reported");
    }
}
