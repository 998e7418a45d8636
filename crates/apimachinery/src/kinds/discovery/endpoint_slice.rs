//! EndpointSlices.

use std::collections::HashSet;
use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{Object, at, each, fill, items, number, text};
use crate::kinds::names;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::check::{
    FieldErrors, address, duplicate, immutable, invalid, invalid_string, one_of, required, routable_address,
    unsupported,
};

/// The rules of the kind EndpointSlice.
pub static RULES: KindRules = KindRules {
    group: "discovery.k8s.io",
    kind: "EndpointSlice",
    plural: "endpointslices",
    traits: KindTraits { has_generation: true, ..KindTraits::COMMON },
    metadata_passes: MetadataPasses { labels: 3, fixed: 1, finalizers: 1 },
    default: defaults,
    generation_metadata: &["/metadata/labels"],
    validate_create: endpoint_slice,
    validate_update: Some(|out, new, old| {
        // After a change of the address type, all old addresses are invalid; only the change itself
        // is reported.
        if new["addressType"] == old["addressType"] {
            endpoint_slice(out, new);
        }
        immutable(out, new, old, "/addressType", "addressType");
    }),
    cells,
    ..COMMON
};

fn defaults(_: &str, map: &mut Object) {
    for port in each(map, "ports") {
        port.entry("name").or_insert("".into());
        fill(port, "protocol", "TCP");
    }
}

/// Validates an endpoint slice.
fn endpoint_slice(out: &mut FieldErrors, object: &Value) {
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

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        cells::name(object),
        text(object, "/addressType").into(),
        slice_ports(object).into(),
        slice_addresses(object).into(),
        age::since_creation(object, now),
    ]
}

fn slice_ports(slice: &Value) -> String {
    let ports: Vec<String> = items(slice, "/ports")
        .iter()
        .map(|port| match number(port, "/port") {
            Some(number) => number.to_string(),
            None => at(port, "/name").and_then(Value::as_str).unwrap_or("*").to_owned(),
        })
        .collect();
    cells::first_three(&ports, "<unset>")
}

fn slice_addresses(slice: &Value) -> String {
    let addresses: Vec<String> = items(slice, "/endpoints")
        .iter()
        .flat_map(|endpoint| items(endpoint, "/addresses"))
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    cells::first_three(&addresses, "<unset>")
}
