//! Allocation of the cluster IPs and node ports of services. The allocators are behind a trait.
//!
//! Mirrors k8s.io/kubernetes v1.36.4 pkg/registry/core/service/storage/alloc.go.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};

use serde_json::{Map, Value, json};

use crate::kinds::json_access::{at, each, entries, fill, flag, items, number, object, text};
use crate::{ApiError, FieldError, FieldErrorKind, FieldErrors};

/// The cluster-wide state that preparing an object depends on.
pub trait ClusterResources {
    /// Allocates an address for a service: the wanted one, or a free one.
    fn cluster_ip(&mut self, service: &Value, wanted: Option<&str>) -> Result<String, ApiError>;

    /// Allocates a node port for the service port of this index: the wanted one, or a free one.
    fn node_port(&mut self, service: &Value, index: usize, wanted: Option<i64>) -> Result<i64, ApiError>;

    /// Allocates the node port for the health checks of a service: the wanted one, or a free one.
    fn health_check_port(&mut self, wanted: Option<i64>) -> Result<i64, ApiError>;
}

/// Allocates the address and the node ports of a service. Those that its old state holds are not
/// allocated again.
pub(super) fn allocate(
    service: &mut Value,
    old: Option<&Value>,
    around: &mut dyn ClusterResources,
) -> Result<(), ApiError> {
    let service_type = text(service, "/spec/type").to_owned();
    if service_type == "ExternalName" {
        return Ok(());
    }
    let problems = family_problems(service);
    if !problems.is_empty() {
        return Err(ApiError::invalid("", "Service", text(service, "/metadata/name"), &problems));
    }
    let wanted = text(service, "/spec/clusterIP").to_owned();
    let held = old.map_or("", |old| text(old, "/spec/clusterIP"));
    let address = match wanted.as_str() {
        "" => around.cluster_ip(service, None)?,
        // Validation rejects invalid addresses, and changes of an address.
        some if some != "None" && held.is_empty() && some.parse::<IpAddr>().is_ok() => {
            around.cluster_ip(service, Some(some))?
        }
        _ => wanted.clone(),
    };
    let wants_health = wants_health_check_port(service, old);
    // A number that is asked for comes first: the next free one may be the same.
    let wanted_health = health_port(service).filter(|_| wants_health);
    let wanted_health = wanted_health.map(|it| wanted_health_check_port(service, it, around)).transpose()?;
    let ports = allocated_ports(service, old, around, &service_type)?;
    let health = match wanted_health {
        None if wants_health => Some(around.health_check_port(None)?),
        wanted => wanted,
    };
    let unselected = wanted == "None" && entries(service, "/spec/selector").next().is_none();
    let Some(map) = service.as_object_mut() else { return Ok(()) };
    let spec = object(map, "spec");
    if !ports.is_empty() {
        spec.insert("ports".to_owned(), ports.into());
    }
    if let Some(port) = health {
        spec.insert("healthCheckNodePort".to_owned(), port.into());
    }
    let family = if address.contains(':') { "IPv6" } else { "IPv4" };
    spec.entry("clusterIPs").or_insert_with(|| json!([address]));
    spec.insert("clusterIP".to_owned(), address.into());
    let (policy, families) = if unselected {
        ("RequireDualStack", json!(["IPv4", "IPv6"]))
    } else {
        ("SingleStack", json!([family]))
    };
    fill(spec, "ipFamilyPolicy", policy);
    fill(spec, "ipFamilies", families);
    Ok(())
}

/// Returns the problems of the IP families that a service requests: this cluster has IPv4 addresses
/// only.
fn family_problems(service: &Value) -> FieldErrors {
    let invalid = |field: String, value: String, why: &str| {
        FieldError::with_value(field, FieldErrorKind::Invalid, value, why)
    };
    let families = items(service, "/spec/ipFamilies");
    let mut addresses = items(service, "/spec/clusterIPs").to_vec();
    if let (true, single @ Some(_)) = (addresses.is_empty(), at(service, "/spec/clusterIP")) {
        addresses.extend(single.filter(|it| *it != "").cloned());
    }
    let too_many = too_many_addresses(&addresses, families);
    if !too_many.is_empty() {
        return too_many;
    }
    let headless = addresses.first().is_some_and(|it| it == "None");
    let is_v6 = |it: &Value| it.as_str().is_some_and(|it| it.parse::<Ipv6Addr>().is_ok());
    let unnamed: FieldErrors = addresses
        .iter()
        .enumerate()
        .filter(|(index, it)| *index >= families.len() && is_v6(it))
        .map(|(index, _)| {
            let shown = Value::from(addresses.clone()).to_string();
            invalid(format!("spec.clusterIPs[{index}]"), shown, "IPv6 is not configured on this cluster")
        })
        .collect();
    if !unnamed.is_empty() {
        return unnamed;
    }
    // Validation rejects a family that does not match its address. A headless service without a
    // selector may name any family, because its endpoints are not managed by the cluster.
    let misfit = addresses.iter().zip(families).any(|(it, family)| is_v6(it) != (family == "IPv6"));
    let unselected = entries(service, "/spec/selector").next().is_none();
    if headless && unselected || misfit && !headless {
        return FieldErrors::new();
    }
    let policy = at(service, "/spec/ipFamilyPolicy").filter(|it| *it == "RequireDualStack");
    let dual = policy.map(|it| {
        let why = "this cluster is not configured for dual-stack services";
        invalid("spec.ipFamilyPolicy".to_owned(), it.to_string(), why)
    });
    let unknown = families.iter().enumerate().filter(|(_, it)| *it == "IPv6").map(|(index, it)| {
        invalid(format!("spec.ipFamilies[{index}]"), it.to_string(), "not configured on this cluster")
    });
    dual.into_iter().chain(unknown).collect()
}

/// Returns the problems of a service with more addresses or families than there can be, as
/// `ValidateServiceClusterIPsRelatedFields` of pkg/apis/core/validation/validation.go does. They
/// are found first, because others show the whole list once for each address.
fn too_many_addresses(addresses: &[Value], families: &[Value]) -> FieldErrors {
    let mut problems = FieldErrors::new();
    let mut seen = HashSet::new();
    for (index, family) in families.iter().enumerate() {
        if !seen.insert(family) {
            let field = format!("spec.ipFamilies[{index}]");
            problems.push(FieldError::with_value(field, FieldErrorKind::Duplicate, family, ""));
        }
    }
    if addresses.len() > 2 {
        let shown = Value::from(addresses.to_vec());
        let detail = "may only hold up to 2 values";
        problems.push(FieldError::with_value("spec.clusterIPs", FieldErrorKind::Invalid, shown, detail));
    }
    problems
}

/// Returns the ports of a service, with node ports if its type has them.
fn allocated_ports(
    service: &Value,
    old: Option<&Value>,
    around: &mut dyn ClusterResources,
    service_type: &str,
) -> Result<Vec<Value>, ApiError> {
    let mut ports = items(service, "/spec/ports").to_vec();
    let automatic = match service_type {
        "NodePort" => true,
        // A number that is asked for is allocated all the same.
        "LoadBalancer" => flag(service, "/spec/allocateLoadBalancerNodePorts"),
        _ => return Ok(ports),
    };
    let held: HashSet<i64> = old
        .map(|old| items(old, "/spec/ports").iter().filter_map(|port| number(port, "/nodePort")).collect())
        .unwrap_or_default();
    // Ports with the same number and different protocols share a node port, as the port 53 of a DNS
    // server does (`initNodePorts`).
    let mut shared: HashMap<Option<i64>, i64> = HashMap::new();
    let given = |port: &Value| number(port, "/nodePort").filter(|number| *number != 0);
    // Numbers that are asked for come first: the next free one may be among them.
    for (index, port) in ports.iter().enumerate() {
        let Some(wanted) = given(port) else { continue };
        if !held.contains(&wanted) {
            around.node_port(service, index, Some(wanted))?;
        }
        shared.entry(number(port, "/port")).or_insert(wanted);
    }
    for (index, port) in ports.iter_mut().enumerate().filter(|(_, port)| automatic && given(port).is_none()) {
        let own = number(port, "/port");
        let same = shared.get(&own).and_then(|it| around.node_port(service, index, Some(*it)).ok());
        let node_port = match same {
            Some(same) => same,
            None => around.node_port(service, index, None)?,
        };
        shared.entry(own).or_insert(node_port);
        port["nodePort"] = node_port.into();
    }
    Ok(ports)
}

/// Returns true if a node port for the health checks of a service is to be allocated: it needs one
/// and holds none. Validation rejects a port other than the one that it holds.
fn wants_health_check_port(service: &Value, old: Option<&Value>) -> bool {
    let held = old.filter(|it| needs_health_check(it)).and_then(health_port);
    needs_health_check(service) && held.is_none()
}

/// Allocates the node port for health checks that a service asks for.
fn wanted_health_check_port(
    service: &Value,
    port: i64,
    around: &mut dyn ClusterResources,
) -> Result<i64, ApiError> {
    // The allocator does not refuse a service its own ports.
    if items(service, "/spec/ports").iter().any(|it| number(it, "/nodePort") == Some(port)) {
        return Err(ApiError::internal_failure(&format!(
            "failed to allocate requested HealthCheck NodePort {port}: provided port is already allocated"
        )));
    }
    around.health_check_port(Some(port))
}

/// Returns true if the load balancer of a service has to check which nodes serve it.
pub(super) fn needs_health_check(service: &Value) -> bool {
    text(service, "/spec/type") == "LoadBalancer" && text(service, "/spec/externalTrafficPolicy") == "Local"
}

/// Returns the node port for the health checks of a service, if it has one.
pub(super) fn health_port(service: &Value) -> Option<i64> {
    number(service, "/spec/healthCheckNodePort").filter(|it| *it != 0)
}

/// Keeps the node port for health checks if an update leaves it out, or removes it if the service
/// no longer needs it and the update does not change it.
fn keep_health_check_port(new: &mut Value, old: &Value) {
    if !needs_health_check(old) {
        return;
    }
    let (needed, before, now) = (needs_health_check(new), health_port(old), health_port(new));
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    match before {
        Some(port) if needed && now.is_none() => {
            spec.insert("healthCheckNodePort".to_owned(), port.into());
        }
        _ if !needed && now == before => drop(spec.remove("healthCheckNodePort")),
        _ => {}
    }
}

/// Keeps allocated addresses and ports that an update leaves out. A service that becomes an
/// `ExternalName` releases them.
pub(super) fn keep_allocated(new: &mut Value, old: &Value) {
    keep_health_check_port(new, old);
    drop_load_balancer(new, old);
    let (now, before) = (text(new, "/spec/type").to_owned(), text(old, "/spec/type"));
    let Some(map) = new.as_object_mut() else { return };
    let spec = object(map, "spec");
    if now == "ExternalName" {
        if before != "ExternalName" {
            for key in [
                "clusterIP",
                "clusterIPs",
                "ipFamilies",
                "ipFamilyPolicy",
                "internalTrafficPolicy",
                "externalTrafficPolicy",
                "healthCheckNodePort",
            ] {
                spec.remove(key);
            }
            each(spec, "ports").for_each(|port| {
                port.remove("nodePort");
            });
        }
        return;
    }
    if before == "ExternalName" {
        return;
    }
    for key in ["clusterIP", "ipFamilyPolicy", "ipFamilies"] {
        if let Some(value) = old["spec"].get(key) {
            fill(spec, key, value.clone());
        }
    }
    // `clusterIPs` follows `clusterIP` if only that was changed.
    let single = spec.get("clusterIP").cloned().unwrap_or_default();
    let listed = spec.get("clusterIPs").and_then(|list| list.get(0)).cloned();
    let was = old["spec"].get("clusterIP").cloned().unwrap_or_default();
    if (listed.is_none() && single != "") || (single != was && listed.as_ref() == Some(&was)) {
        spec.insert("clusterIPs".to_owned(), json!([single]));
    }
    if matches!(now.as_str(), "NodePort" | "LoadBalancer") {
        // Without automatic allocation, a node port that an update leaves out is released.
        if now == "NodePort" || spec.get("allocateLoadBalancerNodePorts") != Some(&false.into()) {
            keep_node_ports(spec, old);
        }
    } else if matches!(before, "NodePort" | "LoadBalancer") {
        each(spec, "ports").for_each(|port| {
            port.remove("nodePort");
        });
        spec.remove("externalTrafficPolicy");
    }
}

/// Drops the load balancer of a service that no longer has one: its status, and the fields of the
/// spec that the update does not change, which the new type does not allow
/// (`dropTypeDependentFields` in k8s.io/kubernetes v1.36.4 pkg/registry/core/service/strategy.go).
fn drop_load_balancer(new: &mut Value, old: &Value) {
    if text(new, "/spec/type") == "LoadBalancer" {
        return;
    }
    let Some(map) = new.as_object_mut() else { return };
    object(map, "status").insert("loadBalancer".to_owned(), json!({}));
    let spec = object(map, "spec");
    let was_balanced = text(old, "/spec/type") == "LoadBalancer";
    for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if was_balanced && spec.get(key) == old["spec"].get(key) {
            spec.remove(key);
        }
    }
}

/// Keeps the node ports that an update leaves out. A port is the same if it has the same name,
/// whatever else the update changes, unless another port of the update has its number.
fn keep_node_ports(spec: &mut Map<String, Value>, old: &Value) {
    let node_port = |port: &Map<String, Value>| {
        port.get("nodePort").and_then(Value::as_i64).filter(|number| *number != 0)
    };
    let used: HashSet<i64> = each(spec, "ports").filter_map(|port| node_port(port)).collect();
    // The last one counts if two have the same name.
    let known: HashMap<&str, &Value> =
        items(old, "/spec/ports").iter().map(|port| (text(port, "/name"), port)).collect();
    for port in each(spec, "ports").filter(|port| node_port(port).is_none()) {
        let name = port.get("name").and_then(Value::as_str).unwrap_or_default();
        let kept = known.get(name).and_then(|known| number(known, "/nodePort"));
        if let Some(kept) = kept.filter(|it| *it != 0 && !used.contains(it)) {
            port.insert("nodePort".to_owned(), kept.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the node ports of a service that is updated from one list of ports to another.
    fn kept(old: Value, new: Value) -> Vec<Option<i64>> {
        let service = |ports: Value| json!({ "spec": { "type": "NodePort", "clusterIP": "10.96.0.7", "ports": ports } });
        let mut new = service(new);
        keep_allocated(&mut new, &service(old));
        items(&new, "/spec/ports").iter().map(|it| number(it, "/nodePort")).collect()
    }

    /// `patchAllocatedValues` of k8s.io/kubernetes v1.36.4
    /// pkg/registry/core/service/storage/storage.go.
    #[test]
    fn a_port_keeps_its_node_port_by_name_whatever_else_changes() {
        let old = json!([{ "name": "http", "port": 80, "protocol": "TCP", "nodePort": 30001 },
            { "name": "dns", "port": 53, "protocol": "UDP", "nodePort": 30002 }]);
        let moved = json!([{ "name": "http", "port": 8080, "protocol": "TCP" }, { "name": "dns", "port": 54, "protocol": "TCP" }]);
        assert_eq!(kept(old.clone(), moved), [Some(30001), Some(30002)]);
        let renamed = json!([{ "name": "web", "port": 80, "protocol": "TCP" }]);
        assert_eq!(kept(old.clone(), renamed), [None], "a new name is a new port");
        let taken = json!([{ "name": "other", "port": 81, "protocol": "TCP", "nodePort": 30001 },
            { "name": "http", "port": 80, "protocol": "TCP", "nodePort": 0 }]);
        assert_eq!(kept(old, taken), [Some(30001), Some(0)], "another port has taken it");
        let unnamed = json!([{ "port": 80, "protocol": "TCP", "nodePort": 30001 }]);
        assert_eq!(kept(unnamed, json!([{ "port": 81, "protocol": "UDP" }])), [Some(30001)]);
    }

    #[test]
    fn ip_families_that_the_cluster_lacks_are_rejected_by_name() {
        let selector = json!({ "app": "a" });
        for (spec, expected) in [
            (json!({ "clusterIP": "10.96.1.1" }), &[][..]),
            (json!({ "ipFamilies": ["IPv4"], "ipFamilyPolicy": "PreferDualStack" }), &[]),
            (
                json!({ "clusterIP": "fd00::1", "clusterIPs": ["fd00::1"] }),
                &[
                    r#"spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster"#,
                ],
            ),
            (
                json!({ "clusterIP": "fd00::1" }),
                &[
                    r#"spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster"#,
                ],
            ),
            (
                json!({ "ipFamilies": ["IPv6"] }),
                &[r#"spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster"#],
            ),
            (
                json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" }),
                &[
                    r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#,
                    r#"spec.ipFamilies[1]: Invalid value: "IPv6": not configured on this cluster"#,
                ],
            ),
            (json!({ "clusterIP": "None", "ipFamilies": ["IPv6"] }), &[]),
            (json!({ "ipFamilies": ["IPv4", "IPv4"] }), &[r#"spec.ipFamilies[1]: Duplicate value: "IPv4""#]),
            (
                json!({ "clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "fd00::2", "fd00::3"] }),
                &[
                    r#"spec.clusterIPs: Invalid value: ["fd00::1","fd00::2","fd00::3"]: may only hold up to 2 values"#,
                ],
            ),
            (
                json!({ "clusterIP": "None", "ipFamilies": ["IPv6"], "selector": selector }),
                &[r#"spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster"#],
            ),
        ] {
            let found: Vec<_> =
                family_problems(&json!({ "spec": spec })).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{spec}");
        }
    }
}
