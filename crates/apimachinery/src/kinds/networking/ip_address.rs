//! IPAddresses.

use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{at, text};
use crate::kinds::names;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, NameRule};
use crate::kinds::validate::check::{FieldErrors, invalid_string, required};
use crate::{FieldError, FieldErrorKind};

/// The rules of the kind IPAddress.
pub(crate) static RULES: KindRules = KindRules {
    group: "networking.k8s.io",
    kind: "IPAddress",
    plural: "ipaddresses",
    traits: KindTraits { name: NameRule::Address, ..KindTraits::COMMON },
    validate_create: allocated_address,
    validate_update: Some(validate_update),
    cells: |object, now| vec![cells::name(object), parent(object).into(), age::since_creation(object, now)],
    ..COMMON
};

/// Validates an IPAddress.
fn allocated_address(out: &mut FieldErrors, object: &Value) {
    let Some(parent) = at(object, "/spec/parentRef") else { return required(out, "spec.parentRef", "") };
    for key in ["resource", "name"] {
        let field = format!("spec.parentRef.{key}");
        match text(parent, &format!("/{key}")) {
            "" => required(out, &field, ""),
            value => invalid_string(out, &field, value, names::path_segment(value)),
        }
    }
}

fn validate_update(out: &mut FieldErrors, new: &Value, old: &Value) {
    allocated_address(out, new);
    if at(new, "/spec/parentRef") != at(old, "/spec/parentRef") {
        let part = |key: &str| Value::from(text(new, &format!("/spec/parentRef/{key}")));
        let shown = format!(
            "{{\"Group\":{},\"Resource\":{},\"Namespace\":{},\"Name\":{}}}",
            part("group"),
            part("resource"),
            part("namespace"),
            part("name")
        );
        let detail = "field is immutable";
        out.push(FieldError::with_value("spec.parentRef", FieldErrorKind::Invalid, shown, detail));
    }
}

/// Returns the owner of an IP address: `services/default/web`.
fn parent(address: &Value) -> String {
    let Some(parent) = at(address, "/spec/parentRef") else { return "<none>".to_owned() };
    let parts = ["/resource", "/group"].map(|it| text(parent, it).to_lowercase());
    let resource: Vec<&str> = parts.iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
    let resource = resource.join(".");
    match text(parent, "/namespace") {
        "" => format!("{resource}/{}", text(parent, "/name")),
        namespace => format!("{resource}/{namespace}/{}", text(parent, "/name")),
    }
}
