//! Validation of the counts in the status of workloads: negative numbers, and counts that exceed
//! the number of replicas.

use serde_json::Value;

use super::check::FieldErrors;
use crate::kinds::json_access::number;
use crate::{FieldError, FieldErrorKind};

/// Checks numbers in a status; `parts` are those of them that count a part of the replicas.
pub(in crate::kinds) fn counts(out: &mut FieldErrors, object: &Value, all: &[&str], parts: &[&str]) {
    let value = |name: &str| number(object, &format!("/status/{name}")).unwrap_or(0);
    let mut report = |name: &str, why: &str| {
        out.push(FieldError::with_value(format!("status.{name}"), FieldErrorKind::Invalid, value(name), why));
    };
    for name in all.iter().filter(|name| value(name) < 0) {
        report(name, "must be greater than or equal to 0");
    }
    for name in parts.iter().filter(|name| value(name) > value("replicas")) {
        report(name, "cannot be greater than status.replicas");
    }
    if parts.contains(&"availableReplicas") && value("availableReplicas") > value("readyReplicas") {
        report("availableReplicas", "cannot be greater than readyReplicas");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::index::of_kind;

    #[test]
    fn numbers_are_not_negative_and_parts_do_not_exceed_the_whole() {
        let found = |status: Value| {
            let mut out = FieldErrors::default();
            let deployment = json!({ "status": status });
            (of_kind("apps", "Deployment").validate_status)(&mut out, &deployment, &json!({}));
            out.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(found(json!({ "replicas": 2, "readyReplicas": 2, "availableReplicas": 1 })).is_empty());
        assert_eq!(
            found(json!({ "replicas": -1, "readyReplicas": 1 })),
            [
                "status.replicas: Invalid value: -1: must be greater than or equal to 0",
                "status.updatedReplicas: Invalid value: 0: cannot be greater than status.replicas",
                "status.readyReplicas: Invalid value: 1: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas",
            ]
        );
    }
}
