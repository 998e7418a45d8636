//! PriorityLevelConfigurations.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{Object, at, fill, fill_zero, number, object, object_if_present, text};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, StatusMetadata};
use crate::kinds::validate::check::{FieldErrors, required, unsupported};

/// The rules of the kind PriorityLevelConfiguration.
pub(crate) static RULES: KindRules = KindRules {
    group: "flowcontrol.apiserver.k8s.io",
    kind: "PriorityLevelConfiguration",
    plural: "prioritylevelconfigurations",
    traits: KindTraits {
        has_generation: true,
        has_status: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    default: |_, map| defaults(object(map, "spec")),
    validate_create: |out, object| priority_level(out, &object["spec"]),
    cells,
    ..COMMON
};

fn defaults(spec: &mut Object) {
    if let Some(exempt) = object_if_present(spec, "exempt") {
        fill(exempt, "nominalConcurrencyShares", 0);
        fill(exempt, "lendablePercent", 0);
    }
    if let Some(limited) = object_if_present(spec, "limited") {
        fill(limited, "nominalConcurrencyShares", 30);
        fill(limited, "lendablePercent", 0);
        let queuing =
            object_if_present(limited, "limitResponse").and_then(|it| object_if_present(it, "queuing"));
        if let Some(queuing) = queuing {
            fill_zero(queuing, "handSize", 8);
            fill_zero(queuing, "queues", 64);
            fill_zero(queuing, "queueLengthLimit", 50);
        }
    }
}

fn priority_level(out: &mut FieldErrors, spec: &Value) {
    match text(spec, "/type") {
        "Limited" if at(spec, "/limited").is_none() => {
            required(out, "spec.limited", "must not be empty when type is Limited");
        }
        "Limited" => match text(spec, "/limited/limitResponse/type") {
            "" => required(out, "spec.limited.limitResponse.type", ""),
            "Reject" | "Queue" => {}
            other => {
                let known = ["Queue", "Reject"];
                unsupported(out, "spec.limited.limitResponse.type", &other.into(), &known);
            }
        },
        "Exempt" => {}
        other => unsupported(out, "spec.type", &other.into(), &["Exempt", "Limited"]),
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = |pointer: &str| number(object, pointer).map_or_else(|| "<none>".into(), Value::from);
    vec![
        cells::name(object),
        text(object, "/spec/type").into(),
        count("/spec/limited/nominalConcurrencyShares"),
        count("/spec/limited/limitResponse/queuing/queues"),
        count("/spec/limited/limitResponse/queuing/handSize"),
        count("/spec/limited/limitResponse/queuing/queueLengthLimit"),
        age::since_creation(object, now),
    ]
}
