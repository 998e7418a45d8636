//! Validation of a value against a structural schema, with the messages of
//! k8s.io/apiextensions-apiserver v0.36.4 pkg/apiserver/validation/validation.go.
//!
//! On an update, the old object is compared: an invalid value that has not changed passes
//! (ratcheting), if the old value can be identified. That is the case for fields of objects and
//! items of keyed lists, not for items of other lists.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod budget;
mod outcome;
mod shallow;
mod former_items;

use std::cell::RefCell;
use std::fmt::Display;

use serde_json::{Map as Object, Value};

pub(crate) use self::budget::CheckBudget;
use self::budget::Checks;
use self::former_items::FormerItems;
use self::outcome::{Found, Mode, Outcome};
use self::shallow::{check_enum, check_null, check_number, check_text, check_type};
use super::go_format::Quoted;
use super::prune;
use super::structural::{Additional, Structural};
use super::value_path::ValuePath;
use crate::api_error::{FieldError, FieldErrorKind};
use crate::field_errors::FieldErrors;

/// The field of a problem that is not about one field.
pub(crate) const NOWHERE: &str = "<nil>";

/// The number of fields whose search takes as long as one check.
const FIELDS_PER_CHECK: usize = 2;

/// Returns all problems of a whole object, by key. With `old`, unchanged invalid values pass.
pub fn validate(object: &Value, old: Option<&Value>, schema: &Structural) -> FieldErrors {
    problems(schema, object, old, NOWHERE, &mut CheckBudget::of_change(object, old))
}

/// Validates a part of an object like [`validate`], such as `status`: paths begin with `prefix`,
/// messages do not.
pub fn validate_part(value: &Value, old: Option<&Value>, schema: &Structural, prefix: &str) -> FieldErrors {
    problems(schema, value, old, prefix, &mut CheckBudget::of_change(value, old))
}

/// Validates one of several values like [`validate_part`], such as the defaults of a definition,
/// which share a budget: one part of a schema can be checked for many of them.
pub(crate) fn validate_default(
    value: &Value,
    schema: &Structural,
    prefix: &str,
    budget: &mut CheckBudget,
) -> FieldErrors {
    problems(schema, value, None, prefix, budget)
}

fn problems(
    schema: &Structural,
    value: &Value,
    old: Option<&Value>,
    prefix: &str,
    budget: &mut CheckBudget,
) -> FieldErrors {
    let place = |found: Found| {
        let name = found.name.strip_prefix('.').unwrap_or(&found.name);
        let field = match (name.is_empty(), prefix == NOWHERE) {
            (true, _) => prefix.to_owned(),
            (false, true) => name.to_owned(),
            (false, false) => format!("{prefix}.{name}"),
        };
        FieldError { field, kind: found.kind, message: found.message }
    };
    let root = ValuePath::Root("");
    if old.is_some() {
        // Most updates leave no problem, even if many unchanged values are invalid. Each message
        // about those would be dropped, and may be as long as an enum.
        let checks = Checks::within(budget);
        let result = check(schema, value, old, &root, Mode { report: None, checks: &checks });
        if !result.failed && !checks.are_spent() {
            return FieldErrors::new();
        }
    }
    let (checks, report) = (Checks::within(budget), RefCell::default());
    check(schema, value, old, &root, Mode { report: Some(&report), checks: &checks });
    let (rest, ended_at) = checks.finish();
    *budget = rest;
    match ended_at {
        None => report.into_inner().found.into_iter().map(place).collect(),
        Some(name) => {
            let detail = "the alternatives and patterns in its schema take too many checks";
            let message = FieldError::new("", FieldErrorKind::TooMany, detail).message;
            let words = String::new();
            [place(Found { name, kind: FieldErrorKind::TooMany, message, words })].into_iter().collect()
        }
    }
}

/// Checks a value. `old` is its former value, if known.
fn check<'a>(
    schema: &Structural,
    value: &Value,
    old: Option<&Value>,
    path: &ValuePath<'_>,
    mode: Mode<'a>,
) -> Outcome<'a> {
    let mut outcome = Outcome::new(mode);
    // With messages, an unchanged value is skipped before any is formatted. Without them, a value
    // is compared only if it is invalid: a comparison at each level costs more than most checks.
    if !mode.is_quiet() && (mode.has_full_report() || old == Some(value)) {
        return outcome;
    }
    if !outcome.take_checks(1, path) {
        return outcome;
    }
    if value.is_null() {
        check_null(schema, path, &mut outcome);
    } else {
        check_value(schema, value, old, path, &mut outcome);
    }
    if mode.is_quiet() && outcome.failed && old == Some(value) {
        outcome.failed = false;
    }
    outcome
}

fn check_value(
    schema: &Structural,
    value: &Value,
    old: Option<&Value>,
    path: &ValuePath<'_>,
    outcome: &mut Outcome<'_>,
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
            check_number(schema, number, path, outcome);
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

fn check_alternatives(schema: &Structural, value: &Value, path: &ValuePath<'_>, outcome: &mut Outcome<'_>) {
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
            let result = check(schema, value, None, path, outcome.mode);
            passed += usize::from(!result.failed);
            outcome.merge(&result);
        }
        if passed < limits.all_of.len() {
            let more = if passed == 0 { ". None validated" } else { "" };
            outcome.nowhere(format_args!("{} must validate all the schemas (allOf){more}", path.quoted()));
        }
    }
    if let Some(not) = &limits.not
        && !check(not, value, None, path, outcome.mode.quietly()).failed
    {
        outcome.nowhere(format_args!("{} must not validate the schema (not)", path.quoted()));
    }
    outcome.matches += 1;
}

/// The alternative that most checks of a value passed.
#[derive(Default)]
struct Closest<'a, 'c>(Option<(&'a Structural, Outcome<'c>)>);

impl<'a, 'c> Closest<'a, 'c> {
    fn consider(&mut self, schema: &'a Structural, result: Outcome<'c>) {
        if self.0.as_ref().is_none_or(|(_, closest)| result.matches > closest.matches) {
            self.0 = Some((schema, result));
        }
    }

    fn report(self, value: &Value, path: &ValuePath<'_>, outcome: &mut Outcome<'c>) {
        let Some((schema, result)) = self.0 else { return };
        let mode = outcome.mode;
        outcome.merge(&if mode.is_quiet() { result } else { check(schema, value, None, path, mode) });
    }
}

fn check_any_of(schemas: &[Structural], value: &Value, path: &ValuePath<'_>, outcome: &mut Outcome<'_>) {
    let mut closest = Closest::default();
    for schema in schemas {
        let result = check(schema, value, None, path, outcome.mode.quietly());
        if !result.failed {
            return outcome.merge(&result);
        }
        closest.consider(schema, result);
    }
    outcome.nowhere(format_args!("{} must validate at least one schema (anyOf)", path.quoted()));
    closest.report(value, path, outcome);
}

fn check_one_of(schemas: &[Structural], value: &Value, path: &ValuePath<'_>, outcome: &mut Outcome<'_>) {
    let mut closest = Closest::default();
    let (mut passed, mut last_passed) = (0_usize, None);
    for schema in schemas {
        let result = check(schema, value, None, path, outcome.mode.quietly());
        if result.failed {
            closest.consider(schema, result);
        } else {
            passed += 1;
            last_passed = Some(result);
        }
    }
    let words = "must validate one and only one schema (oneOf).";
    match passed {
        0 => {
            outcome.nowhere(format_args!("{} {words} Found none valid", path.quoted()));
            closest.report(value, path, outcome);
        }
        1 => last_passed.iter().for_each(|result| outcome.merge(result)),
        several => {
            outcome.nowhere(format_args!("{} {words} Found {several} valid alternatives", path.quoted()));
        }
    }
}

fn check_items(
    schema: &Structural,
    items: &[Value],
    old: Option<&Value>,
    path: &ValuePath<'_>,
    outcome: &mut Outcome<'_>,
) {
    if let Some(schema_of_items) = schema.items.as_deref() {
        // Several items with the same keys have the same old item, so the old lists in it are
        // searched once for each of them.
        let old = old.filter(|_| !items.is_empty());
        let former = FormerItems::new(schema, old, |count| outcome.take_checks(count, path));
        for (index, item) in items.iter().enumerate() {
            if outcome.is_full() {
                break;
            }
            let old = former.of(item);
            outcome.merge(&check(schema_of_items, item, old, &ValuePath::Item(path, index), outcome.mode));
        }
    }
    let size = items.len() as u64;
    if let Some(least) = schema.limits.min_items.filter(|least| size < *least) {
        outcome.invalid(path, size, format_args!("{path} in body should have at least {least} items"));
    }
    if let Some(most) = schema.limits.max_items.filter(|most| size > *most) {
        too_many(path, size, most, format_args!("{path} in body should have at most {most} items"), outcome);
    }
}

fn too_many(path: &ValuePath<'_>, size: u64, most: u64, words: impl Display, outcome: &mut Outcome<'_>) {
    let plural = if most == 1 { "" } else { "s" };
    let detail = format_args!("{size}: must have at most {most} item{plural}");
    outcome.other(path, FieldErrorKind::TooMany, detail, words);
}

fn check_object(
    schema: &Structural,
    object: &Object<String, Value>,
    old: Option<&Value>,
    path: &ValuePath<'_>,
    outcome: &mut Outcome<'_>,
) {
    let limits = &schema.limits;
    let size = object.len() as u64;
    if let Some(least) = limits.min_properties.filter(|least| size < *least) {
        outcome.invalid(path, size, format_args!("{path} in body should have at least {least} properties"));
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
    // Other fields matter only if they are restricted. An alternative may name none at all, and is
    // then compared in no time with an object that has many.
    let restricts_others = !matches!(schema.additional, None | Some(Additional::Allowed(true)));
    let visits_all = restricts_others || object.len() <= schema.properties.len();
    let visited = if visits_all { object.len() } else { schema.properties.len() };
    if !outcome.take_checks(visited.div_ceil(FIELDS_PER_CHECK), path) {
        return;
    }
    if visits_all {
        check_fields(schema, object.iter(), old, path, outcome);
    } else {
        // Both are sorted, so the order is the same.
        let known = schema.properties.keys().filter_map(|key| object.get_key_value(key));
        check_fields(schema, known, old, path, outcome);
    }
    // Absent fields end the search or are reported, so at most the fields of the object are found.
    // Without alternatives, that is less than the object is worth.
    let searched = limits.required.len().min(object.len());
    if !outcome.take_checks(searched.div_ceil(FIELDS_PER_CHECK), path) {
        return;
    }
    for key in limits.required.iter().filter(|key| !object.contains_key(*key)) {
        // One absent field is as good as all of them if none is reported.
        if outcome.is_full() || (outcome.mode.is_quiet() && outcome.failed) {
            break;
        }
        let path = ValuePath::Entry(path, key);
        outcome.other(&path, FieldErrorKind::Required, "", format_args!("{path} in body is required"));
    }
}

fn check_fields<'v>(
    schema: &Structural,
    fields: impl Iterator<Item = (&'v String, &'v Value)>,
    old: Option<&Value>,
    path: &ValuePath<'_>,
    outcome: &mut Outcome<'_>,
) {
    for (key, value) in fields {
        if outcome.is_full() {
            break;
        }
        // The type fields of the root are not compared with the old ones, since both objects were
        // converted to this version.
        let old = old.and_then(|old| old.get(key)).filter(|_| !path.is_empty() || !is_type_field(key));
        match (schema.properties.get(key), &schema.additional) {
            (Some(property), _) => {
                outcome.merge(&check(property, value, old, &ValuePath::Field(path, key), outcome.mode));
            }
            (None, Some(Additional::Of(schema))) => {
                outcome.merge(&check(schema, value, old, &ValuePath::Entry(path, key), outcome.mode));
            }
            (None, Some(Additional::Allowed(false))) => {
                let words = format_args!("{path}.{key} in body is a forbidden property");
                outcome.invalid(path, Quoted(key), words);
            }
            _ => {}
        }
    }
}

fn is_type_field(key: &str) -> bool {
    prune::is_meta(key) && key != "metadata"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::outcome::{MOST_BYTES, MOST_REPORTED};
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
    fn a_value_with_too_many_alternatives_is_rejected_with_the_field() {
        // Only the last alternative is fulfilled.
        let schema = |count: usize| {
            let any: Vec<_> = (0..count).rev().map(|least| json!({"minimum": least})).collect();
            let items = json!({"type": "integer", "anyOf": any});
            Structural::parse(
                &json!({"type": "object", "properties": {"l": {"type": "array", "items": items}}}),
            )
        };
        let object = json!({"l": vec![0; 1_000]});
        assert!(validate(&object, None, &schema(100)).is_empty());
        let problems = validate(&object, None, &schema(1_000));
        let [problem] = &*problems else { panic!("{problems:?}") };
        assert!(problem.field.starts_with("l["), "{problem:?}");
        assert!(
            problem.message.ends_with("the alternatives and patterns in its schema take too many checks")
        );
    }

    /// Each entry has the same message, which was formatted with the whole path and then dropped.
    #[test]
    fn the_same_problem_in_each_entry_of_all_of_is_reported_once_and_in_little_time() {
        for length in [MOST_BYTES / 4, 2 * MOST_BYTES] {
            let schema = Structural::parse(&json!({"type": "object", "additionalProperties": {
                "type": "integer", "minimum": 7, "allOf": vec![json!({"not": {}}); 20_000]}}));
            let object = json!({ "k".repeat(length): 5 });
            let start = cpu_time::ThreadTime::now();
            let problems = validate(&object, None, &schema);
            assert!(problems[0].message.ends_with("must not validate the schema (not)"));
            assert_eq!(problems.len(), 1, "no more are formatted");
            assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
        }
    }

    #[test]
    fn repeated_problems_leave_room_for_others() {
        let schema = Structural::parse(&json!({"type": "object", "properties": {
            "n": {"type": "integer", "minimum": 7, "allOf": vec![json!({"not": {}}); 1_000]}}}));
        let found: Vec<String> =
            validate(&json!({"n": 5}), None, &schema).into_iter().map(|it| it.message).collect();
        let invalid = |value: &str, words: &str| format!("Invalid value: {value}: {words}");
        let expected = [
            invalid("\"\"", "\"n\" must not validate the schema (not)"),
            invalid("\"\"", "\"n\" must validate all the schemas (allOf). None validated"),
            invalid("5", "n in body should be greater than or equal to 7"),
        ];
        assert_eq!(found, expected);
    }

    /// Each alternative visited all fields of the object for a single check.
    #[test]
    fn alternatives_for_an_object_with_many_fields_are_counted_by_the_fields_they_visit() {
        let object: Object<String, Value> = (0..50_000).map(|it| (format!("k{it}"), json!(0))).collect();
        let object = Value::Object(object);
        let validate = |alternative: Value| {
            let schema = Structural::parse(&json!({"type": "object",
                "x-kubernetes-preserve-unknown-fields": true, "oneOf": vec![alternative; 2_000]}));
            let start = cpu_time::ThreadTime::now();
            let problems: Vec<String> =
                validate(&object, None, &schema).into_iter().map(|it| it.message).collect();
            assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
            problems.concat()
        };
        for (alternative, found) in [
            (json!({}), "Found 2000 valid alternatives"),
            (json!({"additionalProperties": true}), "Found 2000 valid alternatives"),
            (json!({"properties": {"k7": {"minimum": 0}, "x": {}}}), "Found 2000 valid alternatives"),
            (json!({"additionalProperties": false}), "take too many checks"),
        ] {
            let problems = validate(alternative.clone());
            assert!(problems.ends_with(found), "{alternative}: {problems}");
        }
    }

    /// Fewer than eight fields were visited and searched for nothing.
    #[test]
    fn alternatives_for_objects_with_few_fields_are_counted() {
        let schema = |count: usize| {
            let mut any = vec![json!({"properties": {"x": {}}, "required": ["a", "b", "c", "x"]}); count];
            // Only the last alternative is fulfilled.
            any.push(json!({}));
            let items = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "anyOf": any});
            Structural::parse(&json!({"type": "array", "items": items}))
        };
        let object = json!({"a": 0, "b": 0, "c": 0, "d": 0, "e": 0, "f": 0, "g": 0});
        let list = json!(vec![object; 1_000]);
        let ends_early = |count| validate(&list, None, &schema(count)).len() == 1;
        assert!(!ends_early(230), "each costs 4 checks, of 100 for each of 8 values, and of 200,000");
        assert!(ends_early(270));
    }

    #[test]
    fn fields_are_reported_in_the_same_order_for_any_number_of_properties() {
        let found = |properties: &[&str]| {
            let properties: Object<String, Value> =
                properties.iter().map(|it| ((*it).to_owned(), json!({"type": "integer"}))).collect();
            let schema = Structural::parse(&json!({"type": "object", "properties": properties}));
            let object = json!({"d": "", "b": "", "a": "", "c": ""});
            validate(&object, None, &schema).into_iter().map(|it| it.field).collect::<Vec<_>>()
        };
        assert_eq!(found(&["d", "x", "b"]), ["b", "d"]);
        assert_eq!(found(&["x", "d", "b", "y", "z"]), ["b", "d"]);
    }

    #[test]
    fn a_text_whose_pattern_takes_too_many_steps_is_rejected_with_the_field() {
        let schema = Structural::parse(&json!({"type": "object", "properties": {
            "s": {"type": "string", "pattern": "(a|b)*a(a|b){1000}(a|b){1000}c"}}}));
        let mut bits = 1_u32;
        let text: String = std::iter::repeat_with(|| {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if bits >> 31 == 0 { 'a' } else { 'b' }
        })
        .take(1 << 18)
        .collect();
        let problems = validate(&json!({ "s": text }), None, &schema);
        let [problem] = &*problems else { panic!("{} problems", problems.len()) };
        assert_eq!(problem.field, "s");
        assert!(problem.message.ends_with("patterns in its schema take too many checks"));
        assert!(validate(&json!({ "s": "abc" }), None, &schema).len() == 1, "it does not match");
    }

    /// Each problem of an unchanged value was formatted and then dropped: entries times enum size.
    #[test]
    fn unchanged_invalid_values_pass_next_to_changed_ones() {
        let schema = Structural::parse(&json!({"type": "object", "properties": {
            "m": {"type": "object", "additionalProperties": {"type": "string", "enum": ["a", "b"]}},
            "l": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            "o": {"type": "object", "required": ["r"], "properties": {"n": {"type": "integer", "minimum": 3}}},
            "any": {"type": "object", "anyOf": [{"required": ["r"]}, {"required": ["s"]}]}}}));
        let old = json!({"m": {"k": "x", "n": "a"}, "l": ["x"], "o": {"n": 1}, "any": {}});
        let wrong = |change: fn(&mut Value)| {
            let mut new = old.clone();
            change(&mut new);
            let problems = validate(&new, Some(&old), &schema);
            problems.into_iter().map(|it| it.field).collect::<Vec<String>>()
        };
        assert_eq!(wrong(|_| {}), [""; 0]);
        assert_eq!(wrong(|it| it["m"]["n"] = json!("b")), [""; 0]);
        assert_eq!(wrong(|it| it["m"]["n"] = json!("c")), ["m.n"]);
        assert_eq!(wrong(|it| it["l"] = json!(["x", "a"])), ["l[0]"], "items of this list have no keys");
        assert_eq!(wrong(|it| it["o"]["n"] = json!(2)), ["o.n", "o.r"]);
        assert_eq!(wrong(|it| it["o"]["x"] = json!(2)), ["o.r"]);
        assert_eq!(wrong(|it| it["any"]["x"] = json!(2)), [NOWHERE, "any.r"]);
    }

    /// The old list was searched for each of the new ones, for no checks at all.
    #[test]
    fn items_with_the_same_keys_as_an_old_one_with_long_lists_are_counted() {
        let keyed = |items: Value| {
            json!({"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"], "items": items})
        };
        let inner = json!({"type": "object", "properties": {"k": {"type": "string"}}});
        let outer = json!({"type": "object", "properties": {"k": {"type": "string"}, "l": keyed(inner)}});
        let schema = Structural::parse(&json!({"type": "object", "properties": {"a": keyed(outer)}}));
        let many: Vec<Value> = (0..1_000).map(|it| json!({ "k": it.to_string() })).collect();
        let long = vec![json!({ "k": "x".repeat(1 << 17) })];
        for inner in [many, long] {
            let old = json!({"a": [{"k": "", "l": inner}]});
            let change = |count: usize, list: Value| json!({"a": vec![json!({"k": "", "l": list}); count]});
            let found =
                |new: Value| validate(&new, Some(&old), &schema).into_iter().map(|it| it.message).next();
            assert_eq!(found(change(1_500, json!([]))), None, "an empty list has no former items");
            assert_eq!(found(change(50, json!([{"k": ""}]))), None);
            let message = found(change(1_500, json!([{"k": ""}]))).unwrap_or_default();
            assert!(message.ends_with("take too many checks"), "{message}");
        }
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
