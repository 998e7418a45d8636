//! APIServices.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{at, flag, number, text};
use crate::kinds::names;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, NameRule, StatusMetadata};
use crate::kinds::validate::check::{FieldErrors, invalid, invalid_string, required};
use crate::strconv::quote;

/// The rules of the kind APIService.
pub(crate) static RULES: KindRules = KindRules {
    group: "apiregistration.k8s.io",
    kind: "APIService",
    plural: "apiservices",
    traits: KindTraits {
        requires_version_on_update: true,
        has_status: true,
        status_metadata: StatusMetadata::Nothing,
        name: NameRule::PathSegment,
        ..KindTraits::COMMON
    },
    validate_create: validate,
    validate_update: Some(|out, new, _| validate(out, new)),
    cells: |object, now| {
        let age = age::since_creation(object, now);
        vec![cells::name(object), service(object).into(), availability(object).into(), age]
    },
    ..COMMON
};

/// Validates an APIService: `ValidateAPIService` in k8s.io/kube-aggregator v0.36.4
/// pkg/apis/apiregistration/validation/validation.go.
fn validate(out: &mut FieldErrors, object: &Value) {
    let (name, spec) = (text(object, "/metadata/name"), &object["spec"]);
    let (group, version) = (text(spec, "/group"), text(spec, "/version"));
    let needed = format!("{version}.{group}");
    if name != needed && names::path_segment(name).is_empty() {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {}", quote(&needed));
        invalid(out, "metadata.name", &name.into(), &detail);
    }
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        required(out, "spec.group", detail);
    }
    if !group.is_empty() {
        invalid_string(out, "spec.group", group, names::subdomain(group));
    }
    invalid_string(out, "spec.version", version, names::label_1035(version));
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let value = number(spec, &format!("/{field}")).unwrap_or(0);
        if value <= 0 || value > most {
            let detail = format!("must be positive and less than {most}");
            invalid(out, &format!("spec.{field}"), &value.into(), &detail);
        }
    }
    let authority = text(spec, "/caBundle");
    let is_insecure = flag(spec, "/insecureSkipTLSVerify");
    let Some(service) = at(spec, "/service") else {
        if !authority.is_empty() {
            let size = STANDARD.decode(authority).map_or(0, |it| it.len());
            let shown = Value::from(format!("{size} bytes"));
            invalid(out, "spec.caBundle", &shown, "local APIServices may not have a caBundle");
        }
        if is_insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            invalid(out, "spec.insecureSkipTLSVerify", &true.into(), detail);
        }
        return;
    };
    for field in ["namespace", "name"] {
        if text(service, &format!("/{field}")).is_empty() {
            required(out, &format!("spec.service.{field}"), "");
        }
    }
    let port = number(service, "/port").unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        invalid(out, "spec.service.port", &port.into(), detail);
    }
    if is_insecure && !authority.is_empty() {
        invalid(out, "spec.insecureSkipTLSVerify", &true.into(), "may not be true if caBundle is present");
    }
}

fn service(part: &Value) -> String {
    at(part, "/spec/service")
        .map_or_else(|| "Local".to_owned(), |it| format!("{}/{}", text(it, "/namespace"), text(it, "/name")))
}

fn availability(part: &Value) -> String {
    match cells::find_condition(part, "Available").map(|it| (text(it, "/status"), text(it, "/reason"))) {
        None => "Unknown".to_owned(),
        Some(("True", _)) => "True".to_owned(),
        Some((status, "")) => status.to_owned(),
        Some((status, reason)) => format!("{status} ({reason})"),
    }
}
