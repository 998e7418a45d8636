//! Texts of values: conversions with `string(…)` and `'%s'.format([…])` (cel-go v0.26.0
//! ext/formatting.go).

use super::error::EvaluationError;
use super::meter::Meter;
use super::moments;
use super::value::{Library, LibraryValue, Value};

/// The nesting of lists and maps in a text.
const MAX_NESTING: usize = 64;

/// The number of bytes of a key that a message shows.
const MAX_SHOWN: usize = 1_000;

/// Returns the text of a key for a message.
pub(crate) fn shown(key: &Value<'_>) -> String {
    match key {
        Value::String(text) => text.get(..text.floor_char_boundary(MAX_SHOWN)).unwrap_or_default().to_owned(),
        other => text_of(other).unwrap_or_default(),
    }
}

/// Formats a number as Go does with `%g`: the fewest digits, with an exponent for large and small
/// ones.
pub(crate) fn double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..21).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Returns the text of a scalar as `string(…)` does; `None` if there is none.
pub(crate) fn text_of(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::Bool(it) => it.to_string(),
        Value::Int(it) => it.to_string(),
        Value::Uint(it) => it.to_string(),
        Value::Double(it) => double(*it),
        Value::String(it) => it.to_string(),
        Value::Duration(it) => moments::format_duration(*it),
        Value::Timestamp(it) => it.to_string(),
        Value::Library(it) if matches!(it, LibraryValue(Library::Ip(_) | Library::Cidr(_))) => it.to_string(),
        _ => return None,
    })
}

/// Replaces the verbs of a format with the items of a list.
pub(crate) fn format(format: &str, list: &Value<'_>, meter: &Meter) -> Result<String, EvaluationError> {
    let mut result = String::new();
    let mut next = 0;
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        let (plain, behind) = rest.split_at(at);
        meter.allocate(plain.len())?;
        result.push_str(plain);
        let behind = behind.get(1..).unwrap_or_default();
        if let Some(after) = behind.strip_prefix('%') {
            result.push('%');
            rest = after;
            continue;
        }
        let (precision, behind) = precision(behind)?;
        let Some(verb) = behind.chars().next() else {
            return Err(EvaluationError::failed(
                "could not parse formatting clause: unexpected end of string",
            ));
        };
        rest = behind.get(verb.len_utf8()..).unwrap_or_default();
        let Some(item) = list.item(next, meter).transpose()? else {
            return Err(EvaluationError::failed(format!("index {next} out of range")));
        };
        next += 1;
        let text = clause(verb, precision, &item, meter)?;
        meter.allocate(text.len())?;
        result.push_str(&text);
    }
    meter.allocate(rest.len())?;
    result.push_str(rest);
    Ok(result)
}

fn precision(text: &str) -> Result<(Option<usize>, &str), EvaluationError> {
    let Some(digits) = text.strip_prefix('.') else { return Ok((None, text)) };
    let end = digits.find(|it: char| !it.is_ascii_digit()).unwrap_or(digits.len());
    let (number, rest) = digits.split_at(end);
    match number.parse::<usize>() {
        Ok(precision) if precision <= 100 => Ok((Some(precision), rest)),
        _ => Err(EvaluationError::failed("could not parse formatting clause: error while parsing precision")),
    }
}

fn clause(
    verb: char,
    precision: Option<usize>,
    item: &Value<'_>,
    meter: &Meter,
) -> Result<String, EvaluationError> {
    let misfit = |what: &str| {
        let of = item.type_of();
        Err(EvaluationError::failed(format!(
            "error during formatting: {what} can only be used on expected types, was given {of}"
        )))
    };
    let places = precision.unwrap_or(6);
    Ok(match (verb, item) {
        ('s', item) => {
            let mut text = String::new();
            write_value(item, &mut text, 0, meter)?;
            text
        }
        ('d', Value::Int(it)) => it.to_string(),
        ('d', Value::Uint(it)) => it.to_string(),
        ('f', Value::Double(it)) => format!("{it:.places$}"),
        ('f', Value::Int(it)) => format!("{:.places$}", *it as f64),
        ('f', Value::Uint(it)) => format!("{:.places$}", *it as f64),
        ('e', Value::Double(it)) => scientific(*it, places),
        ('e', Value::Int(it)) => scientific(*it as f64, places),
        ('b', Value::Int(it)) => signed(*it, |it| format!("{it:b}")),
        ('b', Value::Uint(it)) => format!("{it:b}"),
        ('b', Value::Bool(it)) => u8::from(*it).to_string(),
        ('o', Value::Int(it)) => signed(*it, |it| format!("{it:o}")),
        ('o', Value::Uint(it)) => format!("{it:o}"),
        ('x', Value::Int(it)) => signed(*it, |it| format!("{it:x}")),
        ('x', Value::Uint(it)) => format!("{it:x}"),
        ('x', Value::String(it)) => it.bytes().map(|it| format!("{it:02x}")).collect(),
        ('x', Value::Bytes(it)) => it.iter().map(|it| format!("{it:02x}")).collect(),
        ('X', Value::Int(it)) => signed(*it, |it| format!("{it:X}")),
        ('X', Value::Uint(it)) => format!("{it:X}"),
        ('X', Value::String(it)) => it.bytes().map(|it| format!("{it:02X}")).collect(),
        ('X', Value::Bytes(it)) => it.iter().map(|it| format!("{it:02X}")).collect(),
        ('d', _) => return misfit("decimal clause"),
        ('f', _) => return misfit("fixed-point clause"),
        ('e', _) => return misfit("scientific clause"),
        ('b', _) => return misfit("binary clause"),
        ('o', _) => return misfit("octal clause"),
        ('x' | 'X', _) => return misfit("hex clause"),
        (other, _) => {
            let message =
                format!("could not parse formatting clause: unrecognized formatting clause \"{other}\"");
            return Err(EvaluationError::failed(message));
        }
    })
}

fn signed(number: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", digits(number.unsigned_abs()))
}

fn scientific(number: f64, places: usize) -> String {
    let text = format!("{number:.places$e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

fn write_value(
    value: &Value<'_>,
    text: &mut String,
    depth: usize,
    meter: &Meter,
) -> Result<(), EvaluationError> {
    meter.work(1)?;
    if depth > MAX_NESTING {
        return Err(EvaluationError::failed("error during formatting: value is nested too deeply"));
    }
    if let Some(scalar) = text_of(value) {
        meter.allocate(scalar.len())?;
        text.push_str(&scalar);
        return Ok(());
    }
    match value {
        Value::Null => text.push_str("null"),
        Value::Bytes(bytes) => text.push_str(&String::from_utf8_lossy(bytes)),
        Value::Type(of) => text.push_str(&of.to_string()),
        Value::Library(it) => text.push_str(&it.to_string()),
        _ if value.list_len().is_some() => {
            text.push('[');
            for index in 0..value.list_len().unwrap_or(0) {
                if index > 0 {
                    text.push_str(", ");
                }
                if let Some(item) = value.item(index, meter).transpose()? {
                    write_value(&item, text, depth + 1, meter)?;
                }
            }
            text.push(']');
        }
        _ if value.map_len().is_some() => {
            text.push('{');
            for (index, key) in value.keys(meter)?.iter().enumerate() {
                if index > 0 {
                    text.push_str(", ");
                }
                write_value(key, text, depth + 1, meter)?;
                text.push_str(": ");
                if let Some(item) = value.entry(key, meter)? {
                    write_value(&item, text, depth + 1, meter)?;
                }
            }
            text.push('}');
        }
        _ => return Err(EvaluationError::no_such_overload()),
    }
    Ok(())
}
