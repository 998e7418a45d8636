//! The limits of numbers, with the messages of kube-apiserver.
//!
//! An integer is compared with the integer part of a limit. A limit that does not fit the type of
//! the field is reported itself, and then compared as a float.

use serde_json::{Number, Value};

use super::go_format::{shown_float, shown_number};
use super::structural::{EnumValues, Structural, Type};
use super::value_path::ValuePath;

/// A violated limit.
pub(crate) enum Fault {
    /// A message without a field.
    Plain(String),
    /// A message about the value at the path.
    OfValue(String),
    /// A message about a limit of the schema at the path.
    OfLimit {
        /// The limit.
        limit: String,
        /// The message.
        words: String,
    },
}

/// Returns the faults of a number at a path, in the order of kube-apiserver: its range,
/// `multipleOf`, `minimum`, `maximum`.
pub(crate) fn faults(number: &Number, schema: &Structural, path: &ValuePath<'_>) -> Vec<Fault> {
    let limits = &schema.limits;
    let kind = schema.kind.filter(|_| !schema.int_or_string);
    let range = Range { kind, format: limits.format.as_deref(), path };
    let mut faults = Vec::new();
    faults.extend(range.fault("Checked", number.as_i64().is_some(), number.as_f64()).map(Fault::Plain));
    for (limit, prefix, check) in [
        (limits.multiple_of, "MultipleOf", Check::Multiple),
        (limits.minimum, "Minimum boundary", Check::Minimum(limits.exclusive_minimum)),
        (limits.maximum, "Maximum boundary", Check::Maximum(limits.exclusive_maximum)),
    ] {
        let Some(limit) = limit else { continue };
        let misfit = range.fault(prefix, false, Some(limit));
        let whole = if misfit.is_none() { number.as_i64() } else { None };
        faults.extend(misfit.map(Fault::Plain));
        let broken = match whole {
            Some(value) => check.whole(value, cut(limit)).then(|| cut(limit).to_string()),
            None => check.float(number.as_f64().unwrap_or(f64::NAN), limit).then(|| shown_float(limit)),
        };
        faults.extend(broken.map(|limit| check.fault(&limit, path)));
    }
    faults
}

/// Returns true if a value equals an allowed one. 1 and 1.0 are the same. An integer among the
/// allowed values is compared with the integer part of the other: that 1.5 is not an integer is
/// reported by the check of the type.
pub(crate) fn is_allowed(value: &Value, allowed: &EnumValues) -> bool {
    let Value::Number(number) = value else { return allowed.exact.contains(value) };
    let float = number.as_f64();
    let integer = number.as_i64().or(float.map(cut));
    integer.is_some_and(|it| allowed.integers.contains(&it))
        || float.is_some_and(|it| allowed.floats.contains(&EnumValues::bits(it)))
}

/// Returns true if a number is an integer, in any notation.
pub(crate) fn is_whole(number: &Number) -> bool {
    number.as_i64().is_some()
        || number.as_f64().is_some_and(|float| float.fract() == 0.0 && float.abs() <= 9.007e15)
}

/// Formats a value for a list of allowed values.
pub(crate) fn listed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => shown_number(number),
        other => super::go_format::json(other),
    }
}

struct Range<'a> {
    kind: Option<Type>,
    format: Option<&'a str>,
    path: &'a ValuePath<'a>,
}

impl Range<'_> {
    fn fault(&self, prefix: &str, whole: bool, value: Option<f64>) -> Option<String> {
        let value = value.unwrap_or(f64::INFINITY);
        let is_integer = whole
            || (value.fract() == 0.0
                && (-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&value));
        let fits = match (self.kind, self.format) {
            (Some(Type::Integer), Some("int32")) => {
                is_integer && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value)
            }
            (Some(Type::Integer), _) => is_integer,
            (_, Some("float")) => value.abs() <= f64::from(f32::MAX),
            _ => true,
        };
        if fits {
            return None;
        }
        let kind = self.kind.map_or("", Type::name);
        let path = self.path;
        Some(match self.format {
            Some(format) => format!("{prefix} value must be of type {kind} with format {format} in {path}"),
            None => format!("{prefix} value must be of type {kind} (default format) in {path}"),
        })
    }
}

#[derive(Clone, Copy)]
enum Check {
    Multiple,
    Minimum(bool),
    Maximum(bool),
}

impl Check {
    /// Returns true if an integer violates a limit that was truncated to an integer.
    fn whole(self, value: i64, limit: i64) -> bool {
        match self {
            Self::Multiple => limit <= 0 || value % limit != 0,
            Self::Minimum(exclusive) => value < limit || (exclusive && value == limit),
            Self::Maximum(exclusive) => value > limit || (exclusive && value == limit),
        }
    }

    fn float(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Multiple => {
                limit <= 0.0 || !nearly_whole(if limit < 1.0 { 1.0 / limit * value } else { value / limit })
            }
            Self::Minimum(exclusive) => value < limit || (exclusive && value <= limit),
            Self::Maximum(exclusive) => value > limit || (exclusive && value >= limit),
        }
    }

    fn fault(self, limit: &str, path: &ValuePath<'_>) -> Fault {
        let should = match self {
            Self::Multiple if limit == "0" || limit.starts_with('-') => {
                let words = format!("factor MultipleOf declared for {path} must be positive: {limit}");
                return Fault::OfLimit { limit: limit.to_owned(), words };
            }
            Self::Multiple => "be a multiple of",
            Self::Minimum(true) => "be greater than",
            Self::Minimum(false) => "be greater than or equal to",
            Self::Maximum(true) => "be less than",
            Self::Maximum(false) => "be less than or equal to",
        };
        Fault::OfValue(format!("{path} in body should {should} {limit}"))
    }
}

/// Truncates a float to an integer. Values out of range become the smallest integer, as in Go on
/// amd64.
fn cut(float: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "truncated on purpose")]
    let whole = float as i64;
    if whole == i64::MAX || float.is_nan() { i64::MIN } else { whole }
}

/// Returns true if a float is an integer within a relative error of 1e-9, and small enough to be
/// exact.
fn nearly_whole(float: f64) -> bool {
    const SURE: f64 = 9_007_199_254_740_991.0;
    let off = (float - float.round()).abs();
    float.abs() <= SURE && off / (float.abs() + float.round().abs()).max(f64::MIN_POSITIVE) < 1e-9
}
