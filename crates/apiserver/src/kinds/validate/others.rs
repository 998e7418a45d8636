//! What is wrong with the kinds outside the core group that run no pods.

use std::net::IpAddr;

use serde_json::Value;

use super::check::{
    Problems, address, at_most_all, beyond_the_link, duplicate, forbidden, immutable, invalid,
    number_or_percent, one_of, port_number, required, unsupported, wrong_text,
};
use super::registered;
use super::selector;
use crate::kinds::look::{at, flag, items, number, text};
use crate::kinds::names;
use crate::{Problem, ProblemKind};

const RBAC: &str = "rbac.authorization.k8s.io";

/// A new object of one of these kinds.
pub(super) fn create(out: &mut Problems, group: &str, kind: &str, object: &Value) {
    match (group, kind) {
        ("networking.k8s.io", "Ingress") => ingress(out, &object["spec"]),
        ("networking.k8s.io", "NetworkPolicy") => network_policy(out, &object["spec"]),
        ("discovery.k8s.io", "EndpointSlice") => endpoint_slice(out, object),
        ("coordination.k8s.io", "Lease") => super::core::lease(out, object),
        ("policy", "PodDisruptionBudget") => disruption_budget(out, &object["spec"]),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(out, &object["spec"]),
        (RBAC, "Role" | "ClusterRole") => role(out, object, kind == "Role"),
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => binding(out, object, kind),
        ("storage.k8s.io", "StorageClass") => storage_class(out, object),
        ("scheduling.k8s.io", "PriorityClass") => priority_class(out, object),
        ("node.k8s.io", "RuntimeClass") => match text(object, "/handler") {
            "" => required(out, "handler", ""),
            handler => wrong_text(out, "handler", handler, names::label(handler)),
        },
        _ => registered::create(out, kind, object),
    }
}

/// The new state of an object of one of these kinds.
pub(super) fn update(out: &mut Problems, group: &str, kind: &str, new: &Value, old: &Value) {
    match (group, kind) {
        // With another type of addresses the old ones are all wrong; that is said once.
        ("discovery.k8s.io", "EndpointSlice") if new["addressType"] != old["addressType"] => {}
        _ => create(out, group, kind, new),
    }
    match (group, kind) {
        ("discovery.k8s.io", "EndpointSlice") => immutable(out, new, old, "/addressType", "addressType"),
        (RBAC, "RoleBinding" | "ClusterRoleBinding") if new.get("roleRef") != old.get("roleRef") => {
            let part = |key: &str| Value::from(text(new, &format!("/roleRef/{key}")));
            let shown = format!(
                "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
                part("apiGroup"),
                part("kind"),
                part("name")
            );
            out.push(Problem::with_value("roleRef", ProblemKind::Invalid, shown, "cannot change roleRef"));
        }
        ("storage.k8s.io", "StorageClass") => {
            for key in ["provisioner", "reclaimPolicy", "volumeBindingMode"] {
                immutable(out, new, old, &format!("/{key}"), key);
            }
            if new.get("parameters") != old.get("parameters") {
                forbidden(out, "parameters", "updates to parameters are forbidden.");
            }
        }
        ("scheduling.k8s.io", "PriorityClass") if new.get("value") != old.get("value") => {
            forbidden(out, "value", "may not be changed in an update.");
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            immutable(out, new, old, "/preemptionPolicy", "preemptionPolicy");
        }
        ("node.k8s.io", "RuntimeClass") => immutable(out, new, old, "/handler", "handler"),
        _ => registered::changes(out, kind, new, old),
    }
}

fn ingress(out: &mut Problems, spec: &Value) {
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
            wrong_text(out, &format!("{path}.host"), host, reasons);
        }
        let Some(http) = at(rule, "/http") else { continue };
        if items(http, "/paths").is_empty() {
            required(out, &format!("{path}.http.paths"), "");
        }
        for (index, one) in items(http, "/paths").iter().enumerate() {
            ingress_path(out, one, &format!("{path}.http.paths[{index}]"));
        }
    }
    if let Some(Value::String(class)) = at(spec, "/ingressClassName") {
        wrong_text(out, "spec.ingressClassName", class, names::subdomain(class));
    }
}

fn ingress_path(out: &mut Problems, one: &Value, path: &str) {
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

fn backend(out: &mut Problems, backend: &Value, path: &str) {
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
        name => wrong_text(out, &format!("{path}.service.name"), name, names::label(name)),
    }
    let name = text(service, "/port/name");
    let number_ = number(service, "/port/number").unwrap_or(0);
    if !name.is_empty() && number_ != 0 {
        invalid(out, path, &"".into(), "cannot set both port name & port number");
    } else if !name.is_empty() {
        wrong_text(out, &format!("{path}.service.port.name"), name, names::port_name(name));
    } else if number_ != 0 {
        port_number(out, &format!("{path}.service.port.number"), number_);
    } else {
        required(out, path, "port name or number is required");
    }
}

fn network_policy(out: &mut Problems, spec: &Value) {
    selector::check(out, &spec["podSelector"], "spec.podSelector");
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in items(spec, &format!("/{list}")).iter().enumerate() {
            let path = format!("spec.{list}[{index}]");
            for (index, port) in items(rule, "/ports").iter().enumerate() {
                let path = format!("{path}.ports[{index}]");
                one_of(out, port, "/protocol", &format!("{path}.protocol"), &["SCTP", "TCP", "UDP"]);
                match at(port, "/port") {
                    Some(Value::String(name)) => {
                        wrong_text(out, &format!("{path}.port"), name, names::port_name(name))
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

fn policy_peer(out: &mut Problems, peer: &Value, path: &str) {
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
        } else if !is_range(range) {
            let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            invalid(out, &format!("{path}.ipBlock.cidr"), &range.into(), detail);
        }
        if found > 0 {
            forbidden(out, path, "may not specify both ipBlock and another peer");
        }
    } else if found == 0 {
        required(out, path, "must specify a peer");
    }
}

fn is_range(text: &str) -> bool {
    let Some((ip, bits)) = text.split_once('/') else { return false };
    let most = match ip.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn endpoint_slice(out: &mut Problems, object: &Value) {
    let kind = text(object, "/addressType");
    match kind {
        "" => return required(out, "addressType", ""),
        "FQDN" | "IPv4" | "IPv6" => {}
        other => return unsupported(out, "addressType", &other.into(), &["FQDN", "IPv4", "IPv6"]),
    }
    for (index, endpoint) in items(object, "/endpoints").iter().enumerate() {
        let path = format!("endpoints[{index}].addresses");
        let all = items(endpoint, "/addresses");
        if all.is_empty() {
            required(out, &path, "must contain at least 1 address");
        }
        for (index, one) in all.iter().filter_map(Value::as_str).enumerate() {
            let field = format!("{path}[{index}]");
            match (kind, one.parse::<IpAddr>()) {
                ("FQDN", _) => wrong_text(out, &field, one, names::subdomain(one.trim_end_matches('.'))),
                (_, Err(_)) => address(out, &field, one),
                ("IPv4", Ok(IpAddr::V6(_))) => invalid(out, &path, &one.into(), "must be an IPv4 address"),
                ("IPv6", Ok(IpAddr::V4(_))) => invalid(out, &path, &one.into(), "must be an IPv6 address"),
                _ => {}
            }
            beyond_the_link(out, &field, one);
        }
    }
    let ports = items(object, "/ports");
    for (index, port) in ports.iter().enumerate() {
        let path = format!("ports[{index}]");
        let name = text(port, "/name");
        if !name.is_empty() {
            wrong_text(out, &format!("{path}.name"), name, names::label(name));
        }
        if ports[..index].iter().any(|other| text(other, "/name") == name) {
            duplicate(out, &format!("{path}.name"), &name.into());
        }
        one_of(out, port, "/protocol", &format!("{path}.protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

fn disruption_budget(out: &mut Problems, spec: &Value) {
    let part = |key: &str| at(spec, &format!("/{key}")).cloned().unwrap_or_default();
    if at(spec, "/minAvailable").is_some() && at(spec, "/maxUnavailable").is_some() {
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            part("minAvailable"),
            part("selector"),
            part("maxUnavailable"),
            part("unhealthyPodEvictionPolicy"),
        );
        let detail = "minAvailable and maxUnavailable cannot be both set";
        out.push(Problem::with_value("spec", ProblemKind::Invalid, shown, detail));
    }
    for key in ["minAvailable", "maxUnavailable"] {
        number_or_percent(out, spec, &format!("/{key}"), &format!("spec.{key}"));
        at_most_all(out, spec, &format!("/{key}"), &format!("spec.{key}"));
    }
    if let Some(chosen) = at(spec, "/selector") {
        selector::check(out, chosen, "spec.selector");
    }
    if at(spec, "/unhealthyPodEvictionPolicy").is_some() {
        let (field, known) = ("spec.unhealthyPodEvictionPolicy", ["AlwaysAllow", "IfHealthyBudget"]);
        one_of(out, spec, "/unhealthyPodEvictionPolicy", field, &known);
    }
}

fn autoscaler(out: &mut Problems, spec: &Value) {
    let least = number(spec, "/minReplicas");
    let most = number(spec, "/maxReplicas").unwrap_or(0);
    if let Some(least) = least.filter(|least| *least < 1) {
        invalid(out, "spec.minReplicas", &least.into(), "must be greater than or equal to 1");
    }
    if most < 1 {
        required(out, "spec.maxReplicas", "must be set and greater than 0");
    }
    if least.is_some_and(|least| most < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        invalid(out, "spec.maxReplicas", &most.into(), detail);
    }
    for key in ["kind", "name"] {
        let field = format!("spec.scaleTargetRef.{key}");
        match text(spec, &format!("/scaleTargetRef/{key}")) {
            "" => required(out, &field, ""),
            name => wrong_text(out, &field, name, names::path_segment(name)),
        }
    }
    let version = text(spec, "/scaleTargetRef/apiVersion");
    if version.is_empty() {
        let detail = "apiVersion must specify API group";
        invalid(out, "spec.scaleTargetRef.apiVersion", &"".into(), detail);
    }
    for (index, metric) in items(spec, "/metrics").iter().enumerate() {
        let path = format!("spec.metrics[{index}]");
        let source = match text(metric, "/type") {
            "" => {
                required(out, &format!("{path}.type"), "must specify a metric source type");
                continue;
            }
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            "Pods" => "pods",
            "Object" => "object",
            "External" => "external",
            other => {
                let known = ["ContainerResource", "External", "Object", "Pods", "Resource"];
                unsupported(out, &format!("{path}.type"), &other.into(), &known);
                continue;
            }
        };
        if at(metric, &format!("/{source}")).is_none() {
            let detail = "must populate information for the given metric source";
            required(out, &format!("{path}.{source}"), detail);
        }
    }
    let outside = items(spec, "/metrics").iter().any(|it| matches!(text(it, "/type"), "Object" | "External"));
    if least == Some(0) && !outside {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        forbidden(out, "spec.metrics", detail);
    }
}

fn role(out: &mut Problems, object: &Value, namespaced: bool) {
    if at(object, "/aggregationRule").is_some_and(|it| items(it, "/clusterRoleSelectors").is_empty()) {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        required(out, "aggregationRule.clusterRoleSelectors", detail);
    }
    for (index, rule) in items(object, "/rules").iter().enumerate() {
        let path = format!("rules[{index}]");
        let has = |key: &str| !items(rule, &format!("/{key}")).is_empty();
        if !has("verbs") {
            required(out, &format!("{path}.verbs"), "verbs must contain at least one value");
        }
        if has("nonResourceURLs") {
            let field = format!("{path}.nonResourceURLs");
            let urls = &rule["nonResourceURLs"];
            if namespaced {
                invalid(out, &field, urls, "namespaced rules cannot apply to non-resource URLs");
            }
            if has("apiGroups") || has("resources") || has("resourceNames") {
                invalid(
                    out,
                    &field,
                    urls,
                    "rules cannot apply to both regular resources and non-resource URLs",
                );
            }
            continue;
        }
        if !has("apiGroups") {
            required(out, &format!("{path}.apiGroups"), "resource rules must supply at least one api group");
        }
        if !has("resources") {
            required(out, &format!("{path}.resources"), "resource rules must supply at least one resource");
        }
    }
}

fn binding(out: &mut Problems, object: &Value, kind: &str) {
    let group = text(object, "/roleRef/apiGroup");
    if group != RBAC {
        unsupported(out, "roleRef.apiGroup", &group.into(), &[RBAC]);
    }
    let kinds: &[&str] = if kind == "RoleBinding" { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    one_of(out, object, "/roleRef/kind", "roleRef.kind", kinds);
    match text(object, "/roleRef/name") {
        "" => required(out, "roleRef.name", ""),
        name => wrong_text(out, "roleRef.name", name, names::path_segment(name)),
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
                    wrong_text(out, &format!("{path}.name"), name, names::subdomain(name));
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

fn storage_class(out: &mut Problems, object: &Value) {
    if text(object, "/provisioner").is_empty() {
        required(out, "provisioner", "");
    }
    one_of(out, object, "/reclaimPolicy", "reclaimPolicy", &["Delete", "Retain"]);
    let modes = ["Immediate", "WaitForFirstConsumer"];
    one_of(out, object, "/volumeBindingMode", "volumeBindingMode", &modes);
}

fn priority_class(out: &mut Problems, object: &Value) {
    let name = text(object, "/metadata/name");
    let system = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
    let value = number(object, "/value").unwrap_or(0);
    if name.starts_with("system-") {
        let known = system.contains(&(name, value)) && !flag(object, "/globalDefault");
        if !known {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. \
                 error: {name} is not a known system priority class"
            );
            forbidden(out, "metadata.name", &detail);
        }
    } else if value > 1_000_000_000 {
        forbidden(out, "value", "maximum allowed value of a user defined priority is 1000000000");
    }
    if at(object, "/preemptionPolicy").is_some() {
        let policies = ["PreemptLowerPriority", "Never"];
        one_of(out, object, "/preemptionPolicy", "preemptionPolicy", &policies);
    }
}
