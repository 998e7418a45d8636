//! Ingresses.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{at, items, number, text};
use crate::kinds::names;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::KindTraits;
use crate::kinds::validate::check::{
    FieldErrors, invalid, invalid_string, port_number, required, unsupported,
};

/// The rules of the kind Ingress.
pub(crate) static RULES: KindRules = KindRules {
    group: "networking.k8s.io",
    kind: "Ingress",
    plural: "ingresses",
    traits: KindTraits { has_generation: true, has_status: true, ..KindTraits::COMMON },
    validate_create: |out, object| ingress(out, &object["spec"]),
    warnings,
    cells,
    ..COMMON
};

/// Validates the spec of an ingress.
fn ingress(out: &mut FieldErrors, spec: &Value) {
    let rules = items(spec, "/rules");
    if rules.is_empty() && at(spec, "/defaultBackend").is_none() {
        invalid(out, "spec", &Value::Null, "either `defaultBackend` or `rules` must be specified");
    }
    if let Some(found) = at(spec, "/defaultBackend") {
        backend(out, found, "spec.defaultBackend");
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("spec.rules[{index}]");
        let host = text(rule, "/host");
        if host.parse::<IpAddr>().is_ok() {
            invalid(out, &format!("{path}.host"), &host.into(), "must be a DNS name, not an IP address");
        } else if !host.is_empty() {
            let reasons =
                if host.contains('*') { names::wildcard_subdomain(host) } else { names::subdomain(host) };
            invalid_string(out, &format!("{path}.host"), host, reasons);
        }
        let Some(http) = at(rule, "/http") else { continue };
        if items(http, "/paths").is_empty() {
            required(out, &format!("{path}.http.paths"), "");
        }
        for (index, one) in items(http, "/paths").iter().enumerate() {
            ingress_path(out, one, &format!("{path}.http.paths[{index}]"));
        }
    }
    for (index, secret) in items(spec, "/tls").iter().map(|it| text(it, "/secretName")).enumerate() {
        if !secret.is_empty() {
            invalid_string(out, &format!("spec.tls[{index}].secretName"), secret, names::subdomain(secret));
        }
    }
    if let Some(Value::String(class)) = at(spec, "/ingressClassName") {
        invalid_string(out, "spec.ingressClassName", class, names::subdomain(class));
    }
}

fn ingress_path(out: &mut FieldErrors, one: &Value, path: &str) {
    let place = text(one, "/path");
    match text(one, "/pathType") {
        "" => return required(out, &format!("{path}.pathType"), "pathType must be specified"),
        "Exact" | "Prefix" => {
            if !place.starts_with('/') {
                invalid(out, &format!("{path}.path"), &place.into(), "must be an absolute path");
            }
            for wrong in ["//", "/./", "/../", "%2f", "%2F"] {
                if place.contains(wrong) {
                    let detail = format!("must not contain '{wrong}'");
                    invalid(out, &format!("{path}.path"), &place.into(), &detail);
                }
            }
        }
        "ImplementationSpecific" => {
            if !place.is_empty() && !place.starts_with('/') {
                invalid(out, &format!("{path}.path"), &place.into(), "must be an absolute path");
            }
        }
        other => {
            let known = ["Exact", "ImplementationSpecific", "Prefix"];
            unsupported(out, &format!("{path}.pathType"), &other.into(), &known);
        }
    }
    backend(out, &one["backend"], &format!("{path}.backend"));
}

fn backend(out: &mut FieldErrors, backend: &Value, path: &str) {
    let Some(service) = at(backend, "/service") else {
        if at(backend, "/resource").is_none() {
            invalid(out, path, &"".into(), "resource or service backend is required");
        }
        return;
    };
    if at(backend, "/resource").is_some() {
        return invalid(out, path, &"".into(), "cannot set both resource and service backends");
    }
    match text(service, "/name") {
        "" => required(out, &format!("{path}.service.name"), ""),
        name => invalid_string(out, &format!("{path}.service.name"), name, names::label(name)),
    }
    let name = text(service, "/port/name");
    let number_ = number(service, "/port/number").unwrap_or(0);
    if !name.is_empty() && number_ != 0 {
        invalid(out, path, &"".into(), "cannot set both port name & port number");
    } else if !name.is_empty() {
        invalid_string(out, &format!("{path}.service.port.name"), name, names::port_name(name));
    } else if number_ != 0 {
        port_number(out, &format!("{path}.service.port.number"), number_);
    } else {
        required(out, path, "port name or number is required");
    }
}

fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let class = "kubernetes.io/ingress.class";
    if old.is_none() && at(object, "/metadata/annotations").is_some_and(|it| it.get(class).is_some()) {
        return vec![format!(
            "annotation {class:?} is deprecated, please use 'spec.ingressClassName' instead"
        )];
    }
    Vec::new()
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        cells::name(object),
        at(object, "/spec/ingressClassName").and_then(Value::as_str).unwrap_or("<none>").into(),
        hosts(object).into(),
        cells::load_balancer(object).into(),
        if items(object, "/spec/tls").is_empty() { "80" } else { "80, 443" }.into(),
        age::since_creation(object, now),
    ]
}

fn hosts(ingress: &Value) -> String {
    let rules = items(ingress, "/spec/rules");
    let named: Vec<&str> =
        rules.iter().map(|rule| text(rule, "/host")).filter(|host| !host.is_empty()).collect();
    let shown: Vec<&str> = named.iter().take(3).copied().collect();
    // As `formatHosts` in k8s.io/kubernetes v1.36.4 pkg/printers/internalversion/printers.go: once
    // three hosts are shown, rules are counted with or without a host.
    let third = rules.iter().enumerate().filter(|(_, rule)| !text(rule, "/host").is_empty()).nth(2);
    match third {
        _ if shown.is_empty() => "*".to_owned(),
        Some((index, _)) if index + 1 < rules.len() => {
            format!("{} + {} more...", shown.join(","), rules.len() - 3)
        }
        _ => shown.join(","),
    }
}
