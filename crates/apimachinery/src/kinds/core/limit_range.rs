//! LimitRanges.

use serde_json::Value;

use crate::kinds::cells;
use crate::kinds::json_access::{Object, each, object, text};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::limits;

/// The rules of the kind LimitRange.
pub(crate) static RULES: KindRules = KindRules {
    group: "",
    kind: "LimitRange",
    plural: "limitranges",
    traits: KindTraits { allow_create_on_update: true, ..KindTraits::COMMON },
    metadata_passes: MetadataPasses { labels: 3, fixed: 1, finalizers: 1 },
    default: defaults,
    validate_create: limits::range,
    cells: |object, _| vec![cells::name(object), text(object, "/metadata/creationTimestamp").into()],
    ..COMMON
};

fn defaults(_: &str, map: &mut Object) {
    let spec = object(map, "spec");
    for limit in each(spec, "limits") {
        if limit.get("type").and_then(Value::as_str) != Some("Container") {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let Some(known) = limit.get(from).and_then(Value::as_object).cloned() else { continue };
            let filled = object(limit, to);
            for (name, value) in known {
                filled.entry(name).or_insert(value);
            }
        }
    }
}
