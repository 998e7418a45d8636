//! CertificateSigningRequests: the timestamps of their conditions, and the permanence of decisions.
//!
//! Mirrors k8s.io/kubernetes v1.36.4 pkg/registry/certificates/certificates/strategy.go and
//! pkg/apis/certificates/validation/validation.go.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::kinds::json_access::{at, items, text};
use crate::{FieldError, FieldErrorKind, FieldErrors, strconv};

/// The length of a time in bytes. kube-apiserver stores whole seconds.
const MAX_TIME: usize = 64;

/// Conditions that are true or absent.
const DECISIONS: [&str; 3] = ["Approved", "Denied", "Failed"];

/// Sets the missing timestamps of conditions. A condition whose status has not changed keeps its
/// transition time.
pub fn date_conditions(new: &mut Value, old: &Value, now: &str) {
    // Of several conditions of one type and status, the last counts.
    let before: HashMap<_, _> =
        items(old, "/status/conditions").iter().map(|it| ((&it["type"], &it["status"]), it)).collect();
    let conditions = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if at(condition, "/lastUpdateTime").is_none() {
            condition["lastUpdateTime"] = now.into();
        }
        if at(condition, "/lastTransitionTime").is_none() {
            let same = before.get(&(&condition["type"], &condition["status"]));
            // Several conditions may be the same as an old one. They are rejected later, but a time
            // with a megabyte of decimals would be copied into each.
            let since = same.map(|it| text(it, "/lastTransitionTime")).filter(|it| it.len() <= MAX_TIME);
            condition["lastTransitionTime"] = since.filter(|it| !it.is_empty()).unwrap_or(now).into();
        }
    }
}

/// Keeps the old approvals and denials if the new status has the same number of them.
pub fn keep_decisions(new: &mut Value, old: &Value) {
    for kind in ["Approved", "Denied"] {
        let before: Vec<Value> = of_kind(old, kind).cloned().collect();
        if of_kind(new, kind).count() != before.len() {
            continue;
        }
        let conditions = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        let same = conditions.into_iter().flatten().filter(|it| it["type"] == kind);
        same.zip(before).for_each(|(slot, it)| *slot = it);
    }
}

/// Returns the problems of the new status of a request; `approval` permits adding `Approved` and
/// `Denied`.
pub fn problems(new: &Value, old: &Value, approval: bool) -> FieldErrors {
    let mut out = FieldErrors::new();
    let field = "status.conditions";
    let (mut seen, mut decided) = (HashSet::new(), None);
    for (index, condition) in items(new, "/status/conditions").iter().enumerate() {
        let (kind, status) = (text(condition, "/type"), text(condition, "/status"));
        if kind.is_empty() {
            out.push(FieldError::new(format!("{field}[{index}].type"), FieldErrorKind::Required, ""));
        }
        let decision = DECISIONS.contains(&kind);
        if status.is_empty() {
            out.push(FieldError::new(format!("{field}[{index}].status"), FieldErrorKind::Required, ""));
        } else if status != "True" && (decision || !matches!(status, "False" | "Unknown")) {
            let supported = if decision { "\"True\"" } else { "\"False\", \"True\", \"Unknown\"" };
            let (at, value) = (format!("{field}[{index}].status"), strconv::quote(status));
            let detail = format!("supported values: {supported}");
            out.push(FieldError::with_value(at, FieldErrorKind::NotSupported, value, &detail));
        }
        if matches!(kind, "Approved" | "Denied") {
            if decided.is_some_and(|it| it != kind) {
                let detail = "Approved and Denied conditions are mutually exclusive";
                out.push(FieldError::with_value(
                    field,
                    FieldErrorKind::Invalid,
                    strconv::quote(kind),
                    detail,
                ));
            }
            decided = Some(kind);
        }
        if !seen.insert(kind) {
            let at = format!("{field}[{index}].type");
            out.push(FieldError::with_value(at, FieldErrorKind::Duplicate, strconv::quote(kind), ""));
        }
    }
    for kind in DECISIONS {
        let (now, before) = (of_kind(new, kind).count(), of_kind(old, kind).count());
        let mut forbid = |what: &str| {
            let detail = format!("updates may not {what} a condition of type {kind:?}");
            out.push(FieldError::new(field, FieldErrorKind::Forbidden, &detail));
        };
        if now < before {
            forbid("remove");
        } else if now > before && !approval && kind != "Failed" {
            forbid("add");
        }
    }
    let certificate = |it: &Value| text(it, "/status/certificate").to_owned();
    if !approval && !certificate(old).is_empty() && certificate(new) != certificate(old) {
        let detail = "updates may not modify existing certificate content";
        out.push(FieldError::new("status.certificate", FieldErrorKind::Forbidden, detail));
    }
    out
}

fn of_kind<'a>(request: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    items(request, "/status/conditions").iter().filter(move |it| it["type"] == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(conditions: Value) -> Value {
        json!({ "status": { "conditions": conditions } })
    }

    #[test]
    fn conditions_get_timestamps_and_unchanged_ones_keep_their_transition_time() {
        let old = request(json!([{ "type": "A", "status": "True", "lastTransitionTime": "t1" }]));
        let mut new = request(
            json!([{ "type": "A", "status": "True" }, { "type": "B", "status": "True", "lastUpdateTime": "t0" }]),
        );
        date_conditions(&mut new, &old, "t2");
        assert_eq!(
            new,
            request(json!([
                { "type": "A", "status": "True", "lastUpdateTime": "t2", "lastTransitionTime": "t1" },
                { "type": "B", "status": "True", "lastUpdateTime": "t0", "lastTransitionTime": "t2" },
            ]))
        );
    }

    #[test]
    fn a_long_transition_time_is_not_copied() {
        let long = format!("2020-01-01T00:00:00.{}Z", "0".repeat(100_000));
        let old = request(json!([{ "type": "A", "status": "True", "lastTransitionTime": long }]));
        let mut new = request(json!(vec![json!({ "type": "A", "status": "True" }); 100]));
        date_conditions(&mut new, &old, "2026-01-01T00:00:00Z");
        assert!(new.to_string().len() < 100_000);
    }

    #[test]
    fn decisions_are_permanent() {
        let approved = request(json!([{ "type": "Approved", "status": "True", "reason": "first" }]));
        let mut again = request(json!([{ "type": "Approved", "status": "True", "reason": "second" }]));
        keep_decisions(&mut again, &approved);
        assert_eq!(again, approved);
        let open = request(json!([]));
        let found = |new: &Value, old: &Value, approval| -> Vec<String> {
            problems(new, old, approval).iter().map(ToString::to_string).collect()
        };
        assert!(found(&approved, &open, true).is_empty());
        let added = r#"status.conditions: Forbidden: updates may not add a condition of type "Approved""#;
        assert_eq!(found(&approved, &open, false), [added]);
        let removed =
            r#"status.conditions: Forbidden: updates may not remove a condition of type "Approved""#;
        assert_eq!(found(&open, &approved, true), [removed]);
        let denied = request(
            json!([{ "type": "Denied", "status": "False" }, { "type": "X" }, { "type": "X", "status": "?" }]),
        );
        assert_eq!(
            found(&denied, &open, true),
            [
                r#"status.conditions[0].status: Unsupported value: "False": supported values: "True""#,
                "status.conditions[1].status: Required value",
                r#"status.conditions[2].status: Unsupported value: "?": supported values: "False", "True", "Unknown""#,
                r#"status.conditions[2].type: Duplicate value: "X""#,
            ]
        );
    }
}
