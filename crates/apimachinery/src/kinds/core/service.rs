//! Services: ports, addresses and traffic policies. Their addresses and node ports are allocated by
//! [`crate::kinds::allocate`].

use std::collections::HashSet;
use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::allocate::{allocate, health_port, keep_allocated, needs_health_check};
use crate::kinds::cells;
use crate::kinds::fields::{Field, SelectableFields};
use crate::kinds::json_access::{Object, at, each, entries, fill, items, number, object, text};
use crate::kinds::names;
use crate::kinds::rules::{Accounting, COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses, NameRule};
use crate::kinds::validate::check::{
    FieldErrors, address, duplicate, external_address, forbidden, invalid, invalid_string, one_of,
    port_number, required,
};
use crate::kinds::validate::metadata::labels;
use crate::{FieldError, FieldErrorKind};

/// The rules of the kind Service.
pub static RULES: KindRules = KindRules {
    group: "",
    kind: "Service",
    plural: "services",
    traits: KindTraits {
        allow_create_on_update: true,
        returns_deleted_object: true,
        has_status: true,
        name: NameRule::Label,
        ..KindTraits::COMMON
    },
    metadata_passes: MetadataPasses { labels: 3, fixed: 2, finalizers: 1 },
    default: defaults,
    prepare_create: |service, _, around| allocate(service, None, around),
    prepare_update: |new, old, around| {
        keep_allocated(new, old);
        allocate(new, Some(old), around)
    },
    prepare_status: |service, _| {
        service.as_object_mut().into_iter().for_each(default_ip_modes);
    },
    validate_create: create,
    validate_update: Some(update),
    validate_status: |out, object, _| validate_status(out, object),
    warnings,
    fields: SelectableFields::of(&[
        Field::text("spec.clusterIP", "/spec/clusterIP"),
        Field::text("spec.type", "/spec/type"),
    ]),
    cells,
    storage_path: Some("services/specs"),
    accounting: Accounting::Service,
    ..COMMON
};

fn defaults(_: &str, map: &mut Object) {
    let spec = object(map, "spec");
    fill(spec, "sessionAffinity", "None");
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => {
            spec.remove("sessionAffinityConfig");
        }
        Some("ClientIP") => {
            fill(object(object(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", 10_800);
        }
        _ => {}
    }
    fill(spec, "type", "ClusterIP");
    for port in each(spec, "ports") {
        fill(port, "protocol", "TCP");
        let target = port.get("targetPort");
        if target.is_none_or(|target| target.as_i64() == Some(0) || target.as_str() == Some("")) {
            let own = port.get("port").cloned().unwrap_or(0.into());
            port.insert("targetPort".to_owned(), own);
        }
    }
    let service_type = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let balanced = service_type == "LoadBalancer";
    let reachable = balanced
        || service_type == "NodePort"
        || (service_type == "ClusterIP" && spec.contains_key("externalIPs"));
    if reachable {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(service_type.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if balanced {
        fill(spec, "allocateLoadBalancerNodePorts", true);
    }
    default_ip_modes(map);
}

/// Sets the defaults of the status, which depend on the type of the service.
fn default_ip_modes(map: &mut Object) {
    let balanced = object(map, "spec").get("type").is_some_and(|it| it == "LoadBalancer");
    let ingress = object(object(map, "status"), "loadBalancer");
    for point in each(ingress, "ingress").filter(|point| balanced && point.contains_key("ip")) {
        fill(point, "ipMode", "VIP");
    }
}

/// Validates a new service.
fn create(out: &mut FieldErrors, object: &Value) {
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
    if let Some(port) = health_port(object).filter(|_| !needs_health_check(object)) {
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
    let mut node_ports = HashSet::new();
    for (index, port) in list.iter().enumerate() {
        let Some(number) = number(port, "/nodePort").filter(|it| *it != 0) else { continue };
        if !node_ports.insert((port.get("protocol"), number)) {
            duplicate(out, &format!("spec.ports[{index}].nodePort"), &number.into());
        }
    }
}

/// Validates the new state of a service.
fn update(out: &mut FieldErrors, new: &Value, old: &Value) {
    let allocated = |object: &Value| text(object, "/spec/type") != "ExternalName";
    if allocated(new) && allocated(old) {
        let before = items(old, "/spec/clusterIPs").first();
        let now = items(new, "/spec/clusterIPs").first();
        if before.is_some() && before != now {
            let shown = new["spec"]["clusterIPs"].clone();
            invalid(out, "spec.clusterIPs[0]", &shown, "may not change once set");
        }
    }
    let held = Some(old).filter(|it| needs_health_check(it)).and_then(health_port);
    if held.is_some() && needs_health_check(new) && health_port(new) != held {
        forbidden(out, "spec.healthCheckNodePort", "field is immutable");
    }
    create(out, new);
}

fn validate_status(out: &mut FieldErrors, object: &Value) {
    if text(object, "/spec/type") != "LoadBalancer"
        && !items(object, "/status/loadBalancer/ingress").is_empty()
    {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        forbidden(out, "status.loadBalancer.ingress", detail);
    }
}

/// Returns the warnings of k8s.io/kubernetes v1.36.4 pkg/api/service/warnings.go.
fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if at(object, "/spec/trafficDistribution").is_some_and(|it| it == "PreferClose") {
        let (old, new) = ("PreferClose", "PreferSameZone");
        warnings.push(format!("spec.trafficDistribution: {old:?} is deprecated; use {new:?}"));
    }
    let none_before = old.is_none_or(|it| items(it, "/spec/externalIPs").is_empty());
    if none_before && !items(object, "/spec/externalIPs").is_empty() {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    warnings
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let age = age::since_creation(object, now);
    let kind = text(object, "/spec/type");
    let external: Vec<String> =
        items(object, "/spec/externalIPs").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let addresses = match kind {
        "ClusterIP" | "NodePort" => cells::joined(&external, "<none>"),
        "LoadBalancer" => {
            let balanced = cells::load_balancer(object);
            let all: Vec<String> =
                balanced.split(',').filter(|it| !it.is_empty()).map(str::to_owned).chain(external).collect();
            cells::joined(&all, "<pending>")
        }
        "ExternalName" => text(object, "/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    };
    let ports: Vec<String> = items(object, "/spec/ports")
        .iter()
        .map(|port| {
            let number_ = number(port, "/port").unwrap_or(0);
            let protocol = text(port, "/protocol");
            match number(port, "/nodePort") {
                Some(node) if node > 0 => format!("{number_}:{node}/{protocol}"),
                _ => format!("{number_}/{protocol}"),
            }
        })
        .collect();
    let address = cells::non_empty_or(text(object, "/spec/clusterIP"), "<none>");
    vec![
        cells::name(object),
        kind.into(),
        address.into(),
        addresses.into(),
        cells::joined(&ports, "<none>").into(),
        age,
        cells::labels(object, "/spec/selector").into(),
    ]
}
