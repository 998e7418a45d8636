//! The pods behind a service: the ports that they serve, and their form in EndpointSlices and in
//! Endpoints.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::condition;
use crate::json_access::{at, flag, items, number, text};
use crate::object::has_ended;
use crate::owner::is_deleting;

/// Pods that serve the same ports.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    /// The ports in the form of an EndpointSlice.
    pub(super) ports: Vec<Value>,
    pub(super) pods: Vec<Arc<Value>>,
}

/// Groups the pods that can be reached by the ports that they serve. `pods` are those that the
/// service selects.
pub(super) fn groups(service: &Value, pods: &[Arc<Value>]) -> Vec<Group> {
    let wanted = items(service, "/spec/ports");
    let names: Vec<(&str, &str)> =
        wanted.iter().filter_map(|it| Some((target_name(it)?, text(it, "/protocol")))).collect();
    // A group for each combination of the numbers that the names stand for: most services have no
    // names, and need their ports only once.
    let mut groups: Vec<Option<Group>> = Vec::new();
    let mut known: HashMap<Vec<Option<i64>>, usize> = HashMap::new();
    for pod in pods.iter().filter(|it| is_reachable(it)) {
        let named = if names.is_empty() { HashMap::new() } else { named_ports(pod) };
        let numbers: Vec<Option<i64>> = names.iter().map(|it| named.get(it).copied()).collect();
        let group = *known.entry(numbers).or_insert_with_key(|numbers| {
            let ports = ports(wanted, numbers);
            let serves_none = ports.is_empty() && !wanted.is_empty();
            groups.push((!serves_none).then(|| Group { ports, pods: Vec::new() }));
            groups.len() - 1
        });
        if let Some(group) = &mut groups[group] {
            group.pods.push(Arc::clone(pod));
        }
    }
    groups.into_iter().flatten().collect()
}

/// Ports in a form that can be looked up: the groups of a service can be as many as its pods.
pub(super) type PortsKey = Vec<(String, Option<i64>, String, String)>;

/// Returns the key of ports in the form of an EndpointSlice.
pub(super) fn key(ports: &[Value]) -> PortsKey {
    let field = |port: &Value, pointer: &str| text(port, pointer).to_owned();
    let key = |it: &Value| {
        (field(it, "/name"), number(it, "/port"), field(it, "/protocol"), field(it, "/appProtocol"))
    };
    ports.iter().map(key).collect()
}

fn is_reachable(pod: &Value) -> bool {
    !has_ended(pod) && address(pod).is_some()
}

/// Returns the first IPv4 address of a pod. All slices are of type IPv4, and one address of another
/// family would make the server reject the slice with all its endpoints (`getEndpointAddresses` in
/// k8s.io/endpointslice v0.36.4 utils.go).
fn address(pod: &Value) -> Option<&str> {
    let all = items(pod, "/status/podIPs").iter().map(|it| text(it, "/ip"));
    all.chain([text(pod, "/status/podIP")]).find(|it| it.parse::<Ipv4Addr>().is_ok())
}

/// Returns the name of the container port that a port of a service stands for, if it has one.
fn target_name(port: &Value) -> Option<&str> {
    at(port, "/targetPort").and_then(Value::as_str)
}

/// Returns the ports of a service in the form of an EndpointSlice. `numbers` are those of the ports
/// with a [`target_name`], in order.
fn ports(wanted: &[Value], numbers: &[Option<i64>]) -> Vec<Value> {
    let mut numbers = numbers.iter().copied();
    let resolve = |port: &Value| {
        let number = match at(port, "/targetPort") {
            Some(Value::String(_)) => numbers.next()??,
            Some(target) => target.as_i64()?,
            None => number(port, "/port")?,
        };
        let mut resolved =
            json!({ "name": text(port, "/name"), "port": number, "protocol": text(port, "/protocol") });
        if let Some(protocol) = at(port, "/appProtocol") {
            resolved["appProtocol"] = protocol.clone();
        }
        Some(resolved)
    };
    wanted.iter().filter_map(resolve).collect()
}

/// Returns the container ports of a pod by name and protocol. The first of several counts.
fn named_ports(pod: &Value) -> HashMap<(&str, &str), i64> {
    let stays = items(pod, "/spec/initContainers").iter().filter(|it| text(it, "/restartPolicy") == "Always");
    let containers = items(pod, "/spec/containers").iter().chain(stays);
    let mut named = HashMap::new();
    for port in containers.flat_map(|it| items(it, "/ports")) {
        if let Some(number) = number(port, "/containerPort") {
            named.entry((text(port, "/name"), text(port, "/protocol"))).or_insert(number);
        }
    }
    named
}

/// Returns a pod in the form of an EndpointSlice. `zone` is that of its node.
pub(super) fn endpoint(service: &Value, pod: &Value, zone: Option<&str>) -> Value {
    let (serving, terminating) = (condition::is_true(pod, "Ready"), is_deleting(pod));
    let ready = flag(service, "/spec/publishNotReadyAddresses") || (serving && !terminating);
    let mut endpoint = json!({
        "addresses": [address(pod)],
        "conditions": { "ready": ready, "serving": serving, "terminating": terminating },
        "targetRef": target(pod),
    });
    if !text(pod, "/spec/nodeName").is_empty() {
        endpoint["nodeName"] = pod["spec"]["nodeName"].clone();
    }
    if let Some(zone) = zone {
        endpoint["zone"] = zone.into();
    }
    if let Some(hostname) = hostname(service, pod) {
        endpoint["hostname"] = hostname.into();
    }
    endpoint
}

/// Returns the pods of a group as a subset of Endpoints; `None` if that would be empty.
pub(super) fn subset(service: &Value, group: &Group) -> Option<Value> {
    let all = flag(service, "/spec/publishNotReadyAddresses");
    let entry = |pod: &&Arc<Value>| {
        let mut address = json!({ "ip": address(pod), "targetRef": target(pod) });
        if !text(pod, "/spec/nodeName").is_empty() {
            address["nodeName"] = pod["spec"]["nodeName"].clone();
        }
        if let Some(hostname) = hostname(service, pod) {
            address["hostname"] = hostname.into();
        }
        address
    };
    let shown: Vec<&Arc<Value>> = group.pods.iter().filter(|it| all || !is_deleting(it)).collect();
    let (ready, waiting): (Vec<_>, Vec<_>) =
        shown.into_iter().partition(|it| all || condition::is_true(it, "Ready"));
    if ready.is_empty() && waiting.is_empty() {
        return None;
    }
    let mut subset = json!({});
    for (field, pods) in [("addresses", ready), ("notReadyAddresses", waiting)] {
        if !pods.is_empty() {
            let mut list: Vec<Value> = pods.iter().map(entry).collect();
            list.sort_by(|left, right| text(left, "/ip").cmp(text(right, "/ip")));
            subset[field] = list.into();
        }
    }
    let mut ports = group.ports.clone();
    for port in ports.iter_mut().filter(|it| text(it, "/name").is_empty()).filter_map(Value::as_object_mut) {
        port.remove("name");
    }
    if !ports.is_empty() {
        subset["ports"] = ports.into();
    }
    Some(subset)
}

fn target(pod: &Value) -> Value {
    let metadata = &pod["metadata"];
    json!({ "kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"] })
}

/// Returns the name of a pod within its service, if it has one.
fn hostname<'a>(service: &Value, pod: &'a Value) -> Option<&'a str> {
    let named = !text(pod, "/spec/hostname").is_empty()
        && text(pod, "/spec/subdomain") == text(service, "/metadata/name");
    named.then(|| text(pod, "/spec/hostname"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(ports: Value) -> Value {
        json!({ "metadata": { "name": "web", "namespace": "n" }, "spec": { "ports": ports } })
    }

    fn pod(name: &str, port: i64, ready: bool) -> Arc<Value> {
        Arc::new(json!({
            "metadata": { "name": name, "namespace": "n", "uid": name },
            "spec": { "nodeName": "node-1", "containers": [
                { "ports": [{ "name": "http", "containerPort": port, "protocol": "TCP" }] }] },
            "status": { "phase": "Running", "podIP": format!("10.0.0.{}", name.len()), "conditions": [
                { "type": "Ready", "status": if ready { "True" } else { "False" } }] },
        }))
    }

    #[test]
    fn ports_are_found_by_number_by_name_and_per_pod() {
        let pods = [pod("a", 8080, true), pod("bb", 9090, true), pod("ccc", 8080, true)];
        let numbered = service(json!([{ "port": 80, "targetPort": 81, "protocol": "TCP" }]));
        let all = groups(&numbered, &pods);
        assert_eq!((all.len(), &all[0].ports[0]), (1, &json!({ "name": "", "port": 81, "protocol": "TCP" })));
        let named = service(json!([{ "name": "web", "port": 80, "targetPort": "http", "protocol": "TCP" }]));
        let all = groups(&named, &pods);
        assert_eq!(
            all.iter().map(|it| (it.ports[0]["port"].as_i64(), it.pods.len())).collect::<Vec<_>>(),
            [(Some(8080), 2), (Some(9090), 1)]
        );
        let unknown = service(json!([{ "port": 80, "targetPort": "grpc", "protocol": "TCP" }]));
        assert!(groups(&unknown, &pods).is_empty());
        assert_eq!(groups(&service(json!([])), &pods).len(), 1, "a headless service needs no ports");
    }

    #[test]
    fn ports_that_no_container_names_are_left_out() {
        let ports = service(json!([
            { "name": "a", "port": 80, "targetPort": "http", "protocol": "TCP" },
            { "name": "b", "port": 81, "targetPort": "http", "protocol": "UDP" },
            { "name": "c", "port": 82, "targetPort": "http", "protocol": "TCP", "appProtocol": "h2c" },
            { "name": "d", "port": 83, "protocol": "TCP" },
        ]));
        let all = groups(&ports, &[pod("a", 8080, true)]);
        let found: Vec<_> = all[0].ports.iter().map(|it| (text(it, "/name"), number(it, "/port"))).collect();
        assert_eq!(found, [("a", Some(8080)), ("c", Some(8080)), ("d", Some(83))]);
        assert_eq!(text(&all[0].ports[1], "/appProtocol"), "h2c");
    }

    #[test]
    fn the_first_ipv4_address_of_a_pod_is_listed() {
        let status = |podip: &str, podips: &[&str]| {
            let list: Vec<_> = podips.iter().map(|it| json!({ "ip": it })).collect();
            let mut pod = (*pod("a", 80, true)).clone();
            pod["status"]["podIP"] = podip.into();
            pod["status"]["podIPs"] = list.into();
            Arc::new(pod)
        };
        let dual = status("2001:db8::1", &["2001:db8::1", "10.0.0.7"]);
        assert_eq!(endpoint(&service(json!([])), &dual, None)["addresses"], json!(["10.0.0.7"]));
        let group = Group { ports: vec![], pods: vec![Arc::clone(&dual)] };
        assert_eq!(subset(&service(json!([])), &group).unwrap()["addresses"][0]["ip"], "10.0.0.7");
        assert_eq!(address(&status("10.0.0.8", &[])), Some("10.0.0.8"));
        let pods = [status("2001:db8::1", &["2001:db8::1"]), dual, status("", &[]), status("nowhere", &[])];
        let groups = groups(&service(json!([])), &pods);
        assert_eq!(groups.iter().map(|it| it.pods.len()).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_terminating_pod_is_serving_but_not_ready() {
        let mut leaving = (*pod("a", 80, true)).clone();
        leaving["metadata"]["deletionTimestamp"] = "t".into();
        let found = endpoint(&service(json!([])), &leaving, Some("zone-a"));
        assert_eq!(found["conditions"], json!({ "ready": false, "serving": true, "terminating": true }));
        assert_eq!((&found["zone"], &found["nodeName"]), (&json!("zone-a"), &json!("node-1")));
        let mut all = service(json!([]));
        all["spec"]["publishNotReadyAddresses"] = true.into();
        assert_eq!(endpoint(&all, &leaving, None)["conditions"]["ready"], true);
        let group = Group { ports: vec![], pods: vec![Arc::new(leaving)] };
        assert_eq!(subset(&service(json!([])), &group), None);
        assert!(subset(&all, &group).is_some());
    }

    #[test]
    fn endpoints_list_unready_pods_separately() {
        let pods = vec![pod("bb", 80, true), pod("a", 80, true), pod("ccc", 80, false)];
        let ports = vec![json!({ "name": "", "port": 80, "protocol": "TCP" })];
        let found = subset(&service(json!([])), &Group { ports, pods }).unwrap();
        let ips = |field: &str| items(&found, field).iter().map(|it| text(it, "/ip")).collect::<Vec<_>>();
        assert_eq!(
            (ips("/addresses"), ips("/notReadyAddresses")),
            (vec!["10.0.0.1", "10.0.0.2"], vec!["10.0.0.3"])
        );
        assert_eq!(found["ports"], json!([{ "port": 80, "protocol": "TCP" }]));
    }
}
