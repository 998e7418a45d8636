//! PodDisruptionBudgets.

use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{at, number};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses, NameRule};
use crate::kinds::validate::check::{FieldErrors, at_most_100_percent, number_or_percent, one_of};
use crate::kinds::validate::selector;
use crate::{FieldError, FieldErrorKind};

/// The rules of the kind PodDisruptionBudget.
pub(crate) static RULES: KindRules = KindRules {
    group: "policy",
    kind: "PodDisruptionBudget",
    plural: "poddisruptionbudgets",
    traits: KindTraits {
        requires_version_on_update: true,
        has_generation: true,
        has_status: true,
        name: NameRule::PathSegment,
        ..KindTraits::COMMON
    },
    metadata_passes: MetadataPasses { labels: 2, fixed: 1, finalizers: 0 },
    finalizers_need_domain: false,
    validate_create: |out, object| disruption_budget(out, &object["spec"]),
    cells: |object, now| {
        let allowed = number(object, "/status/disruptionsAllowed").unwrap_or(0).into();
        let bound = |field: &str| Value::from(int_or_text(object, field));
        let (least, most) = (bound("/spec/minAvailable"), bound("/spec/maxUnavailable"));
        vec![cells::name(object), least, most, allowed, age::since_creation(object, now)]
    },
    ..COMMON
};

fn disruption_budget(out: &mut FieldErrors, spec: &Value) {
    let part = |key: &str| at(spec, &format!("/{key}")).cloned().unwrap_or_default();
    if at(spec, "/minAvailable").is_some() && at(spec, "/maxUnavailable").is_some() {
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            part("minAvailable"),
            part("selector"),
            part("maxUnavailable"),
            part("unhealthyPodEvictionPolicy"),
        );
        let detail = "minAvailable and maxUnavailable cannot be both set";
        out.push(FieldError::with_value("spec", FieldErrorKind::Invalid, shown, detail));
    }
    for key in ["minAvailable", "maxUnavailable"] {
        number_or_percent(out, spec, &format!("/{key}"), &format!("spec.{key}"));
        at_most_100_percent(out, spec, &format!("/{key}"), &format!("spec.{key}"));
    }
    if let Some(chosen) = at(spec, "/selector") {
        selector::check(out, chosen, "spec.selector");
    }
    if at(spec, "/unhealthyPodEvictionPolicy").is_some() {
        let (field, known) = ("spec.unhealthyPodEvictionPolicy", ["AlwaysAllow", "IfHealthyBudget"]);
        one_of(out, spec, "/unhealthyPodEvictionPolicy", field, &known);
    }
}

fn int_or_text(object: &Value, pointer: &str) -> String {
    match at(object, pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "N/A".to_owned(),
    }
}
