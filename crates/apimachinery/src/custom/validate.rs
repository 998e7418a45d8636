//! Validation of a value against a structural schema, with the messages of kube-apiserver.
//!
//! On an update, the old object is compared: an invalid value that has not changed passes
//! (ratcheting), if the old value can be identified. That is the case for fields of objects and
//! items of keyed lists, not for items of other lists.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display, Write as _};

use serde_json::{Map as Object, Number, Value};

use super::go_format::{quoted, quoted_list, shown, shown_number};
use super::numbers::{self, Fault};
use super::structural::{Additional, Structural, Type};
use super::value_path::ValuePath;
use super::{formats, prune};
use crate::api_error::{FieldError, FieldErrorKind};
use crate::field_errors::FieldErrors;
use crate::schema::Topology;
use crate::weight;

/// The field of a problem that is not about one field.
pub(crate) const NOWHERE: &str = "<nil>";

/// The largest number of problems that are reported. kube-apiserver reports all and compares each
/// with all others: 2,000 invalid items in a list whose schema has an `enum` of 500 values exceed
/// its time limit of 34 seconds.
const MOST_REPORTED: usize = 1_000;

/// The size of all messages, in bytes, from which on no more problems are reported.
const MOST_BYTES: usize = 1024 * 1024;

/// The size of all repeated messages, in bytes, from which on no more problems are reported. Each is
/// formatted before it is known to be a repeat, and `allOf` can have the same problem in each entry.
const MOST_REPEATED_BYTES: usize = 4 * 1024 * 1024;

/// The number of checks that any value may take.
const FREE_CHECKS: usize = 200_000;

/// The number of checks for each part of a value. Without alternatives in the schema, each part is
/// checked once; with them, once for each alternative.
const CHECKS_PER_PART: usize = 100;

/// The number of steps of a regular expression that take as long as one check. The patterns of one
/// definition take at most 131,072 checks to compile, less than [`FREE_CHECKS`], so the first object
/// that needs them can afford that.
const STEPS_PER_CHECK: usize = 8;

/// The number of fields whose search takes as long as one check.
const FIELDS_PER_CHECK: usize = 8;

/// The largest number of checks. kube-apiserver has no limit.
const MOST_CHECKS: usize = 20_000_000;

/// Returns all problems of a whole object, by key. With `old`, unchanged invalid values pass.
pub fn validate(object: &Value, old: Option<&Value>, schema: &Structural) -> FieldErrors {
    problems(schema, object, old, NOWHERE, &mut CheckBudget::of(object))
}

/// Validates a part of an object like [`validate`], such as `status`: paths begin with `prefix`,
/// messages do not.
pub fn validate_part(value: &Value, old: Option<&Value>, schema: &Structural, prefix: &str) -> FieldErrors {
    problems(schema, value, old, prefix, &mut CheckBudget::of(value))
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

/// The number of checks that may still be made of a value, or of several together.
#[derive(Debug)]
pub(crate) struct CheckBudget(usize);

impl CheckBudget {
    /// Returns the budget for the parts of a value.
    pub(crate) fn of(value: &Value) -> Self {
        let number = weight::of(value).saturating_mul(CHECKS_PER_PART).saturating_add(FREE_CHECKS);
        Self(number.min(MOST_CHECKS))
    }

    /// Returns true if nothing can be checked any more.
    pub(crate) fn is_spent(&self) -> bool {
        self.0 == 0
    }
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
    budget.0 = checks.left.get();
    match checks.ended_at.into_inner() {
        None => report.into_inner().found.into_iter().map(place).collect(),
        Some(name) => {
            let detail = "the alternatives and patterns in its schema take too many checks";
            let message = FieldError::new("", FieldErrorKind::TooMany, detail).message;
            let words = String::new();
            [place(Found { name, kind: FieldErrorKind::TooMany, message, words })].into_iter().collect()
        }
    }
}

/// The number of checks that may still be made, shared by all parts of a value. The cost of
/// alternatives is the product of their number and the size of the value.
struct Checks {
    left: Cell<usize>,
    /// The path of the value whose check exceeded the number.
    ended_at: RefCell<Option<String>>,
}

impl Checks {
    fn within(budget: &CheckBudget) -> Self {
        Self { left: Cell::new(budget.0), ended_at: RefCell::new(None) }
    }

    /// Returns true if no more checks may be made, so that the rest can be skipped.
    fn are_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// Takes a number of checks of the value at a path. Returns false if they are spent.
    fn take(&self, count: usize, path: &ValuePath<'_>) -> bool {
        let left = self.left.get().saturating_sub(count);
        self.left.set(left);
        if left == 0 {
            self.ended_at.borrow_mut().get_or_insert_with(|| path.to_string());
        }
        left > 0
    }
}

/// The way in which a value is checked.
#[derive(Clone, Copy)]
struct Mode<'a> {
    /// The problems so far. `None` if problems are not reported, only [`Outcome::failed`] is set:
    /// alternatives are first compared, and then only the closest one is reported; and an update is
    /// checked once more if it fails. A message costs as much as the path is long.
    report: Option<&'a RefCell<Report>>,
    checks: &'a Checks,
}

impl Mode<'_> {
    fn quietly(self) -> Self {
        Self { report: None, ..self }
    }

    fn is_quiet(&self) -> bool {
        self.report.is_none()
    }

    /// Returns true if no more problems are reported, so that the rest can be skipped.
    fn is_full(&self) -> bool {
        self.checks.are_spent() || self.has_full_report()
    }

    fn has_full_report(&self) -> bool {
        self.report.is_some_and(|report| report.borrow().is_full())
    }
}

/// One problem. `words` is the message of kube-apiserver's validator; equal ones are reported once.
struct Found {
    name: String,
    kind: FieldErrorKind,
    message: String,
    words: String,
}

/// The problems of a value and of all parts of it, which share the limits of their number and size.
#[derive(Default)]
struct Report {
    found: Vec<Found>,
    /// The words of everything in `found`.
    said: HashSet<String>,
    /// The number of bytes in `found`.
    bytes: usize,
    /// The number of bytes of the problems that were left out because they repeat another.
    repeated_bytes: usize,
}

impl Report {
    fn add(&mut self, found: Found) {
        let bytes = found.name.len() + found.message.len() + found.words.len();
        if self.said.contains(&found.words) {
            self.repeated_bytes += bytes;
        } else {
            self.said.insert(found.words.clone());
            self.bytes += bytes;
            self.found.push(found);
        }
    }

    fn is_full(&self) -> bool {
        self.found.len() >= MOST_REPORTED
            || self.bytes >= MOST_BYTES
            || self.repeated_bytes >= MOST_REPEATED_BYTES
    }
}

/// The result of a check. `matches` counts the checks that passed: of several alternatives the
/// closest is reported.
struct Outcome<'a> {
    mode: Mode<'a>,
    /// True if there was a problem.
    failed: bool,
    matches: usize,
}

impl<'a> Outcome<'a> {
    fn new(mode: Mode<'a>) -> Self {
        Self { mode, failed: false, matches: 0 }
    }

    /// Takes a number of checks, or fails if they are spent.
    fn take_checks(&mut self, count: usize, path: &ValuePath<'_>) -> bool {
        let taken = self.mode.checks.take(count, path);
        self.failed |= !taken;
        taken
    }

    /// Adds a problem, which is only formatted if it is reported.
    fn add_with(&mut self, found: impl FnOnce() -> Found) {
        self.failed = true;
        if let Some(report) = self.mode.report.filter(|_| !self.mode.is_full()) {
            report.borrow_mut().add(found());
        }
    }

    /// Returns true if no more problems are reported, so that the rest can be skipped.
    fn is_full(&self) -> bool {
        self.mode.is_full()
    }

    fn merge(&mut self, other: &Self) {
        self.failed |= other.failed;
        self.matches += other.matches;
    }

    fn invalid(&mut self, path: &ValuePath<'_>, value: impl Display, words: impl Display) {
        self.add_with(|| {
            let words = words.to_string();
            let message = format!("Invalid value: {value}: {words}");
            Found { name: path.to_string(), kind: FieldErrorKind::Invalid, message, words }
        });
    }

    fn wrong_type(&mut self, path: &ValuePath<'_>, expected: impl Display, actual: &str) {
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

    fn other(
        &mut self,
        path: &ValuePath<'_>,
        kind: FieldErrorKind,
        detail: impl Display,
        words: impl Display,
    ) {
        self.add_with(|| {
            let message = FieldError::new("", kind, &detail.to_string()).message;
            Found { name: path.to_string(), kind, message, words: words.to_string() }
        });
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
    // With messages, an unchanged value is skipped before any is formatted. Without them, a value is
    // compared only if it is invalid: a comparison at each level costs more than most checks.
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

fn check_null(schema: &Structural, path: &ValuePath<'_>, outcome: &mut Outcome<'_>) {
    if schema.types().is_empty() || schema.nullable {
        outcome.matches += 1;
    } else {
        outcome.wrong_type(path, Expected(schema), "null");
    }
    check_enum(schema, &Value::Null, path, outcome);
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

fn check_number(schema: &Structural, number: &Number, path: &ValuePath<'_>, outcome: &mut Outcome<'_>) {
    // A message that is not reported is not formatted: the path may be long.
    if outcome.mode.is_quiet() || outcome.is_full() {
        outcome.failed |= numbers::has_fault(number, schema);
        return;
    }
    for fault in numbers::faults(number, schema, path) {
        match fault {
            Fault::Plain(words) => outcome.nowhere(words),
            Fault::OfValue(words) => outcome.invalid(path, shown_number(number), words),
            Fault::OfLimit { limit, words } => outcome.invalid(path, limit, words),
        }
    }
}

fn check_type(schema: &Structural, value: &Value, path: &ValuePath<'_>, outcome: &mut Outcome<'_>) {
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
        outcome.wrong_type(path, Expected(schema), actual);
    }
}

/// The types that a schema allows, which are formatted with commas.
struct Expected<'a>(&'a Structural);

impl Display for Expected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.types().iter().map(|kind| kind.name()).collect();
        f.write_str(&names.join(","))
    }
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
            outcome.nowhere(format_args!("{} must validate all the schemas (allOf){more}", QuotedPath(path)));
        }
    }
    if let Some(not) = &limits.not
        && !check(not, value, None, path, outcome.mode.quietly()).failed
    {
        outcome.nowhere(format_args!("{} must not validate the schema (not)", QuotedPath(path)));
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

/// A text that is formatted with quotes.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(self.0))
    }
}

/// A path that is formatted with quotes.
struct QuotedPath<'a>(&'a ValuePath<'a>);

impl Display for QuotedPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.0.to_string()))
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
    outcome.nowhere(format_args!("{} must validate at least one schema (anyOf)", QuotedPath(path)));
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
            outcome.nowhere(format_args!("{} {words} Found none valid", QuotedPath(path)));
            closest.report(value, path, outcome);
        }
        1 => last_passed.iter().for_each(|result| outcome.merge(result)),
        several => {
            outcome.nowhere(format_args!("{} {words} Found {several} valid alternatives", QuotedPath(path)));
        }
    }
}

fn check_text(schema: &Structural, text: &str, path: &ValuePath<'_>, outcome: &mut Outcome<'_>) {
    let limits = &schema.limits;
    let is_measured = limits.max_length.is_some() || limits.min_length.is_some();
    // An expression takes more time for each byte.
    let of_pattern = if limits.pattern.is_some() { 8 } else { 1 };
    let of_format = limits.format.as_deref().map_or(1, |format| formats::cost_factor(format, text));
    let cost = weight::of_text(text).saturating_mul(of_pattern.max(of_format));
    if (is_measured || limits.pattern.is_some() || limits.format.is_some())
        && !outcome.take_checks(cost, path)
    {
        return;
    }
    let length = if is_measured { text.chars().count() as u64 } else { 0 };
    outcome.matches += 1;
    if let Some(most) = limits.max_length.filter(|most| length > *most) {
        let words = format_args!("{path} in body should be at most {most} chars long");
        let detail = format_args!("may not be more than {most} bytes");
        outcome.other(path, FieldErrorKind::TooLong, detail, words);
    } else if let Some(least) = limits.min_length.filter(|least| length < *least) {
        let words = format_args!("{path} in body should be at least {least} chars long");
        outcome.invalid(path, Quoted(text), words);
    } else if let Some(pattern) = &limits.pattern {
        let afford = |steps: usize| outcome.take_checks(steps / STEPS_PER_CHECK, path);
        match pattern.is_match_within(text, afford) {
            Some(true) => {}
            Some(false) => {
                let words = format_args!("{path} in body should match '{}'", pattern.as_str());
                outcome.invalid(path, Quoted(text), words);
            }
            None => return,
        }
    }
    if let Some(format) = limits.format.as_deref().filter(|format| formats::known(format)) {
        outcome.matches += 1;
        if !formats::fits(format, text) {
            outcome.wrong_type(path, format, text);
        }
    }
}

fn check_enum(schema: &Structural, value: &Value, path: &ValuePath<'_>, outcome: &mut Outcome<'_>) {
    let Some(allowed) = &schema.limits.one_of_values else { return };
    if !outcome.take_checks(weight::of(value), path) {
        return;
    }
    // Null is never allowed by an enum, even if it lists null.
    if !value.is_null() && numbers::is_allowed(value, allowed) {
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
    outcome: &mut Outcome<'_>,
) {
    if let Some(schema_of_items) = schema.items.as_deref() {
        let former = FormerItems::new(schema, old);
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

/// The items of the old list by their keys, for keyed lists.
struct FormerItems<'a> {
    keys: &'a [String],
    /// By [`key_of`]: a list has up to 200,000 items, so it is not searched for each.
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

/// Returns the JSON of the keys that an item has, each with its index. An absent key differs from a
/// null, and takes no memory.
fn key_of(keys: &[String], item: &Value) -> String {
    let mut text = String::new();
    for (index, key) in keys.iter().enumerate() {
        if let Some(value) = item.get(key) {
            // Writing to a string cannot fail.
            _ = write!(text, "{index}:{value};");
        }
    }
    text
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
        assert!(!ends_early(300), "each costs 3 checks, of 100 for each of 8 values, and of 200,000");
        assert!(ends_early(400));
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

    #[test]
    fn the_keys_of_an_item_are_told_apart_by_their_index() {
        let keys = ["a", "b", "c"].map(str::to_owned);
        let items =
            [json!({}), json!({"a": 1}), json!({"b": 1}), json!({"b": null}), json!({"a": 1, "c": 1})];
        let found: HashSet<String> = items.iter().map(|item| key_of(&keys, item)).collect();
        assert_eq!(found.len(), items.len(), "{found:?}");
        assert_eq!(key_of(&keys, &json!({"c": "x;", "d": 1})), "2:\"x;\";");
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
