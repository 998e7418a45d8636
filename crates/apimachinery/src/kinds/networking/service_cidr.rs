//! ServiceCIDRs.

use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::items;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::KindTraits;
use crate::kinds::validate::check::{FieldErrors, cidr, required};

/// The rules of the kind ServiceCIDR.
pub(crate) static RULES: KindRules = KindRules {
    group: "networking.k8s.io",
    kind: "ServiceCIDR",
    plural: "servicecidrs",
    traits: KindTraits { has_status: true, ..KindTraits::COMMON },
    validate_create: service_range,
    cells: |object, now| {
        let ranges = items(object, "/spec/cidrs").iter().filter_map(Value::as_str);
        let ranges = ranges.collect::<Vec<_>>().join(",").into();
        vec![cells::name(object), ranges, age::since_creation(object, now)]
    },
    ..COMMON
};

/// Validates a ServiceCIDR.
fn service_range(out: &mut FieldErrors, object: &Value) {
    let ranges = items(object, "/spec/cidrs");
    if ranges.is_empty() {
        required(out, "spec.cidrs", "at least one CIDR required");
    }
    for (index, range) in ranges.iter().filter_map(Value::as_str).enumerate() {
        cidr(out, &format!("spec.cidrs[{index}]"), range);
    }
}
