//! The cost of a call at run time: cel-go v0.26.0 interpreter/runtimecost.go with the costs of
//! k8s.io/apiserver v0.36.4 pkg/cel/library/cost.go.
//!
//! It is computed before the call, so that an expensive one is not made when the budget is spent.

use super::cost::{NEW_LIST, REGEX, TRAVERSAL, scale};
use super::error::EvaluationError;
use super::meter::Meter;
use super::named_formats;
use super::value::{Library, LibraryValue, Value};

/// The cost of a question to the authorizer.
const AUTHORIZATION: u64 = 350_000;

/// Returns the cost of a call with these arguments, the target first.
pub(crate) fn of_call(function: &str, args: &[Value<'_>], meter: &Meter) -> Result<u64, EvaluationError> {
    let size = |index: usize| args.get(index).map_or(Ok(1), |it: &Value<'_>| it.size(meter));
    let first = args.first();
    let traversal = |factor: f64| size(0).map(|it| scale(it, factor * TRAVERSAL));
    Ok(match function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            first.map_or(Ok(1), |it| whole(it, meter))?
        }
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR"
        | "quantity" | "isQuantity" | "semver" | "isSemver" | "startsWith" | "endsWith" | "format"
        | "strings.quote" => traversal(1.0)?,
        "bytes" | "string" if matches!(first, Some(Value::String(_) | Value::Bytes(_))) => traversal(1.0)?,
        "ip" if matches!(first, Some(Value::String(_))) => traversal(1.0)?,
        "ip.isCanonical" | "replace" | "split" => traversal(2.0)?,
        "join" => joined(args, meter)?,
        "find" | "findAll" | "matches" => {
            let text = scale(size(0)?.saturating_add(1), TRAVERSAL);
            text.saturating_mul(scale(size(1)?, REGEX))
        }
        "contains" => scale(size(0)?, TRAVERSAL).saturating_mul(scale(size(1)?, TRAVERSAL)),
        "check" => AUTHORIZATION,
        "jsonpatch.escapeKey" => 1,
        "containsIP" | "containsCIDR" => {
            let own = size(0)?;
            let mut cost = scale(own.saturating_mul(2), TRAVERSAL);
            if function == "containsCIDR" {
                cost = cost.saturating_add(scale(own, TRAVERSAL)).saturating_add(1);
            }
            if matches!(args.get(1), Some(Value::String(_))) {
                cost = cost.saturating_add(scale(size(1)?, TRAVERSAL));
            }
            cost
        }
        "validate" => {
            let regex = match first {
                Some(Value::Library(LibraryValue(Library::Format(name)))) => named_formats::regex_size(name),
                _ => 0,
            };
            scale(size(1)?.saturating_add(1), TRAVERSAL).saturating_mul(scale(regex, REGEX))
        }
        "@in" => match args.get(1) {
            Some(list) if list.list_len().is_some() => size(1)?,
            _ => 1,
        },
        "_==_" | "_!=_" if matches!(first, Some(Value::Library(_) | Value::Authorization(_))) => 1,
        "_==_" | "_!=_" => scale(size(0)?.min(size(1)?), TRAVERSAL),
        "_<_" | "_<=_" | "_>_" | "_>=_" if matches!(first, Some(Value::String(_) | Value::Bytes(_))) => {
            scale(size(0)?.min(size(1)?), TRAVERSAL)
        }
        "_+_" if matches!(first, Some(Value::String(_) | Value::Bytes(_))) => {
            scale(size(0)?.saturating_add(size(1)?), TRAVERSAL)
        }
        "sets.contains" | "sets.intersects" => size(0)?.saturating_mul(size(1)?).saturating_add(1),
        "sets.equivalent" => size(0)?.saturating_mul(size(1)?).saturating_mul(2).saturating_add(1),
        "slice" => {
            let bound = |index: usize| match args.get(index) {
                Some(Value::Int(int)) => u64::try_from(*int).unwrap_or(0),
                _ => 0,
            };
            bound(2).saturating_sub(bound(1)).saturating_add(1 + NEW_LIST)
        }
        "lists.range" => match first {
            Some(Value::Int(count)) => u64::try_from(*count).unwrap_or(0).saturating_add(1 + NEW_LIST),
            _ => 1,
        },
        "reverse" => size(0)?.saturating_add(1 + NEW_LIST),
        "flatten" => {
            let depth = match args.get(1) {
                Some(Value::Int(depth)) => u64::try_from(*depth).unwrap_or(0),
                _ => 1,
            };
            size(0)?.saturating_mul(depth).saturating_add(1 + NEW_LIST)
        }
        "distinct" | "sort" => squared(first, meter)?,
        "@sortByAssociatedKeys" => squared(args.get(1), meter)?,
        _ => 1,
    })
}

/// Returns the cost of comparing the items of a list with each other.
fn squared(list: Option<&Value<'_>>, meter: &Meter) -> Result<u64, EvaluationError> {
    let Some(list) = list else { return Ok(1) };
    let size = list.size(meter)?;
    let is_text = matches!(list.item(0, meter), Some(Ok(Value::String(_) | Value::Bytes(_))));
    let factor = if is_text { 2.0 + TRAVERSAL } else { 2.0 };
    let cost = size.saturating_mul(size) as f64 * factor;
    Ok((cost as u64).saturating_add(1 + NEW_LIST))
}

/// Returns the cost of reading all of a value.
fn whole(value: &Value<'_>, meter: &Meter) -> Result<u64, EvaluationError> {
    meter.work(1)?;
    Ok(match value {
        Value::String(text) => (text.len() as f64 * TRAVERSAL) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * TRAVERSAL) as u64,
        list if list.list_len().is_some() => {
            let mut sum = 0_u64;
            for index in 0..list.list_len().unwrap_or(0) {
                if let Some(item) = list.item(index, meter).transpose()? {
                    sum = sum.saturating_add(whole(&item, meter)?);
                }
            }
            sum
        }
        map if map.map_len().is_some() => {
            let mut sum = 0_u64;
            for key in map.keys(meter)? {
                sum = sum.saturating_add(whole(&key, meter)?);
                if let Some(item) = map.entry(&key, meter)? {
                    sum = sum.saturating_add(whole(&item, meter)?);
                }
            }
            sum
        }
        _ => 1,
    })
}

fn joined(args: &[Value<'_>], meter: &Meter) -> Result<u64, EvaluationError> {
    let Some(list) = args.first() else { return Ok(1) };
    let count = list.list_len().unwrap_or(0);
    let separator = args.get(1).map_or(Ok(0), |it| it.size(meter))?;
    let mut size = separator.saturating_mul((count as u64).saturating_sub(1));
    for index in 0..count {
        if let Some(item) = list.item(index, meter).transpose()? {
            size = size.saturating_add(item.size(meter)?);
        }
    }
    Ok(scale(size, 2.0 * TRAVERSAL))
}
