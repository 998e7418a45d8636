//! PriorityClasses.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{at, fill, flag, number, text};
use crate::kinds::rules::{COMMON, KindRules, Undeletable};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::check::{FieldErrors, forbidden, immutable, one_of};

/// The rules of the kind PriorityClass.
pub(crate) static RULES: KindRules = KindRules {
    group: "scheduling.k8s.io",
    kind: "PriorityClass",
    plural: "priorityclasses",
    traits: KindTraits { has_generation: true, ..KindTraits::COMMON },
    metadata_passes: MetadataPasses { labels: 3, fixed: 2, finalizers: 1 },
    default: |_, map| fill(map, "preemptionPolicy", "PreemptLowerPriority"),
    // `PrepareForUpdate` in k8s.io/kubernetes v1.36.4
    // pkg/registry/scheduling/priorityclass/strategy.go does nothing.
    counts_updates: Some(false),
    validate_create: priority_class,
    validate_update: Some(validate_update),
    // `REST.Delete` in k8s.io/kubernetes v1.36.4
    // pkg/registry/scheduling/priorityclass/storage/storage.go, which a deletion of all classes
    // does not call.
    undeletable: Some(Undeletable {
        names: &["system-node-critical", "system-cluster-critical"],
        why: "this is a system priority class and cannot be deleted",
        in_collections: false,
    }),
    cells,
    ..COMMON
};

fn priority_class(out: &mut FieldErrors, object: &Value) {
    let name = text(object, "/metadata/name");
    let system = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
    let value = number(object, "/value").unwrap_or(0);
    if name.starts_with("system-") {
        let known = system.contains(&(name, value)) && !flag(object, "/globalDefault");
        if !known {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. \
                 error: {name} is not a known system priority class"
            );
            forbidden(out, "metadata.name", &detail);
        }
    } else if value > 1_000_000_000 {
        forbidden(out, "value", "maximum allowed value of a user defined priority is 1000000000");
    }
    if at(object, "/preemptionPolicy").is_some() {
        let policies = ["PreemptLowerPriority", "Never"];
        one_of(out, object, "/preemptionPolicy", "preemptionPolicy", &policies);
    }
}

fn validate_update(out: &mut FieldErrors, new: &Value, old: &Value) {
    priority_class(out, new);
    if new.get("value") != old.get("value") {
        forbidden(out, "value", "may not be changed in an update.");
    } else {
        immutable(out, new, old, "/preemptionPolicy", "preemptionPolicy");
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        cells::name(object),
        number(object, "/value").unwrap_or(0).into(),
        flag(object, "/globalDefault").into(),
        age::since_creation(object, now),
        text(object, "/preemptionPolicy").into(),
    ]
}
