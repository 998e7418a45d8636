//! The functions of texts: cel-go v0.26.0 ext/strings.go (version 2) and the standard ones. Offsets
//! count characters.

use std::borrow::Cow;
use std::sync::Arc;

use super::error::EvaluationError;
use super::formatting;
use super::meter::Meter;
use super::value::{Text, Value};

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// Calls a function of texts; `None` if there is none for these arguments.
pub(crate) fn call<'a>(function: &str, args: &[Value<'a>], meter: &Meter) -> Option<Outcome<'a>> {
    if let (Some(Value::List(_) | Value::Json(_)), "join") = (args.first(), function) {
        return Some(join(args, meter));
    }
    let Some(Value::String(text)) = args.first() else { return None };
    Some(match (function, args.get(1..).unwrap_or_default()) {
        ("contains" | "startsWith" | "endsWith", [Value::String(part)]) => {
            let result = match function {
                "contains" => text.contains(&**part),
                "startsWith" => text.starts_with(&**part),
                _ => text.ends_with(&**part),
            };
            meter.work(text.len() as u64 / 4).map(|()| Value::Bool(result))
        }
        ("lowerAscii", []) => made(text.to_ascii_lowercase(), meter),
        ("upperAscii", []) => made(text.to_ascii_uppercase(), meter),
        ("trim", []) => made(text.trim().to_owned(), meter),
        ("charAt", [Value::Int(index)]) => char_at(text, *index, meter),
        ("substring", [Value::Int(start)]) => substring(text, *start, None, meter),
        ("substring", [Value::Int(start), Value::Int(end)]) => substring(text, *start, Some(*end), meter),
        ("indexOf", [Value::String(part)]) => index_of(text, part, 0, meter),
        ("indexOf", [Value::String(part), Value::Int(from)]) => index_of(text, part, *from, meter),
        ("lastIndexOf", [Value::String(part)]) => last_index_of(text, part, None, meter),
        ("lastIndexOf", [Value::String(part), Value::Int(from)]) => {
            last_index_of(text, part, Some(*from), meter)
        }
        ("replace", [Value::String(from), Value::String(to)]) => replace(text, from, to, -1, meter),
        ("replace", [Value::String(from), Value::String(to), Value::Int(count)]) => {
            replace(text, from, to, *count, meter)
        }
        ("split", [Value::String(separator)]) => split(text, separator, -1, meter),
        ("split", [Value::String(separator), Value::Int(count)]) => split(text, separator, *count, meter),
        ("strings.quote", []) => made(quote(text), meter),
        ("format", [list]) => formatting::format(text, list, meter).and_then(|it| made(it, meter)),
        _ => return None,
    })
}

fn made<'a>(text: String, meter: &Meter) -> Outcome<'a> {
    meter.allocate(text.len())?;
    Ok(Value::text(text))
}

fn out_of_range<'a>(index: i64) -> Outcome<'a> {
    Err(EvaluationError::failed(format!("index out of range: {index}")))
}

/// Returns the offset in bytes of a character; the end of the text counts as one.
fn offset_of(text: &str, index: i64, meter: &Meter) -> Result<Option<usize>, EvaluationError> {
    let Ok(index) = usize::try_from(index) else { return Ok(None) };
    if text.is_ascii() {
        meter.work(text.len() as u64 / 16)?;
        return Ok((index <= text.len()).then_some(index));
    }
    meter.work(text.len() as u64)?;
    Ok(text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index))
}

/// Returns a part of a text, without a copy where that is possible.
fn part<'a>(text: &Text<'a>, start: usize, end: usize, meter: &Meter) -> Outcome<'a> {
    match text {
        Text::Borrowed(whole) => Ok(Value::String(Text::Borrowed(whole.get(start..end).unwrap_or_default()))),
        Text::Shared(whole) => made(whole.get(start..end).unwrap_or_default().to_owned(), meter),
    }
}

fn char_at<'a>(text: &Text<'a>, index: i64, meter: &Meter) -> Outcome<'a> {
    let Some(at) = offset_of(text, index, meter)? else { return out_of_range(index) };
    let length = text.get(at..).and_then(|it| it.chars().next()).map_or(0, char::len_utf8);
    part(text, at, at + length, meter)
}

fn substring<'a>(text: &Text<'a>, start: i64, end: Option<i64>, meter: &Meter) -> Outcome<'a> {
    if let Some(end) = end
        && start > end
    {
        let message = format!("invalid substring range. start: {start}, end: {end}");
        return Err(EvaluationError::failed(message));
    }
    let Some(from) = offset_of(text, start, meter)? else { return out_of_range(start) };
    let to = match end {
        None => text.len(),
        Some(end) => match offset_of(text, end, meter)? {
            Some(to) => to,
            None => return out_of_range(end),
        },
    };
    part(text, from, to, meter)
}

fn position<'a>(text: &str, at: Option<usize>) -> Value<'a> {
    let characters = at.map(|at| text.get(..at).unwrap_or_default().chars().count());
    Value::Int(characters.and_then(|it| i64::try_from(it).ok()).unwrap_or(-1))
}

fn index_of<'a>(text: &str, part: &str, from: i64, meter: &Meter) -> Outcome<'a> {
    meter.work(text.len() as u64)?;
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let Some(start) = offset_of(text, from, meter)? else {
        // Nothing is found behind the end.
        return if from < 0 { out_of_range(from) } else { Ok(Value::Int(-1)) };
    };
    let found = text.get(start..).unwrap_or_default().find(part);
    Ok(position(text, found.map(|it| it + start)))
}

fn last_index_of<'a>(text: &str, part: &str, from: Option<i64>, meter: &Meter) -> Outcome<'a> {
    meter.work(text.len() as u64)?;
    let Some(from) = from else {
        return Ok(position(text, text.rfind(part)));
    };
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let Some(start) = offset_of(text, from, meter)? else { return out_of_range(from) };
    let end = (start + part.len()).min(text.len());
    let end = (end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let found = text.get(..end).unwrap_or_default().rmatch_indices(part).map(|(at, _)| at).next();
    Ok(position(text, found.filter(|at| *at <= start)))
}

fn replace<'a>(text: &Text<'a>, from: &str, to: &str, count: i64, meter: &Meter) -> Outcome<'a> {
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    meter.work(text.len() as u64)?;
    let matches = text.matches(from).count().min(limit);
    if matches == 0 {
        return Ok(Value::String(text.clone()));
    }
    let size = matches.saturating_mul(to.len()).saturating_add(text.len());
    meter.allocate(size)?;
    Ok(Value::text(text.replacen(from, to, matches)))
}

fn split<'a>(text: &Text<'a>, separator: &str, count: i64, meter: &Meter) -> Outcome<'a> {
    if count == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    meter.work(text.len() as u64)?;
    let pieces = if separator.is_empty() { text.len() } else { text.matches(separator).count() + 1 };
    meter
        .allocate(pieces.min(limit).saturating_mul(size_of::<Value<'_>>() + 16).saturating_add(text.len()))?;
    if separator.is_empty() {
        // Go splits after each character.
        let mut parts = Vec::new();
        let mut rest = &**text;
        while let Some(ch) = rest.chars().next() {
            if parts.len() + 1 == limit {
                parts.push(Value::text(rest));
                break;
            }
            let (first, after) = rest.split_at(ch.len_utf8());
            parts.push(Value::text(first));
            rest = after;
        }
        return Ok(Value::list(parts));
    }
    let parts = match text {
        Text::Borrowed(text) => {
            text.splitn(limit, separator).map(|it| Value::String(Text::Borrowed(it))).collect()
        }
        Text::Shared(text) => text.splitn(limit, separator).map(Value::text).collect(),
    };
    Ok(Value::list(parts))
}

fn join<'a>(args: &[Value<'a>], meter: &Meter) -> Outcome<'a> {
    let (Some(list), separator) = (args.first(), args.get(1)) else {
        return Err(EvaluationError::no_such_overload());
    };
    let separator: Cow<'_, str> = match separator {
        None => Cow::Borrowed(""),
        Some(Value::String(text)) => Cow::Owned(text.to_string()),
        Some(_) => return Err(EvaluationError::no_such_overload()),
    };
    let mut result = String::new();
    for index in 0..list.list_len().unwrap_or(0) {
        let Some(Value::String(item)) = list.item(index, meter).transpose()? else {
            return Err(EvaluationError::no_such_overload());
        };
        let separator = if index > 0 { &*separator } else { "" };
        meter.allocate(item.len() + separator.len())?;
        result.push_str(separator);
        result.push_str(&item);
    }
    Ok(Value::String(Text::Shared(Arc::from(result))))
}

/// Returns a text in quotes with escapes, as in `strings.quote`.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for ch in text.chars() {
        let escape = match ch {
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{b}' => "\\v",
            '\\' => "\\\\",
            '"' => "\\\"",
            other => {
                quoted.push(other);
                continue;
            }
        };
        quoted.push_str(escape);
    }
    quoted.push('"');
    quoted
}
