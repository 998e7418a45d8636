//! What services get from the cluster: addresses and ports. Who hands them out is behind a trait.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::Refusal;
use crate::kinds::look::{each, entries, fill, flag, items, number, object, text};

/// What an object needs from the rest of the cluster when it is created.
pub trait Surroundings {
    /// An address for a service: the one it wants, or a free one.
    fn cluster_ip(&mut self, service: &Value, wanted: Option<&str>) -> Result<String, Refusal>;

    /// A port on every node for one of the ports of a service, by its place: the one it wants, or a free one.
    fn node_port(&mut self, service: &Value, index: usize, wanted: Option<i64>) -> Result<i64, Refusal>;

    /// The value of a priority class and whether it preempts; `None` where there is no such class. An empty name asks
    /// for the default class.
    fn priority(&self, class: &str) -> Option<(i64, String)>;
}

/// Gets a service its address and ports. What its old state has is not asked for again.
pub(super) fn allocate(
    service: &mut Value,
    old: Option<&Value>,
    around: &mut dyn Surroundings,
) -> Result<(), Refusal> {
    let service_type = text(service, "/spec/type").to_owned();
    if service_type == "ExternalName" {
        return Ok(());
    }
    let wanted = text(service, "/spec/clusterIP").to_owned();
    let held = old.map_or("", |old| text(old, "/spec/clusterIP"));
    let address = match wanted.as_str() {
        "" => around.cluster_ip(service, None)?,
        // An address that is none is refused by validation, and one that is to change as well.
        some if some != "None" && held.is_empty() && some.parse::<IpAddr>().is_ok() => {
            around.cluster_ip(service, Some(some))?
        }
        _ => wanted.clone(),
    };
    let ports = allocated_ports(service, old, around, &service_type)?;
    let unselected = wanted == "None" && entries(service, "/spec/selector").next().is_none();
    let Some(map) = service.as_object_mut() else { return Ok(()) };
    let spec = object(map, "spec");
    if !ports.is_empty() {
        spec.insert("ports".to_owned(), ports.into());
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

/// The ports of a service, with one on every node where its type has such.
fn allocated_ports(
    service: &Value,
    old: Option<&Value>,
    around: &mut dyn Surroundings,
    service_type: &str,
) -> Result<Vec<Value>, Refusal> {
    let mut ports = items(service, "/spec/ports").to_vec();
    let balanced = service_type == "LoadBalancer" && flag(service, "/spec/allocateLoadBalancerNodePorts");
    if service_type != "NodePort" && !balanced {
        return Ok(ports);
    }
    let held: Vec<i64> = old
        .map(|old| items(old, "/spec/ports").iter().filter_map(|port| number(port, "/nodePort")).collect())
        .unwrap_or_default();
    for (index, port) in ports.iter_mut().enumerate() {
        let wanted = number(port, "/nodePort").filter(|number| *number != 0);
        if wanted.is_none_or(|wanted| !held.contains(&wanted)) {
            let number = around.node_port(service, index, wanted)?;
            port["nodePort"] = number.into();
        }
    }
    Ok(ports)
}

/// What was allocated stays where the update does not name it; a service by name gives it back.
pub(super) fn keep_allocated(new: &mut Value, old: &Value) {
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
                "allocateLoadBalancerNodePorts",
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
    // The list follows the single address where only one of them was changed.
    let single = spec.get("clusterIP").cloned().unwrap_or_default();
    let listed = spec.get("clusterIPs").and_then(|list| list.get(0)).cloned();
    let was = old["spec"].get("clusterIP").cloned().unwrap_or_default();
    if (listed.is_none() && single != "") || (single != was && listed.as_ref() == Some(&was)) {
        spec.insert("clusterIPs".to_owned(), json!([single]));
    }
    if matches!(now.as_str(), "NodePort" | "LoadBalancer") {
        for port in each(spec, "ports").filter(|port| !port.contains_key("nodePort")) {
            let same = items(old, "/spec/ports").iter().find(|known| {
                known.get("port") == port.get("port") && known.get("protocol") == port.get("protocol")
            });
            if let Some(number) = same.and_then(|known| known.get("nodePort")) {
                port.insert("nodePort".to_owned(), number.clone());
            }
        }
    } else if matches!(before, "NodePort" | "LoadBalancer") {
        each(spec, "ports").for_each(|port| {
            port.remove("nodePort");
        });
        spec.remove("externalTrafficPolicy");
        spec.remove("allocateLoadBalancerNodePorts");
    }
}
