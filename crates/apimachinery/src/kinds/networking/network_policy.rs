//! NetworkPolicies.

use serde_json::{Value, json};

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{Object, at, each, fill, items, number, object, text};
use crate::kinds::names;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::check::{
    FieldErrors, cidr, forbidden, invalid, invalid_string, one_of, port_number, required, unsupported,
};
use crate::kinds::validate::selector;

/// The rules of the kind NetworkPolicy.
pub(crate) static RULES: KindRules = KindRules {
    group: "networking.k8s.io",
    kind: "NetworkPolicy",
    plural: "networkpolicies",
    traits: KindTraits { has_generation: true, ..KindTraits::COMMON },
    metadata_passes: MetadataPasses { labels: 3, fixed: 2, finalizers: 1 },
    default: defaults,
    validate_create: |out, object| network_policy(out, &object["spec"]),
    cells: |object, now| {
        let selector = cells::selector(object, "/spec/podSelector").into();
        vec![cells::name(object), selector, age::since_creation(object, now)]
    },
    ..COMMON
};

fn defaults(_: &str, map: &mut Object) {
    let spec = object(map, "spec");
    for list in ["ingress", "egress"] {
        for rule in each(spec, list) {
            each(rule, "ports").for_each(|port| fill(port, "protocol", "TCP"));
        }
    }
    if !spec.contains_key("policyTypes") {
        let types =
            if spec.contains_key("egress") { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        spec.insert("policyTypes".to_owned(), types);
    }
}

/// Validates the spec of a network policy.
fn network_policy(out: &mut FieldErrors, spec: &Value) {
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
