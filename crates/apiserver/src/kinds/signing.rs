//! Requests for certificates: who asks is for the server to say, and what was decided stays decided.

use serde_json::{Value, json};

use crate::kinds::look::{at, items, text};
use crate::{Problem, ProblemKind};

/// Conditions that are true or not there.
const DECISIONS: [&str; 3] = ["Approved", "Denied", "Failed"];

/// Writes into the conditions when they came about, where that is not said. Those whose status is what it was have been so since.
pub(crate) fn date_conditions(new: &mut Value, old: &Value, now: &str) {
    let before = items(old, "/status/conditions").to_vec();
    let conditions = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if at(condition, "/lastUpdateTime").is_none() {
            condition["lastUpdateTime"] = now.into();
        }
        if at(condition, "/lastTransitionTime").is_none() {
            let same = |it: &&Value| it["type"] == condition["type"] && it["status"] == condition["status"];
            let since = before.iter().rfind(same).and_then(|it| at(it, "/lastTransitionTime")).cloned();
            condition["lastTransitionTime"] = since.unwrap_or_else(|| json!(now));
        }
    }
}

/// Leaves approval and denial as they were, where a status says as many of them.
pub(crate) fn keep_decisions(new: &mut Value, old: &Value) {
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

/// What is wrong with the new status of a request; `approval` says whether it may be approved and denied here.
pub(crate) fn problems(new: &Value, old: &Value, approval: bool) -> Vec<Problem> {
    let mut out = Vec::new();
    let field = "status.conditions";
    let (mut seen, mut decided) = (Vec::new(), None);
    for (index, condition) in items(new, "/status/conditions").iter().enumerate() {
        let (kind, status) = (text(condition, "/type"), text(condition, "/status"));
        if kind.is_empty() {
            out.push(Problem::new(format!("{field}[{index}].type"), ProblemKind::Required, ""));
        }
        let decision = DECISIONS.contains(&kind);
        if status.is_empty() {
            out.push(Problem::new(format!("{field}[{index}].status"), ProblemKind::Required, ""));
        } else if status != "True" && (decision || !matches!(status, "False" | "Unknown")) {
            let supported = if decision { "\"True\"" } else { "\"False\", \"True\", \"Unknown\"" };
            let (at, value) = (format!("{field}[{index}].status"), json!(status));
            let detail = format!("supported values: {supported}");
            out.push(Problem::with_value(at, ProblemKind::NotSupported, value, &detail));
        }
        if matches!(kind, "Approved" | "Denied") {
            if decided.is_some_and(|it| it != kind) {
                let detail = "Approved and Denied conditions are mutually exclusive";
                out.push(Problem::with_value(field, ProblemKind::Invalid, json!(kind), detail));
            }
            decided = Some(kind);
        }
        if seen.contains(&kind) {
            let at = format!("{field}[{index}].type");
            out.push(Problem::with_value(at, ProblemKind::Duplicate, json!(kind), ""));
        }
        seen.push(kind);
    }
    for kind in DECISIONS {
        let (now, before) = (of_kind(new, kind).count(), of_kind(old, kind).count());
        let mut forbid = |what: &str| {
            let detail = format!("updates may not {what} a condition of type {kind:?}");
            out.push(Problem::new(field, ProblemKind::Forbidden, &detail));
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
        out.push(Problem::new("status.certificate", ProblemKind::Forbidden, detail));
    }
    out
}

fn of_kind<'a>(request: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    items(request, "/status/conditions").iter().filter(move |it| it["type"] == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(conditions: Value) -> Value {
        json!({ "status": { "conditions": conditions } })
    }

    #[test]
    fn conditions_are_dated_and_what_has_not_changed_has_been_so_since() {
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
    fn what_was_decided_stays_decided() {
        let approved = request(json!([{ "type": "Approved", "status": "True", "reason": "first" }]));
        let mut again = request(json!([{ "type": "Approved", "status": "True", "reason": "second" }]));
        keep_decisions(&mut again, &approved);
        assert_eq!(again, approved);
        let open = request(json!([]));
        let said = |new: &Value, old: &Value, approval| -> Vec<String> {
            problems(new, old, approval).iter().map(ToString::to_string).collect()
        };
        assert!(said(&approved, &open, true).is_empty());
        let added = r#"status.conditions: Forbidden: updates may not add a condition of type "Approved""#;
        assert_eq!(said(&approved, &open, false), [added]);
        let removed =
            r#"status.conditions: Forbidden: updates may not remove a condition of type "Approved""#;
        assert_eq!(said(&open, &approved, true), [removed]);
        let denied = request(
            json!([{ "type": "Denied", "status": "False" }, { "type": "X" }, { "type": "X", "status": "?" }]),
        );
        assert_eq!(
            said(&denied, &open, true),
            [
                r#"status.conditions[0].status: Unsupported value: "False": supported values: "True""#,
                "status.conditions[1].status: Required value",
                r#"status.conditions[2].status: Unsupported value: "?": supported values: "False", "True", "Unknown""#,
                r#"status.conditions[2].type: Duplicate value: "X""#,
            ]
        );
    }
}
