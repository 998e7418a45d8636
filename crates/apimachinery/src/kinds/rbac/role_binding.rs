//! RoleBindings and ClusterRoleBindings.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{Object, each, fill, items, object, text};
use crate::kinds::names;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, NameRule};
use crate::kinds::validate::check::{FieldErrors, invalid_string, one_of, required, unsupported};
use crate::{FieldError, FieldErrorKind};

/// The rules of the kind RoleBinding.
pub static ROLE_BINDING: KindRules = KindRules {
    group: "rbac.authorization.k8s.io",
    kind: "RoleBinding",
    plural: "rolebindings",
    traits: KindTraits { allow_create_on_update: true, name: NameRule::PathSegment, ..KindTraits::COMMON },
    default: defaults,
    validate_create: |out, object| binding(out, object, "RoleBinding"),
    validate_update: Some(|out, new, old| {
        binding(out, new, "RoleBinding");
        fixed_role(out, new, old);
    }),
    cells,
    ..COMMON
};

/// The rules of the kind ClusterRoleBinding.
pub static CLUSTER_ROLE_BINDING: KindRules = KindRules {
    group: "rbac.authorization.k8s.io",
    kind: "ClusterRoleBinding",
    plural: "clusterrolebindings",
    traits: KindTraits { allow_create_on_update: true, name: NameRule::PathSegment, ..KindTraits::COMMON },
    default: defaults,
    validate_create: |out, object| binding(out, object, "ClusterRoleBinding"),
    validate_update: Some(|out, new, old| {
        binding(out, new, "ClusterRoleBinding");
        fixed_role(out, new, old);
    }),
    cells,
    ..COMMON
};

const RBAC: &str = "rbac.authorization.k8s.io";

fn defaults(_: &str, map: &mut Object) {
    fill(object(map, "roleRef"), "apiGroup", RBAC);
    for subject in each(map, "subjects") {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            fill(subject, "apiGroup", RBAC);
        }
    }
}

fn binding(out: &mut FieldErrors, object: &Value, kind: &str) {
    let group = text(object, "/roleRef/apiGroup");
    if group != RBAC {
        unsupported(out, "roleRef.apiGroup", &group.into(), &[RBAC]);
    }
    let kinds: &[&str] = if kind == "RoleBinding" { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    one_of(out, object, "/roleRef/kind", "roleRef.kind", kinds);
    match text(object, "/roleRef/name") {
        "" => required(out, "roleRef.name", ""),
        name => invalid_string(out, "roleRef.name", name, names::path_segment(name)),
    }
    for (index, subject) in items(object, "/subjects").iter().enumerate() {
        let path = format!("subjects[{index}]");
        let name = text(subject, "/name");
        if name.is_empty() {
            required(out, &format!("{path}.name"), "");
        }
        let group = text(subject, "/apiGroup");
        match text(subject, "/kind") {
            "ServiceAccount" => {
                if !name.is_empty() {
                    invalid_string(out, &format!("{path}.name"), name, names::subdomain(name));
                }
                if !group.is_empty() {
                    unsupported(out, &format!("{path}.apiGroup"), &group.into(), &[""]);
                }
                if kind == "ClusterRoleBinding" && text(subject, "/namespace").is_empty() {
                    required(out, &format!("{path}.namespace"), "");
                }
            }
            "User" | "Group" => {
                if group != RBAC {
                    unsupported(out, &format!("{path}.apiGroup"), &group.into(), &[RBAC]);
                }
            }
            other => {
                let known = ["ServiceAccount", "User", "Group"];
                unsupported(out, &format!("{path}.kind"), &other.into(), &known);
            }
        }
    }
}

fn fixed_role(out: &mut FieldErrors, new: &Value, old: &Value) {
    if new.get("roleRef") != old.get("roleRef") {
        let part = |key: &str| Value::from(text(new, &format!("/roleRef/{key}")));
        let shown = format!(
            "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
            part("apiGroup"),
            part("kind"),
            part("name")
        );
        out.push(FieldError::with_value("roleRef", FieldErrorKind::Invalid, shown, "cannot change roleRef"));
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let age = age::since_creation(object, now);
    let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
    let subjects = |kind: &str| {
        let list: Vec<String> = items(object, "/subjects")
            .iter()
            .filter(|subject| text(subject, "/kind") == kind)
            .map(|subject| match kind {
                "ServiceAccount" => format!("{}/{}", text(subject, "/namespace"), text(subject, "/name")),
                _ => text(subject, "/name").to_owned(),
            })
            .collect();
        Value::from(list.join(", "))
    };
    vec![
        cells::name(object),
        role.into(),
        age,
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
