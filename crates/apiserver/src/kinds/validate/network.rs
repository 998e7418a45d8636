//! Validation of ingresses, network policies, endpoint slices, service CIDRs and IP addresses.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::Value;

use super::check::{
    FieldErrors, address, duplicate, forbidden, invalid, invalid_string, one_of, port_number, required,
    routable_address, unsupported,
};
use super::selector;
use crate::kinds::json_access::{at, items, number, text};
use crate::kinds::names;

/// Validates the spec of an ingress.
pub(super) fn ingress(out: &mut FieldErrors, spec: &Value) {
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

/// Validates the spec of a network policy.
pub(super) fn network_policy(out: &mut FieldErrors, spec: &Value) {
    selector::check(out, &spec["podSelector"], "spec.podSelector");
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in items(spec, &format!("/{list}")).iter().enumerate() {
            let path = format!("spec.{list}[{index}]");
            for (index, port) in items(rule, "/ports").iter().enumerate() {
                let path = format!("{path}.ports[{index}]");
                one_of(out, port, "/protocol", &format!("{path}.protocol"), &["SCTP", "TCP", "UDP"]);
                match at(port, "/port") {
                    Some(Value::String(name)) => {
                        invalid_string(out, &format!("{path}.port"), name, names::port_name(name))
                    }
                    Some(number) => port_number(out, &format!("{path}.port"), number.as_i64().unwrap_or(0)),
                    None => {}
                }
                if let (Some(first), Some(last)) = (number(port, "/port"), at(port, "/endPort"))
                    && last.as_i64().is_some_and(|last| last < first)
                {
                    let detail = "must be greater than or equal to `port`";
                    invalid(out, &format!("{path}.endPort"), &first.into(), detail);
                }
            }
            for (index, peer) in items(rule, &format!("/{peers}")).iter().enumerate() {
                policy_peer(out, peer, &format!("{path}.{peers}[{index}]"));
            }
        }
    }
    let kinds = items(spec, "/policyTypes");
    if kinds.len() > 2 {
        invalid(out, "spec.policyTypes", &spec["policyTypes"], "may not specify more than two policyTypes");
    }
    for (index, kind) in kinds.iter().enumerate() {
        if kind != "Ingress" && kind != "Egress" {
            unsupported(out, &format!("spec.policyTypes[{index}]"), kind, &["Ingress", "Egress"]);
        }
    }
}

fn policy_peer(out: &mut FieldErrors, peer: &Value, path: &str) {
    let mut found = 0;
    for kind in ["podSelector", "namespaceSelector"] {
        if let Some(chosen) = at(peer, &format!("/{kind}")) {
            found += 1;
            selector::check(out, chosen, &format!("{path}.{kind}"));
        }
    }
    if let Some(block) = at(peer, "/ipBlock") {
        let range = text(block, "/cidr");
        if range.is_empty() {
            required(out, &format!("{path}.ipBlock.cidr"), "");
        } else {
            cidr(out, &format!("{path}.ipBlock.cidr"), range);
        }
        if found > 0 {
            forbidden(out, path, "may not specify both ipBlock and another peer");
        }
    } else if found == 0 {
        required(out, path, "must specify a peer");
    }
}

/// Validates a ServiceCIDR.
pub(super) fn service_range(out: &mut FieldErrors, object: &Value) {
    let ranges = items(object, "/spec/cidrs");
    if ranges.is_empty() {
        required(out, "spec.cidrs", "at least one CIDR required");
    }
    for (index, range) in ranges.iter().filter_map(Value::as_str).enumerate() {
        cidr(out, &format!("spec.cidrs[{index}]"), range);
    }
}

/// Validates an IPAddress.
pub(super) fn allocated_address(out: &mut FieldErrors, object: &Value) {
    let Some(parent) = at(object, "/spec/parentRef") else { return required(out, "spec.parentRef", "") };
    for key in ["resource", "name"] {
        let field = format!("spec.parentRef.{key}");
        match text(parent, &format!("/{key}")) {
            "" => required(out, &field, ""),
            value => invalid_string(out, &field, value, names::path_segment(value)),
        }
    }
}

/// Checks that a string is a CIDR.
pub(super) fn cidr(out: &mut FieldErrors, field: &str, range: &str) {
    if !is_cidr(range) {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        invalid(out, field, &range.into(), detail);
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((ip, bits)) = text.split_once('/') else { return false };
    let most = match ip.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

/// Validates an endpoint slice.
pub(super) fn endpoint_slice(out: &mut FieldErrors, object: &Value) {
    let kind = text(object, "/addressType");
    match kind {
        "" => return required(out, "addressType", ""),
        "FQDN" | "IPv4" | "IPv6" => {}
        other => return unsupported(out, "addressType", &other.into(), &["FQDN", "IPv4", "IPv6"]),
    }
    for (index, endpoint) in items(object, "/endpoints").iter().enumerate() {
        let path = format!("endpoints[{index}]");
        let node = text(endpoint, "/nodeName");
        if !node.is_empty() {
            invalid_string(out, &format!("{path}.nodeName"), node, names::subdomain(node));
        }
        for (index, zone) in items(endpoint, "/hints/forZones").iter().enumerate() {
            let zone = text(zone, "/name");
            let field = format!("{path}.hints.forZones[{index}].name");
            invalid_string(out, &field, zone, names::label_value(zone));
        }
        let path = format!("{path}.addresses");
        let all = items(endpoint, "/addresses");
        if all.is_empty() {
            required(out, &path, "must contain at least 1 address");
        }
        for (index, one) in all.iter().filter_map(Value::as_str).enumerate() {
            let field = format!("{path}[{index}]");
            match (kind, one.parse::<IpAddr>()) {
                ("FQDN", _) => invalid_string(out, &field, one, names::subdomain(one.trim_end_matches('.'))),
                (_, Err(_)) => address(out, &field, one),
                ("IPv4", Ok(IpAddr::V6(_))) => invalid(out, &path, &one.into(), "must be an IPv4 address"),
                ("IPv6", Ok(IpAddr::V4(_))) => invalid(out, &path, &one.into(), "must be an IPv6 address"),
                _ => {}
            }
            routable_address(out, &field, one);
        }
    }
    let ports = items(object, "/ports");
    let mut names_before = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("ports[{index}]");
        let name = text(port, "/name");
        if !name.is_empty() {
            invalid_string(out, &format!("{path}.name"), name, names::label(name));
        }
        if !names_before.insert(name) {
            duplicate(out, &format!("{path}.name"), &name.into());
        }
        one_of(out, port, "/protocol", &format!("{path}.protocol"), &["SCTP", "TCP", "UDP"]);
    }
}
