//! Texts of values: conversions with `string(…)` and `'%s'.format([…])` (cel-go v0.26.0
//! ext/formatting.go).

use super::error::EvaluationError;
use super::meter::Meter;
use super::moments;
use super::types::Type;
use super::value::{Library, LibraryValue, Value};
use crate::strconv::quote;

/// The nesting of lists and maps in a text.
const MAX_NESTING: usize = 64;

/// The exponent from which on numbers are shown with one: the shortest precision of Go's `%g`.
const SHORTEST: i32 = 6;
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
    if (-4..SHORTEST).contains(&exponent) {
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
        let Some(item) = list.item(next, meter).transpose()? else {
            return Err(EvaluationError::failed(format!("index {next} out of range")));
        };
        let (precision, behind) = precision(behind)?;
        let Some(verb) = behind.chars().next() else {
            return Err(EvaluationError::failed("unexpected end of string"));
        };
        rest = behind.get(verb.len_utf8()..).unwrap_or_default();
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

/// The reason why a value cannot be formatted by a verb, without the value.
pub(crate) fn misfit(verb: char) -> Option<&'static str> {
    Some(match verb {
        's' => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and \
             timestamps, was given"
        }
        'd' => "decimal clause can only be used on integers, was given",
        'f' => "fixed-point clause can only be used on doubles, was given",
        'e' => "scientific clause can only be used on doubles, was given",
        'b' => "only integers and bools can be formatted as binary, was given",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex, was given",
        'o' => "octal clause can only be used on integers, was given",
        _ => return None,
    })
}

/// Returns the message about an unknown verb.
pub(crate) fn unknown_verb(verb: char) -> String {
    format!("could not parse formatting clause: unrecognized formatting clause \"{verb}\"")
}

fn clause(
    verb: char,
    precision: Option<usize>,
    item: &Value<'_>,
    meter: &Meter,
) -> Result<String, EvaluationError> {
    let places = precision.unwrap_or(6);
    Ok(match (verb, item) {
        ('s', item) => {
            let mut text = String::new();
            write_value(item, &mut text, 0, meter)?;
            text
        }
        ('d', Value::Int(it)) => it.to_string(),
        ('d', Value::Uint(it)) => it.to_string(),
        ('f', Value::Double(it)) => grouped(*it, places),
        ('e', Value::Double(it)) => scientific(*it, places),
        ('f' | 'e', Value::String(it)) if matches!(&**it, "NaN" | "Infinity" | "-Infinity") => {
            it.replace("Infinity", "\u{221e}")
        }
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
        (verb, item) => {
            let message = match misfit(verb) {
                Some(misfit) => format!("error during formatting: {misfit} {}", type_name(&item.type_of())),
                None => unknown_verb(verb),
            };
            return Err(EvaluationError::failed(message));
        }
    })
}

/// Returns the name of a type without its parameters.
pub(crate) fn type_name(of: &Type) -> String {
    let name = of.runtime_name();
    name.split('(').next().unwrap_or_default().to_owned()
}

fn signed(number: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", digits(number.unsigned_abs()))
}

/// Formats a number with groups of three digits, as golang.org/x/text does for English.
fn grouped(number: f64, places: usize) -> String {
    if number.is_nan() || number.is_infinite() {
        return double(number).replace("+Inf", "\u{221e}").replace("-Inf", "-\u{221e}");
    }
    let text = format!("{number:.places$}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", &*text), |it| ("-", it));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut groups = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && whole.len().saturating_sub(index).is_multiple_of(3) {
            groups.push(',');
        }
        groups.push(digit);
    }
    format!("{sign}{groups}{fraction}")
}

/// Formats a number as golang.org/x/text does for English: `1.5\u{d7}10\u{2070}\u{b3}`.
fn scientific(number: f64, places: usize) -> String {
    let text = format!("{number:.places$e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let raised = |digit: char| match digit {
        '-' => '\u{207b}',
        '1' => '\u{b9}',
        '2' => '\u{b2}',
        '3' => '\u{b3}',
        other => {
            other.to_digit(10).and_then(|it| char::from_u32(0x2070_u32.checked_add(it)?)).unwrap_or(other)
        }
    };
    let sign = if exponent < 0 { "-" } else { "" };
    let power: String = format!("{sign}{:02}", exponent.unsigned_abs()).chars().map(raised).collect();
    format!("{digits}\u{d7}10{power}")
}

/// Writes a value as `%s` does: a part of a list or a map as an expression would write it.
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
    let is_part = depth > 0;
    let scalar = match value {
        Value::Null => Some("null".to_owned()),
        Value::Type(of) => Some(type_name(of)),
        Value::Bytes(bytes) => {
            let shown = String::from_utf8_lossy(bytes).into_owned();
            Some(if is_part { format!("b{}", quote(&shown)) } else { shown })
        }
        Value::String(it) if is_part => Some(quote(it)),
        Value::Double(it) if is_part && it.is_finite() => Some(format!("{it:.6}")),
        Value::Double(it) if is_part => Some(quote(&double(*it))),
        Value::Timestamp(it) if is_part => Some(format!("timestamp(\"{it}\")")),
        Value::Duration(it) if is_part => Some(format!("duration(\"{}\")", moments::format_duration(*it))),
        Value::Library(_) => None,
        other => text_of(other),
    };
    if let Some(scalar) = scalar {
        meter.allocate(scalar.len())?;
        text.push_str(&scalar);
        return Ok(());
    }
    if value.list_len().is_some() {
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
        return Ok(());
    }
    if value.map_len().is_some() {
        let mut entries = Vec::new();
        for key in value.keys(meter)? {
            let (mut name, mut shown) = (String::new(), String::new());
            write_value(&key, &mut name, depth + 1, meter)?;
            if let Some(item) = value.entry(&key, meter)? {
                write_value(&item, &mut shown, depth + 1, meter)?;
            }
            entries.push((name, shown));
        }
        entries.sort();
        let entries: Vec<String> =
            entries.into_iter().map(|(name, shown)| format!("{name}:{shown}")).collect();
        text.push_str(&format!("{{{}}}", entries.join(", ")));
        return Ok(());
    }
    let of = type_name(&value.type_of());
    Err(EvaluationError::failed(match (is_part, misfit('s')) {
        (false, Some(misfit)) => format!("error during formatting: {misfit} {of}"),
        _ => format!("error during formatting: no formatting function for {of}"),
    }))
}
