//! The checks of a value that do not look into its items and fields: type, format, length, pattern,
//! range and enum.

use std::fmt::{self, Display};

use serde_json::{Number, Value};

use super::outcome::{Found, Outcome};
use crate::api_error::FieldErrorKind;
use crate::custom::formats;
use crate::custom::go_format::{Quoted, quoted_list, shown, shown_number};
use crate::custom::numbers::{self, Fault};
use crate::custom::structural::{Structural, Type};
use crate::custom::value_path::ValuePath;
use crate::weight;

/// The number of steps of a regular expression that take as long as one check. The patterns of one
/// definition take at most 131,072 checks to compile, less than [`FREE_CHECKS`], so the first
/// object that needs them can afford that.
const STEPS_PER_CHECK: usize = 8;

pub(super) fn check_null(schema: &Structural, path: &ValuePath<'_>, outcome: &mut Outcome<'_>) {
    if schema.types().is_empty() || schema.nullable {
        outcome.matches += 1;
    } else {
        outcome.wrong_type(path, Expected(schema), "null");
    }
    check_enum(schema, &Value::Null, path, outcome);
}

pub(super) fn check_number(
    schema: &Structural,
    number: &Number,
    path: &ValuePath<'_>,
    outcome: &mut Outcome<'_>,
) {
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

pub(super) fn check_type(
    schema: &Structural,
    value: &Value,
    path: &ValuePath<'_>,
    outcome: &mut Outcome<'_>,
) {
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

pub(super) fn check_text(schema: &Structural, text: &str, path: &ValuePath<'_>, outcome: &mut Outcome<'_>) {
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

pub(super) fn check_enum(
    schema: &Structural,
    value: &Value,
    path: &ValuePath<'_>,
    outcome: &mut Outcome<'_>,
) {
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
