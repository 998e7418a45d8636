//! The limits of numbers, with the messages of k8s.io/kube-openapi
//! v0.0.0-20260317180543-43fb72c5454a pkg/validation/validate/values.go.
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
pub(crate) fn faults(
    number: &Number,
    schema: &Structural,
    path: &ValuePath<'_>,
) -> impl Iterator<Item = Fault> {
    violations(number, schema).map(move |it| it.fault(schema, path))
}

/// Returns true if a number has a fault. Nothing is formatted: alternatives compare one number with
/// millions of limits.
pub(crate) fn has_fault(number: &Number, schema: &Structural) -> bool {
    violations(number, schema).next().is_some()
}

fn violations(number: &Number, schema: &Structural) -> impl Iterator<Item = Violation> {
    let limits = &schema.limits;
    let range = Range::of(schema);
    let (whole, float) = (number.as_i64(), number.as_f64());
    let out_of_range = (!range.contains(whole.is_some(), float)).then_some(Violation::OutOfRange("Checked"));
    let checks = [
        (limits.multiple_of, "MultipleOf", Check::Multiple),
        (limits.minimum, "Minimum boundary", Check::Minimum(limits.exclusive_minimum)),
        (limits.maximum, "Maximum boundary", Check::Maximum(limits.exclusive_maximum)),
    ];
    let of_limits = checks.into_iter().flat_map(move |(limit, prefix, check)| {
        let Some(limit) = limit else { return [None, None] };
        let misfits = !range.contains(false, Some(limit));
        let broken = match whole.filter(|_| !misfits) {
            Some(value) => check.whole(value, cut(limit)).then(|| Violation::OfWhole(check, cut(limit))),
            None => check.float(float.unwrap_or(f64::NAN), limit).then_some(Violation::OfFloat(check, limit)),
        };
        [misfits.then_some(Violation::OutOfRange(prefix)), broken]
    });
    out_of_range.into_iter().chain(of_limits.flatten())
}

/// A violated limit before it is formatted.
enum Violation {
    /// The number or a limit, which the text names, is not in the range of the type.
    OutOfRange(&'static str),
    OfWhole(Check, i64),
    OfFloat(Check, f64),
}

impl Violation {
    fn fault(self, schema: &Structural, path: &ValuePath<'_>) -> Fault {
        match self {
            Self::OutOfRange(prefix) => Fault::Plain(Range::of(schema).fault(prefix, path)),
            Self::OfWhole(check, limit) => check.fault(&limit.to_string(), path),
            Self::OfFloat(check, limit) => check.fault(&shown_float(limit), path),
        }
    }
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

/// The numbers of a type in a format.
#[derive(Clone, Copy)]
struct Range<'a> {
    kind: Option<Type>,
    format: Option<&'a str>,
}

impl<'a> Range<'a> {
    fn of(schema: &'a Structural) -> Self {
        let kind = schema.kind.filter(|_| !schema.int_or_string);
        Self { kind, format: schema.limits.format.as_deref() }
    }

    fn contains(self, whole: bool, value: Option<f64>) -> bool {
        let value = value.unwrap_or(f64::INFINITY);
        let is_integer = whole
            || (value.fract() == 0.0
                && (-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&value));
        match (self.kind, self.format) {
            (Some(Type::Integer), Some("int32")) => {
                is_integer && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value)
            }
            (Some(Type::Integer), _) => is_integer,
            (_, Some("float")) => value.abs() <= f64::from(f32::MAX),
            _ => true,
        }
    }

    fn fault(self, prefix: &str, path: &ValuePath<'_>) -> String {
        let kind = self.kind.map_or("", Type::name);
        match self.format {
            Some(format) => format!("{prefix} value must be of type {kind} with format {format} in {path}"),
            None => format!("{prefix} value must be of type {kind} (default format) in {path}"),
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_has_a_fault_exactly_if_one_is_reported() {
        let kinds = [json!({}), json!({"type": "integer"}), json!({"type": "integer", "format": "int32"})];
        let floats =
            [json!({"type": "number", "format": "float"}), json!({"x-kubernetes-int-or-string": true})];
        let numbers = [json!(-3), json!(0), json!(7), json!(7.5), json!(5_000_000_000_u64), json!(1e300)];
        let mut faulty = 0;
        for schema in kinds.iter().chain(&floats) {
            for limit in [0.0, -2.0, 2.5, 7.0, 1e10, 1e39] {
                for name in ["multipleOf", "minimum", "maximum"] {
                    for exclusive in [true, false] {
                        let mut schema = schema.clone();
                        schema[name] = json!(limit);
                        schema["exclusiveMinimum"] = json!(exclusive);
                        schema["exclusiveMaximum"] = json!(exclusive);
                        let schema = Structural::parse(&schema);
                        for number in numbers.iter().filter_map(Value::as_number) {
                            let found = faults(number, &schema, &ValuePath::Root("p")).next().is_some();
                            assert_eq!(has_fault(number, &schema), found, "{number} {schema:?}");
                            faulty += usize::from(found);
                        }
                    }
                }
            }
        }
        assert!(faulty > 300, "{faulty}");
    }
}
