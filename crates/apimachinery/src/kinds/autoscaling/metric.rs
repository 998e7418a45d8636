//! Conversion of a metric between version 2 and the older form that annotations hold.

use serde_json::{Map, Value, json};

use super::annotation::{FieldType, Fields};
use crate::kinds::json_access::at;
use crate::kinds::quantity::Quantity;

/// The fields of metrics in the old form, both specified and measured.
pub(super) const FIELDS: Fields = &[
    ("type", FieldType::String),
    ("object", FieldType::Object),
    ("pods", FieldType::Object),
    ("resource", FieldType::Object),
    ("containerResource", FieldType::Object),
    ("external", FieldType::Object),
    ("target", FieldType::Object),
    ("kind", FieldType::String),
    ("name", FieldType::String),
    ("apiVersion", FieldType::String),
    ("metricName", FieldType::String),
    ("metricSelector", FieldType::Object),
    ("targetAverageUtilization", FieldType::Number),
    ("currentAverageUtilization", FieldType::Number),
    ("targetValue", FieldType::Quantity),
    ("currentValue", FieldType::Quantity),
    ("targetAverageValue", FieldType::Quantity),
    ("currentAverageValue", FieldType::Quantity),
    ("selector", FieldType::Object),
    ("averageValue", FieldType::Quantity),
    ("container", FieldType::String),
    ("matchLabels", FieldType::StringMap),
    ("matchExpressions", FieldType::Objects),
    ("key", FieldType::String),
    ("operator", FieldType::String),
    ("values", FieldType::Strings),
];

/// The names of one metric source in both versions: of the fields that identify it, and of those it
/// measures.
///
/// Each pair is a field of version 2, as a pointer, and the old field; `#` stands for `target` or
/// `current`.
struct Source {
    name: &'static str,
    names: &'static [(&'static str, &'static str)],
    amounts: &'static [(&'static str, &'static str)],
}

const SOURCES: &[Source] = &[
    Source {
        name: "object",
        names: &[
            ("/describedObject", "target"),
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
        ],
        amounts: &[("value", "#Value"), ("averageValue", "averageValue")],
    },
    Source {
        name: "pods",
        names: &[("/metric/name", "metricName"), ("/metric/selector", "selector")],
        amounts: &[("averageValue", "#AverageValue")],
    },
    Source {
        name: "resource",
        names: &[("/name", "name")],
        amounts: &[("averageUtilization", "#AverageUtilization"), ("averageValue", "#AverageValue")],
    },
    Source {
        name: "containerResource",
        names: &[("/name", "name"), ("/container", "container")],
        amounts: &[("averageUtilization", "#AverageUtilization"), ("averageValue", "#AverageValue")],
    },
    Source {
        name: "external",
        names: &[("/metric/name", "metricName"), ("/metric/selector", "metricSelector")],
        amounts: &[("value", "#Value"), ("averageValue", "#AverageValue")],
    },
];

/// Converts a metric spec to the old form.
pub(super) fn to_old_spec(metric: &Value) -> Value {
    to_old(metric, "target", |source| if source == "object" { Some("targetValue") } else { None })
}

/// Converts a metric status to the old form. One quantity of each source is always present.
pub(super) fn to_old_status(metric: &Value) -> Value {
    to_old(metric, "current", |source| match source {
        "object" | "external" => Some("currentValue"),
        _ => Some("currentAverageValue"),
    })
}

/// Converts a metric spec from the old form.
pub(super) fn from_old_spec(old: &Value) -> Value {
    from_old(old, "target", |source, amounts| {
        let has = |name: &str| amounts.contains_key(name);
        let kind = match source {
            "object" if has("averageValue") => {
                // The old field could not be omitted, so a zero means that it was not set.
                let zero = |it: &Value| Quantity::read(it).is_some_and(Quantity::is_zero);
                if amounts.get("value").is_some_and(zero) {
                    amounts.remove("value");
                }
                "AverageValue"
            }
            "object" => "Value",
            "external" if has("value") => "Value",
            "resource" | "containerResource" if has("averageUtilization") => "Utilization",
            _ => "AverageValue",
        };
        amounts.insert("type".to_owned(), kind.into());
    })
}

/// Converts a metric status from the old form.
pub(super) fn from_old_status(old: &Value) -> Value {
    from_old(old, "current", |_, _| {})
}

fn to_old(metric: &Value, side: &str, always: impl Fn(&str) -> Option<&'static str>) -> Value {
    let mut out = Map::new();
    out.insert("type".to_owned(), metric["type"].clone());
    for source in SOURCES {
        let Some(from) = at(metric, &format!("/{}", source.name)) else { continue };
        let mut old = Map::new();
        for (name, old_name) in source.names {
            old.extend(at(from, name).map(|it| ((*old_name).to_owned(), it.clone())));
        }
        for (name, old_name) in source.amounts {
            let value = at(from, &format!("/{side}/{name}"));
            old.extend(value.map(|it| (old_name.replace('#', side), it.clone())));
        }
        if let Some(name) = always(source.name) {
            old.entry(name).or_insert("0".into());
        }
        out.insert(source.name.to_owned(), old.into());
    }
    out.into()
}

fn from_old(old: &Value, side: &str, finish: impl Fn(&str, &mut Map<String, Value>)) -> Value {
    let mut out = Map::new();
    out.insert("type".to_owned(), old["type"].as_str().unwrap_or_default().into());
    for source in SOURCES {
        let Some(from) = at(old, &format!("/{}", source.name)) else { continue };
        let mut new = json!({});
        for (name, old_name) in source.names {
            let Some(value) = from.get(*old_name) else { continue };
            match name.strip_prefix("/metric/") {
                Some(name) => new["metric"][name] = value.clone(),
                None => new[&name[1..]] = value.clone(),
            }
        }
        let mut amounts = Map::new();
        for (name, old_name) in source.amounts {
            let value = from.get(old_name.replace('#', side));
            amounts.extend(value.map(|it| ((*name).to_owned(), it.clone())));
        }
        finish(source.name, &mut amounts);
        new[side] = amounts.into();
        out.insert(source.name.to_owned(), new);
    }
    out.into()
}
