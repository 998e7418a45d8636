//! The functions of lists and sets: cel-go v0.26.0 ext/{lists,sets}.go and k8s.io/apiserver v0.36.4
//! pkg/cel/library/lists.go.

use std::cmp::Ordering;

use super::error::EvaluationError;
use super::meter::Meter;
use super::operators::add;
use super::value::{Value, equal, order, plain_order};

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// Calls a function of lists; `None` if there is none for these arguments.
pub(crate) fn call<'a>(function: &str, args: &[Value<'a>], meter: &Meter) -> Option<Outcome<'a>> {
    if let ("lists.range", [Value::Int(count)]) = (function, args) {
        return Some(range(*count, meter));
    }
    let list = args.first().filter(|it| it.list_len().is_some())?;
    Some(match (function, args.get(1..).unwrap_or_default()) {
        ("isSorted", []) => is_sorted(list, meter),
        ("sum", []) => sum(list, meter),
        ("min", []) => extreme(list, Ordering::Less, meter),
        ("max", []) => extreme(list, Ordering::Greater, meter),
        ("indexOf", [item]) => position(list, item, false, meter),
        ("lastIndexOf", [item]) => position(list, item, true, meter),
        ("slice", [Value::Int(start), Value::Int(end)]) => slice(list, *start, *end, meter),
        ("flatten", []) => flatten(list, 1, meter),
        ("flatten", [Value::Int(depth)]) => flatten(list, *depth, meter),
        ("sort", []) => items(list, meter).and_then(|keys| sorted(keys.clone(), keys, meter)),
        ("@sortByAssociatedKeys", [keys]) => {
            items(list, meter).and_then(|it| sorted(it, items(keys, meter)?, meter))
        }
        ("reverse", []) => items(list, meter).map(|mut items| {
            items.reverse();
            Value::list(items)
        }),
        ("distinct", []) => distinct(list, meter),
        ("first", []) => optional_item(list, Some(0), meter),
        ("last", []) => optional_item(list, list.list_len().unwrap_or(0).checked_sub(1), meter),
        ("unwrapOpt" | "optional.unwrap", []) => unwrap(list, meter),
        ("sets.contains", [other]) => contains_all(list, other, meter).map(Value::Bool),
        ("sets.equivalent", [other]) => contains_all(list, other, meter)
            .and_then(|it| Ok(it && contains_all(other, list, meter)?))
            .map(Value::Bool),
        ("sets.intersects", [other]) => intersects(list, other, meter).map(Value::Bool),
        _ => return None,
    })
}

fn items<'a>(list: &Value<'a>, meter: &Meter) -> Result<Vec<Value<'a>>, EvaluationError> {
    let length = list.list_len().ok_or_else(EvaluationError::no_such_overload)?;
    meter.allocate(length.saturating_mul(size_of::<Value<'_>>()))?;
    (0..length).filter_map(|index| list.item(index, meter)).collect()
}

fn range<'a>(count: i64, meter: &Meter) -> Outcome<'a> {
    let length = usize::try_from(count).unwrap_or(0);
    meter.allocate(length.saturating_mul(size_of::<Value<'_>>()))?;
    Ok(Value::list((0..count).map(Value::Int).collect()))
}

fn is_sorted<'a>(list: &Value<'a>, meter: &Meter) -> Outcome<'a> {
    let items = items(list, meter)?;
    for pair in items.windows(2) {
        if let [one, two] = pair
            && order(one, two, meter)? == Some(Ordering::Greater)
        {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(list: &Value<'a>, meter: &Meter) -> Outcome<'a> {
    let mut items = items(list, meter)?.into_iter();
    // The type of an empty list is not known here; of all types that have a sum, integers are the
    // usual ones.
    let first = items.next().unwrap_or(Value::Int(0));
    items.try_fold(first, |sum, item| add(sum, item, meter))
}

fn extreme<'a>(list: &Value<'a>, wanted: Ordering, meter: &Meter) -> Outcome<'a> {
    let mut items = items(list, meter)?.into_iter();
    let Some(mut best) = items.next() else {
        let name = if wanted == Ordering::Less { "min" } else { "max" };
        return Err(EvaluationError::failed(format!("{name} called on empty list")));
    };
    for item in items {
        if order(&item, &best, meter)? == Some(wanted) {
            best = item;
        }
    }
    Ok(best)
}

fn position<'a>(list: &Value<'a>, wanted: &Value<'a>, from_end: bool, meter: &Meter) -> Outcome<'a> {
    let length = list.list_len().unwrap_or(0);
    for step in 0..length {
        let index = if from_end { length - 1 - step } else { step };
        if let Some(item) = list.item(index, meter).transpose()?
            && equal(&item, wanted, meter)?
        {
            return Ok(Value::Int(i64::try_from(index).unwrap_or(i64::MAX)));
        }
    }
    Ok(Value::Int(-1))
}

fn slice<'a>(list: &Value<'a>, start: i64, end: i64, meter: &Meter) -> Outcome<'a> {
    let length = i64::try_from(list.list_len().unwrap_or(0)).unwrap_or(i64::MAX);
    let problem = if start < 0 || end < 0 {
        format!("cannot slice({start}, {end}), negative indexes not supported")
    } else if start > end {
        format!("cannot slice({start}, {end}), start index must be less than or equal to end index")
    } else if length < end {
        format!("cannot slice({start}, {end}), list is length {length}")
    } else {
        let (start, end) = (usize::try_from(start).unwrap_or(0), usize::try_from(end).unwrap_or(0));
        meter.allocate((end - start).saturating_mul(size_of::<Value<'_>>()))?;
        let items: Result<Vec<_>, _> = (start..end).filter_map(|index| list.item(index, meter)).collect();
        return Ok(Value::list(items?));
    };
    Err(EvaluationError::failed(problem))
}

fn flatten<'a>(list: &Value<'a>, depth: i64, meter: &Meter) -> Outcome<'a> {
    if depth < 0 {
        return Err(EvaluationError::failed("level must be non-negative"));
    }
    let mut current = items(list, meter)?;
    // Nested lists are no deeper than JSON or the expression.
    for _ in 0..depth.min(1_000) {
        let mut next = Vec::new();
        let mut has_nested = false;
        for item in current {
            if item.list_len().is_some() {
                has_nested = true;
                next.extend(items(&item, meter)?);
            } else {
                meter.allocate(size_of::<Value<'_>>())?;
                next.push(item);
            }
        }
        current = next;
        if !has_nested {
            break;
        }
    }
    Ok(Value::list(current))
}

/// Sorts a list by keys, of which there is one for each item.
fn sorted<'a>(items: Vec<Value<'a>>, keys: Vec<Value<'a>>, meter: &Meter) -> Outcome<'a> {
    if items.len() != keys.len() {
        return Err(EvaluationError::failed("keys and list must have the same length"));
    }
    for key in &keys {
        // Each key is compared about as often as the logarithm of their number.
        let size = match key {
            Value::String(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 1,
        };
        meter.work(u64::from(keys.len().ilog2()).saturating_mul(size as u64))?;
        if let Some(first) = keys.first() {
            order(first, key, meter)?;
        }
    }
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = keys.into_iter().zip(items).collect();
    // Sorting needs a total order: what is no number comes first.
    let is_nan = |it: &Value<'_>| matches!(it, Value::Double(it) if it.is_nan());
    pairs.sort_by(|(one, _), (two, _)| {
        is_nan(two).cmp(&is_nan(one)).then_with(|| plain_order(one, two).unwrap_or(Ordering::Equal))
    });
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

fn distinct<'a>(list: &Value<'a>, meter: &Meter) -> Outcome<'a> {
    let mut kept: Vec<Value<'a>> = Vec::new();
    'items: for item in items(list, meter)? {
        for known in &kept {
            if equal(known, &item, meter)? {
                continue 'items;
            }
        }
        kept.push(item);
    }
    Ok(Value::list(kept))
}

fn optional_item<'a>(list: &Value<'a>, index: Option<usize>, meter: &Meter) -> Outcome<'a> {
    let item = index.and_then(|it| list.item(it, meter)).transpose()?;
    Ok(Value::Optional(item.map(std::sync::Arc::new)))
}

fn unwrap<'a>(list: &Value<'a>, meter: &Meter) -> Outcome<'a> {
    let mut present = Vec::new();
    for item in items(list, meter)? {
        match item {
            Value::Optional(Some(inner)) => present.push((*inner).clone()),
            Value::Optional(None) => {}
            _ => return Err(EvaluationError::no_such_overload()),
        }
    }
    Ok(Value::list(present))
}

/// Returns true if a list has an item.
pub(crate) fn contains<'a>(
    list: &Value<'a>,
    wanted: &Value<'a>,
    meter: &Meter,
) -> Result<bool, EvaluationError> {
    for index in 0..list.list_len().unwrap_or(0) {
        if let Some(item) = list.item(index, meter).transpose()?
            && equal(&item, wanted, meter)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn contains_all<'a>(list: &Value<'a>, wanted: &Value<'a>, meter: &Meter) -> Result<bool, EvaluationError> {
    for item in items(wanted, meter)? {
        if !contains(list, &item, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(one: &Value<'a>, two: &Value<'a>, meter: &Meter) -> Result<bool, EvaluationError> {
    for item in items(two, meter)? {
        if contains(one, &item, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}
