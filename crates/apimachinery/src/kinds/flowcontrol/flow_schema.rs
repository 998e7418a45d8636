//! FlowSchemas.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{at, fill_zero, flag, items, number, object, text};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, StatusMetadata};
use crate::kinds::validate::check::{FieldErrors, required};
use crate::{FieldError, FieldErrorKind};

/// The rules of the kind FlowSchema.
pub(crate) static RULES: KindRules = KindRules {
    group: "flowcontrol.apiserver.k8s.io",
    kind: "FlowSchema",
    plural: "flowschemas",
    traits: KindTraits {
        has_generation: true,
        has_status: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    default: |_, map| fill_zero(object(map, "spec"), "matchingPrecedence", 1000),
    validate_create: |out, object| flow_schema(out, &object["spec"]),
    cells,
    ..COMMON
};

fn flow_schema(out: &mut FieldErrors, spec: &Value) {
    if text(spec, "/priorityLevelConfiguration/name").is_empty() {
        required(out, "spec.priorityLevelConfiguration.name", "must reference a priority level");
    }
    if let Some(kind) = at(spec, "/distinguisherMethod").map(|it| text(it, "/type"))
        && !matches!(kind, "ByNamespace" | "ByUser")
    {
        let shown = format!("{{\"Type\":{}}}", Value::from(kind));
        let detail = "supported values: \"ByNamespace\", \"ByUser\"";
        let field = "spec.distinguisherMethod.type";
        out.push(FieldError::with_value(field, FieldErrorKind::NotSupported, shown, detail));
    }
    for (index, rule) in items(spec, "/rules").iter().enumerate() {
        let path = format!("spec.rules[{index}]");
        if items(rule, "/subjects").is_empty() {
            required(out, &format!("{path}.subjects"), "subjects must contain at least one value");
        }
        if items(rule, "/resourceRules").is_empty() && items(rule, "/nonResourceRules").is_empty() {
            let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
            required(out, &path, detail);
        }
        for (index, rule) in items(rule, "/resourceRules").iter().enumerate() {
            let path = format!("{path}.resourceRules[{index}]");
            let needed = [
                ("verbs", "verbs must contain at least one value"),
                ("apiGroups", "resource rules must supply at least one api group"),
                ("resources", "resource rules must supply at least one resource"),
            ];
            for (key, detail) in needed {
                if items(rule, &format!("/{key}")).is_empty() {
                    required(out, &format!("{path}.{key}"), detail);
                }
            }
            if items(rule, "/namespaces").is_empty() && !flag(rule, "/clusterScope") {
                let detail = "resource rules that are not cluster scoped must supply at least one namespace";
                required(out, &format!("{path}.namespaces"), detail);
            }
        }
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        cells::name(object),
        text(object, "/spec/priorityLevelConfiguration/name").into(),
        number(object, "/spec/matchingPrecedence").unwrap_or(0).into(),
        at(object, "/spec/distinguisherMethod/type").cloned().unwrap_or_else(|| "<none>".into()),
        age::since_creation(object, now),
        cells::find_condition(object, "Dangling").map_or("?", |it| text(it, "/status")).into(),
    ]
}
