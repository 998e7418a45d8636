//! Validation of pod templates in other kinds.

use serde_json::Value;

use super::spec::spec;
use crate::kinds::json_access::{items, text};
use crate::kinds::validate::check::{FieldErrors, forbidden, unsupported};
use crate::kinds::validate::metadata::{annotations, labels};

/// The message for labels of a template that the selector of its owner does not match.
pub(in crate::kinds) const UNMATCHED: &str = "`selector` does not match template `labels`";

/// Validates a pod template at this path.
pub(in crate::kinds) fn template(out: &mut FieldErrors, template: &Value, field: &str) {
    labels(out, template, "/metadata/labels", &format!("{field}.labels"));
    annotations(out, template, "/metadata/annotations", &format!("{field}.annotations"));
    spec(out, &template["spec"], &format!("{field}.spec"));
    if !items(template, "/spec/ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        forbidden(out, &format!("{field}.spec.ephemeralContainers"), detail);
    }
}

/// Checks that the pods of a template at `/template` are always restarted.
pub(in crate::kinds) fn restart_policy_always(out: &mut FieldErrors, spec: &Value) {
    let policy = text(spec, "/template/spec/restartPolicy");
    if matches!(policy, "OnFailure" | "Never") {
        unsupported(out, "spec.template.spec.restartPolicy", &policy.into(), &["Always"]);
    }
}
