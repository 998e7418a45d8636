//! Go's names of types and its formatting of values (Go 1.26 fmt/print.go), as the messages of
//! k8s.io/apimachinery v0.36.4 pkg/util/strategicpatch/patch.go and pkg/util/mergepatch/errors.go
//! contain them, and the generic 422.

use std::fmt;

use dogwatch_core::Reason;
use serde_json::{Number, Value};

use crate::ApiError;

/// Creates the 422 for a patch that does not apply (`NewGenericServerResponse` in k8s.io/apiserver
/// v0.36.4 pkg/endpoints/handlers/patch.go). Its details are empty.
pub(super) fn rejected() -> ApiError {
    ApiError::new(Reason::Invalid, "the server rejected our request due to an error in our request")
}

/// Returns the Go type of a value, for messages about types that differ.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => LIST,
        Value::Object(_) => MAP,
    }
}

/// Returns the JSON type of a value, for messages about values that cannot be decoded.
pub fn json_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The Go type of a list.
pub(super) const LIST: &str = "[]interface {}";

/// The Go type of an object.
pub(super) const MAP: &str = "map[string]interface {}";

/// A value that is displayed as Go's `%v` formats it: `map[image:x ports:[80 81]]`.
pub(super) struct GoValue<'a>(pub(super) &'a Value);

/// A value that is displayed as Go's `%s` formats it, which marks all scalars other than strings:
/// `%!s(int64=5)`.
pub(super) struct GoString<'a>(pub(super) &'a Value);

impl fmt::Display for GoValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self.0, false, f)
    }
}

impl fmt::Display for GoString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self.0, true, f)
    }
}

/// Formats several lists in one pair of brackets.
pub(super) fn format_lists(lists: &[&[Value]]) -> String {
    let one = |list: &&[Value]| GoValue(&Value::Array(list.to_vec())).to_string();
    format!("[{}]", lists.iter().map(one).collect::<Vec<_>>().join(" "))
}

fn show(value: &Value, as_text: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value {
        Value::String(text) => f.write_str(text),
        Value::Array(items) => {
            f.write_str("[")?;
            for (i, item) in items.iter().enumerate() {
                f.write_str(if i == 0 { "" } else { " " })?;
                show(item, as_text, f)?;
            }
            f.write_str("]")
        }
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|(key, _)| *key);
            f.write_str("map[")?;
            for (i, (key, item)) in sorted.into_iter().enumerate() {
                write!(f, "{}{key}:", if i == 0 { "" } else { " " })?;
                show(item, as_text, f)?;
            }
            f.write_str("]")
        }
        Value::Null if as_text => f.write_str("%!s(<nil>)"),
        Value::Null => f.write_str("<nil>"),
        Value::Bool(flag) if as_text => write!(f, "%!s(bool={flag})"),
        Value::Bool(flag) => write!(f, "{flag}"),
        Value::Number(number) if as_text => write!(f, "%!s({}={})", type_name(value), digits(number)),
        Value::Number(number) => f.write_str(&digits(number)),
    }
}

/// Formats a number as Go does: integers plainly, others in their shortest form, with an exponent
/// if far from 1.
fn digits(number: &Number) -> String {
    if number.is_i64() {
        return number.to_string();
    }
    let float = number.as_f64().unwrap_or_default();
    if float == 0.0 || (1e-4..1e21).contains(&float.abs()) {
        return float.to_string();
    }
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_formatted_as_go_formats_them() {
        for (value, shown) in [
            (json!({"b": [1, "c", null], "a": {}}), "map[a:map[] b:[1 c <nil>]]"),
            (json!([1.5, -3, true]), "[1.5 -3 true]"),
            (json!(1e21), "1e+21"),
            (json!(0.00001), "1e-05"),
            (json!(2.0), "2"),
            (json!(u64::MAX), "18446744073709552000"),
        ] {
            assert_eq!(GoValue(&value).to_string(), shown);
        }
    }

    #[test]
    fn values_that_are_not_strings_are_marked_where_a_string_is_expected() {
        for (value, shown) in [
            (json!("bogus"), "bogus"),
            (json!(5), "%!s(int64=5)"),
            (json!(1.5), "%!s(float64=1.5)"),
            (json!(true), "%!s(bool=true)"),
            (json!(null), "%!s(<nil>)"),
            (json!(["x", 1]), "[x %!s(int64=1)]"),
        ] {
            assert_eq!(GoString(&value).to_string(), shown);
        }
    }
}
