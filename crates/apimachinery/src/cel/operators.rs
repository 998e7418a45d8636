//! Operators and conversions: cel-go v0.26.0 common/stdlib/standard.go.

use std::cmp::Ordering;
use std::sync::Arc;

use super::error::EvaluationError;
use super::formatting;
use super::meter::Meter;
use super::moments;
use super::types::Type;
use super::value::{Text, Value, equal, list_map_key, order};
use crate::schema::Topology;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// Calls an operator or a conversion; `None` if there is none of that name for these arguments.
pub(crate) fn call<'a>(function: &str, args: &[Value<'a>], meter: &Meter) -> Option<Outcome<'a>> {
    Some(match (function, args) {
        ("_==_", [one, two]) => equal(one, two, meter).map(Value::Bool),
        ("_!=_", [one, two]) => equal(one, two, meter).map(|it| Value::Bool(!it)),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [one, two]) => compare(function, one, two, meter),
        ("!_", [Value::Bool(it)]) => Ok(Value::Bool(!it)),
        ("-_", [Value::Int(it)]) => it.checked_neg().map(Value::Int).ok_or_else(overflow),
        ("-_", [Value::Double(it)]) => Ok(Value::Double(-it)),
        ("_+_", [one, two]) => add(one.clone(), two.clone(), meter),
        ("_-_" | "_*_" | "_/_" | "_%_", [one, two]) => calculate(function, one, two),
        ("type", [it]) => Ok(Value::Type(it.type_of())),
        ("dyn", [it]) => Ok(it.clone()),
        ("size", [it]) => match it {
            Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) | Value::Json(_) => {
                it.size(meter).map(|it| Value::Int(i64::try_from(it).unwrap_or(i64::MAX)))
            }
            _ => return None,
        },
        ("bool", [Value::Bool(it)]) => Ok(Value::Bool(*it)),
        ("bool", [Value::String(text)]) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => Err(EvaluationError::failed("type conversion error from 'string' to 'bool'")),
        },
        ("int", [it]) => to_int(it),
        ("uint", [it]) => to_uint(it),
        ("double", [it]) => to_double(it),
        ("string", [it]) => to_string(it, meter),
        ("bytes", [Value::Bytes(it)]) => Ok(Value::Bytes(Arc::clone(it))),
        ("bytes", [Value::String(text)]) => {
            meter.allocate(text.len()).map(|()| Value::Bytes(text.as_bytes().into()))
        }
        ("duration", [Value::Duration(it)]) => Ok(Value::Duration(*it)),
        ("duration", [Value::Int(it)]) => Ok(Value::Duration(*it)),
        ("duration", [Value::String(text)]) => {
            moments::parse_duration(text).map(Value::Duration).ok_or_else(|| {
                EvaluationError::failed("type conversion error from 'string' to 'google.protobuf.Duration'")
            })
        }
        ("timestamp", [Value::Timestamp(it)]) => Ok(Value::Timestamp(*it)),
        ("timestamp", [Value::Int(it)]) => {
            moments::from_seconds(*it).map(Value::Timestamp).ok_or_else(timestamp_overflow)
        }
        ("timestamp", [Value::String(text)]) => {
            moments::parse_timestamp(text).map(Value::Timestamp).ok_or_else(|| {
                EvaluationError::failed("type conversion error from 'string' to 'google.protobuf.Timestamp'")
            })
        }
        (name, [Value::Timestamp(it)]) if name.starts_with("get") => {
            moments::part(*it, name, None).map(Value::Int)
        }
        (name, [Value::Timestamp(it), Value::String(zone)]) if name.starts_with("get") => {
            meter.work(zone.len() as u64).and_then(|()| moments::part(*it, name, Some(zone)).map(Value::Int))
        }
        (name, [Value::Duration(it)]) if name.starts_with("get") => {
            Ok(Value::Int(moments::duration_part(*it, name)))
        }
        _ => return None,
    })
}

fn overflow() -> EvaluationError {
    EvaluationError::failed("integer overflow")
}

fn unsigned_overflow() -> EvaluationError {
    EvaluationError::failed("unsigned integer overflow")
}

fn duration_overflow() -> EvaluationError {
    EvaluationError::failed("duration overflow")
}

fn timestamp_overflow() -> EvaluationError {
    EvaluationError::failed("timestamp overflow")
}

fn compare<'a>(function: &str, one: &Value<'a>, two: &Value<'a>, meter: &Meter) -> Outcome<'a> {
    let Some(order) = order(one, two, meter)? else { return Ok(Value::Bool(false)) };
    Ok(Value::Bool(match function {
        "_<_" => order == Ordering::Less,
        "_<=_" => order != Ordering::Greater,
        "_>_" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

/// Adds two values, or joins two texts or lists.
pub(crate) fn add<'a>(one: Value<'a>, two: Value<'a>, meter: &Meter) -> Outcome<'a> {
    match (one, two) {
        (Value::Int(one), Value::Int(two)) => one.checked_add(two).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(one), Value::Uint(two)) => {
            one.checked_add(two).map(Value::Uint).ok_or_else(unsigned_overflow)
        }
        (Value::Double(one), Value::Double(two)) => Ok(Value::Double(one + two)),
        (Value::String(one), Value::String(two)) => {
            meter.allocate(one.len() + two.len())?;
            let mut text = String::with_capacity(one.len() + two.len());
            text.push_str(&one);
            text.push_str(&two);
            Ok(Value::String(Text::Shared(text.into())))
        }
        (Value::Bytes(one), Value::Bytes(two)) => {
            meter.allocate(one.len() + two.len())?;
            Ok(Value::Bytes([&*one, &*two].concat().into()))
        }
        (Value::Duration(one), Value::Duration(two)) => {
            one.checked_add(two).map(Value::Duration).ok_or_else(duration_overflow)
        }
        (Value::Timestamp(moment), Value::Duration(nanos))
        | (Value::Duration(nanos), Value::Timestamp(moment)) => {
            moments::add(moment, nanos).map(Value::Timestamp).ok_or_else(timestamp_overflow)
        }
        (one, two) => join(one, &two, meter),
    }
}

/// Joins two lists. Lists of the types `set` and `map` keep one item of each identity
/// (k8s.io/apiserver v0.36.4 pkg/cel/common/valuesunstructured.go).
fn join<'a>(one: Value<'a>, two: &Value<'a>, meter: &Meter) -> Outcome<'a> {
    let (Some(length), Some(more)) = (one.list_len(), two.list_len()) else {
        return Err(EvaluationError::no_such_overload());
    };
    meter.allocate(length.saturating_add(more).saturating_mul(size_of::<Value<'_>>()))?;
    let mut items = Vec::with_capacity(length + more);
    for index in 0..length {
        items.extend(one.item(index, meter).transpose()?);
    }
    let topology = match &one {
        Value::Json(it) => it.topology(),
        _ => &Topology::Atomic,
    };
    if matches!(topology, Topology::Atomic) {
        for index in 0..more {
            items.extend(two.item(index, meter).transpose()?);
        }
        return Ok(Value::list(items));
    }
    let identity = |value: &Value<'a>| -> Result<String, EvaluationError> {
        let json = value.to_json_within(meter)?;
        Ok(match topology {
            Topology::Map(keys) => list_map_key(&json, keys),
            _ => json.to_string(),
        })
    };
    let mut places = std::collections::HashMap::new();
    for (index, item) in items.iter().enumerate() {
        let identity = identity(item)?;
        meter.allocate(identity.len())?;
        places.insert(identity, index);
    }
    for index in 0..more {
        let Some(item) = two.item(index, meter).transpose()? else { continue };
        let identity = identity(&item)?;
        meter.allocate(identity.len())?;
        match places.get(&identity).and_then(|at| items.get_mut(*at)) {
            Some(known) => *known = item,
            None => {
                places.insert(identity, items.len());
                items.push(item);
            }
        }
    }
    Ok(Value::list(items))
}

fn calculate<'a>(function: &str, one: &Value<'a>, two: &Value<'a>) -> Outcome<'a> {
    let by_zero = || {
        let word = if function == "_/_" { "division" } else { "modulus" };
        EvaluationError::failed(format!("{word} by zero"))
    };
    match (one, two) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0))
            if matches!(function, "_/_" | "_%_") =>
        {
            Err(by_zero())
        }
        (Value::Int(one), Value::Int(two)) => match function {
            "_-_" => one.checked_sub(*two),
            "_*_" => one.checked_mul(*two),
            "_/_" => one.checked_div(*two),
            _ => one.checked_rem(*two),
        }
        .map(Value::Int)
        .ok_or_else(overflow),
        (Value::Uint(one), Value::Uint(two)) => match function {
            "_-_" => one.checked_sub(*two),
            "_*_" => one.checked_mul(*two),
            "_/_" => one.checked_div(*two),
            _ => one.checked_rem(*two),
        }
        .map(Value::Uint)
        .ok_or_else(unsigned_overflow),
        (Value::Double(one), Value::Double(two)) => Ok(Value::Double(match function {
            "_-_" => one - two,
            "_*_" => one * two,
            "_/_" => one / two,
            _ => return Err(EvaluationError::no_such_overload()),
        })),
        (Value::Duration(one), Value::Duration(two)) if function == "_-_" => {
            one.checked_sub(*two).map(Value::Duration).ok_or_else(duration_overflow)
        }
        (Value::Timestamp(one), Value::Duration(two)) if function == "_-_" => two
            .checked_neg()
            .and_then(|it| moments::add(*one, it))
            .map(Value::Timestamp)
            .ok_or_else(timestamp_overflow),
        (Value::Timestamp(one), Value::Timestamp(two)) if function == "_-_" => {
            moments::between(*one, *two).map(Value::Duration).ok_or_else(duration_overflow)
        }
        _ => Err(EvaluationError::no_such_overload()),
    }
}

fn conversion<'a>(from: &Value<'a>, to: &str) -> EvaluationError {
    let from = match from.type_of() {
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        other => other.to_string(),
    };
    EvaluationError::failed(format!("type conversion error from '{from}' to '{to}'"))
}

fn to_int<'a>(value: &Value<'a>) -> Outcome<'a> {
    let int = match value {
        Value::Int(it) => *it,
        Value::Uint(it) => i64::try_from(*it).map_err(|_| overflow())?,
        // The ends of the range cannot be converted exactly.
        Value::Double(it) if it.abs() < 9_223_372_036_854_775_807.0 => it.trunc() as i64,
        Value::Double(_) => return Err(overflow()),
        Value::String(text) => {
            text.strip_prefix('+').unwrap_or(text).parse().map_err(|_| conversion(value, "int"))?
        }
        Value::Timestamp(it) => it.as_second(),
        Value::Duration(it) => *it,
        _ => return Err(EvaluationError::no_such_overload()),
    };
    Ok(Value::Int(int))
}

fn to_uint<'a>(value: &Value<'a>) -> Outcome<'a> {
    let uint = match value {
        Value::Uint(it) => *it,
        Value::Int(it) => u64::try_from(*it).map_err(|_| unsigned_overflow())?,
        Value::Double(it) if *it > -1.0 && *it < 18_446_744_073_709_551_615.0 => it.trunc() as u64,
        Value::Double(_) => return Err(unsigned_overflow()),
        Value::String(text) => text.parse().map_err(|_| conversion(value, "uint"))?,
        _ => return Err(EvaluationError::no_such_overload()),
    };
    Ok(Value::Uint(uint))
}

fn to_double<'a>(value: &Value<'a>) -> Outcome<'a> {
    let double = match value {
        Value::Double(it) => *it,
        Value::Int(it) => *it as f64,
        Value::Uint(it) => *it as f64,
        Value::String(text) => text.parse().map_err(|_| conversion(value, "double"))?,
        _ => return Err(EvaluationError::no_such_overload()),
    };
    Ok(Value::Double(double))
}

fn to_string<'a>(value: &Value<'a>, meter: &Meter) -> Outcome<'a> {
    match value {
        Value::String(text) => Ok(Value::String(text.clone())),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => meter.allocate(text.len()).map(|()| Value::text(text)),
            Err(_) => Err(EvaluationError::failed("invalid UTF-8 in bytes, cannot convert to string")),
        },
        other => {
            let text = formatting::text_of(other).ok_or_else(EvaluationError::no_such_overload)?;
            meter.allocate(text.len()).map(|()| Value::text(text))
        }
    }
}
