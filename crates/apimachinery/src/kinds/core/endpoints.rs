//! Endpoints.

use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{Object, each, fill, items, number, text};
use crate::kinds::names;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::KindTraits;
use crate::kinds::validate::check::{
    FieldErrors, address, invalid, invalid_string, one_of, port_number, required, routable_address,
};

/// The rules of the kind Endpoints.
pub static RULES: KindRules = KindRules {
    group: "",
    kind: "Endpoints",
    plural: "endpoints",
    traits: KindTraits { allow_create_on_update: true, ..KindTraits::COMMON },
    default: defaults,
    validate_create: endpoints,
    deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    cells: |object, now| {
        vec![cells::name(object), addresses(object).into(), age::since_creation(object, now)]
    },
    storage_path: Some("services/endpoints"),
    ..COMMON
};

fn defaults(_: &str, map: &mut Object) {
    for subset in each(map, "subsets") {
        each(subset, "ports").for_each(|port| fill(port, "protocol", "TCP"));
    }
}

fn endpoints(out: &mut FieldErrors, object: &Value) {
    for (index, subset) in items(object, "/subsets").iter().enumerate() {
        let path = format!("subsets[{index}]");
        if items(subset, "/addresses").is_empty() && items(subset, "/notReadyAddresses").is_empty() {
            required(out, &path, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in ["addresses", "notReadyAddresses"] {
            for (index, one) in items(subset, &format!("/{list}")).iter().enumerate() {
                let node = text(one, "/nodeName");
                if !node.is_empty() {
                    let field = format!("{path}.{list}[{index}].nodeName");
                    invalid_string(out, &field, node, names::subdomain(node));
                }
                let field = format!("{path}.{list}[{index}].ip");
                let ip = text(one, "/ip");
                let before = out.count();
                address(out, &field, ip);
                if out.count() > before {
                    invalid(out, &field, &ip.into(), "must be a valid IP address");
                }
                routable_address(out, &field, ip);
            }
        }
        let ports = items(subset, "/ports");
        for (index, port) in ports.iter().enumerate() {
            let path = format!("{path}.ports[{index}]");
            match text(port, "/name") {
                "" if ports.len() > 1 => required(out, &format!("{path}.name"), ""),
                "" => {}
                name => invalid_string(out, &format!("{path}.name"), name, names::label(name)),
            }
            port_number(out, &format!("{path}.port"), number(port, "/port").unwrap_or(0));
            one_of(out, port, "/protocol", &format!("{path}.protocol"), &["SCTP", "TCP", "UDP"]);
        }
    }
}

/// The number of addresses that a cell shows.
const SHOWN: usize = 3;

fn addresses(object: &Value) -> String {
    let subsets = items(object, "/subsets");
    // Every port of a subset is shown with every address: the number of pairs is only counted.
    let (mut list, mut count) = (Vec::new(), 0_usize);
    for subset in subsets {
        let addresses = items(subset, "/addresses");
        let ports = items(subset, "/ports");
        count = count.saturating_add(addresses.len().saturating_mul(ports.len().max(1)));
        let room = SHOWN.saturating_sub(list.len());
        if ports.is_empty() {
            list.extend(addresses.iter().take(room).map(|address| text(address, "/ip").to_owned()));
        }
        let pairs = ports.iter().flat_map(|port| addresses.iter().map(move |address| (port, address)));
        list.extend(pairs.take(room).map(|(port, address)| {
            let port = number(port, "/port").unwrap_or(0);
            match text(address, "/ip") {
                ip if ip.contains(':') => format!("[{ip}]:{port}"),
                ip => format!("{ip}:{port}"),
            }
        }));
    }
    match (&list[..], count.saturating_sub(SHOWN)) {
        ([], _) if subsets.is_empty() => "<none>".to_owned(),
        (shown, 0) => shown.join(","),
        (shown, more) => format!("{} + {more} more...", shown.join(",")),
    }
}
