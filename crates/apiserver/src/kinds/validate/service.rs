//! Validation of services: ports, addresses, and traffic policies.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::Value;

use super::check::{
    FieldErrors, address, duplicate, external_address, forbidden, invalid, invalid_string, one_of,
    port_number, required,
};
use super::metadata::labels;
use crate::kinds::json_access::{at, entries, items, number, text};
use crate::kinds::names;
use crate::{FieldError, FieldErrorKind};

/// Validates a new service.
pub(super) fn create(out: &mut FieldErrors, object: &Value) {
    let spec = &object["spec"];
    let kind = text(spec, "/type");
    let headless = text(spec, "/clusterIP") == "None";
    let list = items(spec, "/ports");
    if list.is_empty() && !headless && kind != "ExternalName" {
        required(out, "spec.ports", "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let detail = format!("may not be set to 'None' for {kind} services");
            invalid(out, "spec.clusterIPs[0]", &"None".into(), &detail);
        }
        "ExternalName" => match text(spec, "/externalName") {
            "" => required(out, "spec.externalName", ""),
            name => {
                invalid_string(out, "spec.externalName", name, names::subdomain(name.trim_end_matches('.')))
            }
        },
        _ => {}
    }
    service_ports(out, spec, kind, headless);
    labels(out, spec, "/selector", "spec.selector");
    one_of(out, spec, "/sessionAffinity", "spec.sessionAffinity", &["ClientIP", "None"]);
    for (index, one) in items(spec, "/clusterIPs").iter().filter_map(Value::as_str).enumerate() {
        if one != "None" && !one.is_empty() {
            address(out, &format!("spec.clusterIPs[{index}]"), one);
            let family = text(spec, &format!("/ipFamilies/{index}"));
            let is = if one.contains(':') { "IPv6" } else { "IPv4" };
            if one.parse::<IpAddr>().is_ok() && !family.is_empty() && family != is {
                let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
                invalid(out, &format!("spec.clusterIPs[{index}]"), &one.into(), &detail);
            }
        }
    }
    for (index, one) in items(spec, "/externalIPs").iter().filter_map(Value::as_str).enumerate() {
        let field = format!("spec.externalIPs[{index}]");
        address(out, &field, one);
        external_address(out, &field, one);
    }
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(out, spec, "/type", "spec.type", &kinds);
    if at(spec, "/internalTrafficPolicy").is_some() {
        let (field, known) = ("spec.internalTrafficPolicy", ["Cluster", "Local"]);
        one_of(out, spec, "/internalTrafficPolicy", field, &known);
    }
    if at(spec, "/trafficDistribution").is_some() {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        one_of(out, spec, "/trafficDistribution", "spec.trafficDistribution", &known);
    }
    let local = kind == "LoadBalancer" && text(spec, "/externalTrafficPolicy") == "Local";
    if let Some(port) = number(spec, "/healthCheckNodePort").filter(|port| *port != 0 && !local) {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        invalid(out, "spec.healthCheckNodePort", &port.into(), detail);
    }
    // Headless services without a selector get both families as a default, whatever the cluster
    // has.
    let policy = text(spec, "/ipFamilyPolicy");
    let selects = entries(spec, "/selector").next().is_some();
    if policy == "RequireDualStack" && (!headless || selects) {
        let detail = "this cluster is not configured for dual-stack services";
        invalid(out, "spec.ipFamilyPolicy", &policy.into(), detail);
    }
    let reachable = matches!(kind, "LoadBalancer" | "NodePort") || !items(spec, "/externalIPs").is_empty();
    if let Some(policy) = at(spec, "/externalTrafficPolicy") {
        if reachable {
            one_of(out, spec, "/externalTrafficPolicy", "spec.externalTrafficPolicy", &["Cluster", "Local"]);
        } else {
            let detail = "may only be set for externally-accessible services";
            invalid(out, "spec.externalTrafficPolicy", policy, detail);
        }
    }
}

fn service_ports(out: &mut FieldErrors, spec: &Value, kind: &str, headless: bool) {
    let list = items(spec, "/ports");
    let (mut names_before, mut ports_before) = (HashSet::new(), HashSet::new());
    for (index, port) in list.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = text(port, "/name");
        if name.is_empty() {
            if list.len() > 1 {
                required(out, &format!("{path}.name"), "");
            }
        } else {
            invalid_string(out, &format!("{path}.name"), name, names::label(name));
            if !names_before.insert(name) {
                duplicate(out, &format!("{path}.name"), &name.into());
            }
        }
        let number_ = number(port, "/port").unwrap_or(0);
        port_number(out, &format!("{path}.port"), number_);
        one_of(out, port, "/protocol", &format!("{path}.protocol"), &["SCTP", "TCP", "UDP"]);
        let protocol = text(port, "/appProtocol");
        if !protocol.is_empty() {
            invalid_string(out, &format!("{path}.appProtocol"), protocol, names::qualified(protocol));
        }
        match at(port, "/targetPort") {
            Some(Value::String(name)) => {
                invalid_string(out, &format!("{path}.targetPort"), name, names::port_name(name));
            }
            target => {
                let target = target.and_then(Value::as_i64).unwrap_or(0);
                if !headless || target != number_ {
                    port_number(out, &format!("{path}.targetPort"), target);
                }
            }
        }
        if kind == "ClusterIP" && number(port, "/nodePort").is_some_and(|it| it != 0) {
            forbidden(out, &format!("{path}.nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
        if !ports_before.insert((port.get("port"), port.get("protocol"))) {
            let protocol = Value::from(text(port, "/protocol"));
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{protocol},\"AppProtocol\":null,\"Port\":{number_},\"TargetPort\":0,\"NodePort\":0}}"
            );
            out.push(FieldError::with_value(path, FieldErrorKind::Duplicate, shown, ""));
        }
    }
}

/// Validates the new state of a service.
pub(super) fn update(out: &mut FieldErrors, new: &Value, old: &Value) {
    let allocated = |object: &Value| text(object, "/spec/type") != "ExternalName";
    if allocated(new) && allocated(old) {
        let before = items(old, "/spec/clusterIPs").first();
        let now = items(new, "/spec/clusterIPs").first();
        if before.is_some() && before != now {
            let shown = new["spec"]["clusterIPs"].clone();
            invalid(out, "spec.clusterIPs[0]", &shown, "may not change once set");
        }
    }
    create(out, new);
}
