//! The selector of the kinds of the group `apps`, and the pod template that it must select.

use serde_json::Value;

use crate::kinds::core::pod::defaults;
use crate::kinds::core::pod::template::{UNMATCHED, restart_policy_always, template as validate_template};
use crate::kinds::json_access::{Object, at, object};
use crate::kinds::validate::check::{FieldErrors, forbidden, invalid, required};
use crate::kinds::validate::selector;
use crate::{FieldError, FieldErrorKind};

/// Validates a selector and the template that it must select. The template of a StatefulSet may
/// differ from the one in its spec.
pub(super) fn selected_template(
    out: &mut FieldErrors,
    spec: &Value,
    template: &Value,
    of: &str,
    must_select: bool,
) {
    let labels = at(spec, "/template/metadata/labels");
    let mut right = true;
    match at(spec, "/selector") {
        None => {
            if must_select {
                required(out, "spec.selector", "");
            }
            right = false;
        }
        Some(chosen) => {
            let before = out.count();
            selector::check(out, chosen, "spec.selector");
            if out.count() > before {
                selector::invalid_selector(out, chosen, "spec.selector", "invalid label selector");
                return validate_template(out, template, "spec.template");
            }
            if selector::is_empty(chosen) {
                selector::invalid_selector(
                    out,
                    chosen,
                    "spec.selector",
                    &format!("empty selector is invalid for {of}"),
                );
            } else {
                right = selector::selects(chosen, labels);
            }
        }
    }
    if !right {
        let shown = labels.cloned().unwrap_or_default();
        invalid(out, "spec.template.metadata.labels", &shown, UNMATCHED);
    }
    validate_template(out, template, "spec.template");
    restart_policy_always(out, spec);
    if at(spec, "/template/spec/activeDeadlineSeconds").is_some() && of == "deployment" {
        let detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
        forbidden(out, "spec.template.spec.activeDeadlineSeconds", detail);
    }
}

/// Reports a problem with a value in kube-apiserver's notation.
pub(super) fn report(out: &mut FieldErrors, kind: FieldErrorKind, field: &str, value: &str, detail: &str) {
    out.push(FieldError::with_value(field, kind, value, detail));
}

/// Returns true if a number or percentage is zero.
pub(super) fn is_zero(value: Option<&Value>) -> bool {
    value.is_some_and(|value| value.as_i64() == Some(0) || value.as_str() == Some("0%"))
}

/// Sets the defaults of the pod template of a spec.
pub(super) fn with_template(spec: &mut Object) {
    defaults::template(object(spec, "template"));
}
