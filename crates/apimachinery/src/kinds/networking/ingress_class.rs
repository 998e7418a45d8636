//! IngressClasses.

use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{Object, at, fill, object, object_if_present, text};
use crate::kinds::names;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::KindTraits;
use crate::kinds::validate::check::{
    FieldErrors, forbidden, immutable, invalid, invalid_string, one_of, required,
};

/// The rules of the kind IngressClass.
pub(crate) static RULES: KindRules = KindRules {
    group: "networking.k8s.io",
    kind: "IngressClass",
    plural: "ingressclasses",
    traits: KindTraits { has_generation: true, ..KindTraits::COMMON },
    default: defaults,
    validate_create: validate,
    validate_update: Some(|out, new, old| {
        validate(out, new);
        immutable(out, new, old, "/spec/controller", "spec.controller");
    }),
    cells: |object, now| {
        let controller = text(object, "/spec/controller").into();
        vec![cells::name(object), controller, parameters(object).into(), age::since_creation(object, now)]
    },
    ..COMMON
};

fn defaults(_: &str, map: &mut Object) {
    if let Some(parameters) = object_if_present(object(map, "spec"), "parameters") {
        fill(parameters, "scope", "Cluster");
    }
}

fn validate(out: &mut FieldErrors, object: &Value) {
    controller(out, text(object, "/spec/controller"));
    if let Some(parameters) = at(object, "/spec/parameters") {
        class_parameters(out, parameters);
    }
}

fn controller(out: &mut FieldErrors, name: &str) {
    let field = "spec.controller";
    let (domain, path) = name.split_once('/').unwrap_or((name, ""));
    if name.is_empty() {
        required(out, field, "");
    } else if path.is_empty() {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        invalid(out, field, &name.into(), detail);
    } else {
        invalid_string(out, field, domain, names::subdomain(domain));
    }
}

fn class_parameters(out: &mut FieldErrors, parameters: &Value) {
    for key in ["kind", "name"] {
        if text(parameters, &format!("/{key}")).is_empty() {
            required(out, &format!("spec.parameters.{key}"), "");
        }
    }
    let field = "spec.parameters.namespace";
    match (text(parameters, "/scope"), text(parameters, "/namespace")) {
        ("Namespace", "") => required(out, field, "`parameters.scope` is set to 'Namespace'"),
        ("Cluster", namespace) if !namespace.is_empty() => {
            forbidden(out, field, "`parameters.scope` is set to 'Cluster'");
        }
        _ => one_of(out, parameters, "/scope", "spec.parameters.scope", &["Cluster", "Namespace"]),
    }
}

fn parameters(class: &Value) -> String {
    let Some(parameters) = at(class, "/spec/parameters") else { return "<none>".to_owned() };
    let kind = text(parameters, "/kind");
    let kind = match text(parameters, "/apiGroup") {
        "" => kind.to_owned(),
        group => format!("{kind}.{group}"),
    };
    format!("{kind}/{}", text(parameters, "/name"))
}
