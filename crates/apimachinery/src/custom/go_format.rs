//! Values as `Error.ErrorBody` of k8s.io/apimachinery v0.36.4 pkg/util/validation/field/errors.go
//! prints them in a message: quoted text, numbers, and JSON for the rest.

use std::fmt::{self, Write as _};

use serde_json::{Number, Value};

/// Formats a value as it follows `Invalid value:`.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) => shown_number(number),
        other => json(other),
    }
}

/// Quotes a text, with the escapes of Go's `%q`.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for ch in text.chars() {
        match ch {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            ch if ch < ' ' || ch == '\u{7f}' => push(&mut out, format_args!("\\x{:02x}", u32::from(ch))),
            ch if printable(ch) => out.push(ch),
            ch if u32::from(ch) < 0x1_0000 => push(&mut out, format_args!("\\u{:04x}", u32::from(ch))),
            ch => push(&mut out, format_args!("\\U{:08x}", u32::from(ch))),
        }
    }
    out.push('"');
    out
}

/// A text that is formatted with quotes, like [`quoted`].
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(self.0))
    }
}

/// Formats a list of quoted texts, separated by commas.
pub(crate) fn quoted_list<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(|text| quoted(text.as_ref())).collect();
    quoted.join(", ")
}

/// Formats a number like Go's `%v`: integers plain, others in the shortest form, with an exponent
/// from 1e21 on and below 1e-4.
pub(crate) fn shown_number(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) => whole.to_string(),
        (None, Some(float)) => shown_float(float),
        (None, None) => number.to_string(),
    }
}

/// Formats a float like Go's `%v`.
pub(crate) fn shown_float(float: f64) -> String {
    let size = float.abs();
    if size == 0.0 || (1e-4..1e21).contains(&size) {
        return format!("{float}");
    }
    let short = format!("{float:e}");
    let Some((digits, exponent)) = short.split_once('e') else { return short };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Formats compact JSON with `<`, `>` and `&` escaped and whole numbers without a fraction, like
/// Go's encoder.
pub(crate) fn json(value: &Value) -> String {
    let mut value = value.clone();
    settle_numbers(&mut value);
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Turns whole floats into integers, as they are after a round trip through storage: 2.0 becomes 2.
/// To be called after validation, which sees the numbers as sent.
pub fn settle_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or(f64::NAN);
            // Below 2^53 every whole float is exactly that integer.
            if float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 {
                #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(settle_numbers),
        Value::Object(fields) => fields.values_mut().for_each(settle_numbers),
        _ => {}
    }
}

fn printable(ch: char) -> bool {
    ch == ' '
        || !(ch.is_control()
            || ch.is_whitespace()
            || ('\u{e000}'..='\u{f8ff}').contains(&ch)
            || ch == '\u{feff}')
}

fn push(out: &mut String, args: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(args);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_kube_apiserver_prints_them() {
        for (value, text) in [
            (json!(3), "3"),
            (json!(0.7), "0.7"),
            (json!(1.0), "1"),
            (json!(2e21), "2e+21"),
            (json!(0.00001), "1e-05"),
            (json!("a<b>\"\u{1}é"), r#""a<b>\"\x01é""#),
            (json!(null), "null"),
            (json!(["a<", 2.0]), r#"["a\u003c",2]"#),
        ] {
            assert_eq!(shown(&value), text);
        }
    }
}
