//! Rows of the kinds of the core group other than pods.

use jiff::Timestamp;
use serde_json::Value;

use super::cell::{access_modes, containers, first_three, joined, labels, load_balancer, name, non_empty_or};
use super::{age, cell};
use crate::kinds::json_access::{at, entries, flag, items, number, text};

/// Returns the cells of an object if this module prints its kind.
pub(super) fn cells(plural: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let age = age::since_creation(object, now);
    let first = name(object);
    let count = |pointer: &str| entries(object, pointer).count();
    Some(match plural {
        "configmaps" => vec![first, (count("/data") + count("/binaryData")).into(), age],
        "secrets" => vec![first, text(object, "/type").into(), count("/data").into(), age],
        "namespaces" => vec![first, text(object, "/status/phase").into(), age],
        "endpoints" => vec![first, endpoints(object).into(), age],
        "nodes" => node(object, age),
        "persistentvolumes" => volume(object, age),
        "persistentvolumeclaims" => claim(object, age),
        "services" => service(object, age),
        "events" => event(object, now),
        "replicationcontrollers" => {
            let [names, images] = containers(object, "/spec/template/spec");
            let wanted = number(object, "/spec/replicas").unwrap_or(0);
            let there = number(object, "/status/replicas").unwrap_or(0);
            let ready = number(object, "/status/readyReplicas").unwrap_or(0);
            let selector = labels(object, "/spec/selector").into();
            vec![first, wanted.into(), there.into(), ready.into(), age, names, images, selector]
        }
        "podtemplates" => {
            let [names, images] = containers(object, "/template/spec");
            vec![first, names, images, labels(object, "/template/metadata/labels").into()]
        }
        "limitranges" => vec![first, text(object, "/metadata/creationTimestamp").into()],
        "resourcequotas" => {
            let [requests, limits] = quota(object);
            vec![first, requests.into(), limits.into(), age]
        }
        _ => return None,
    })
}

fn endpoints(object: &Value) -> String {
    let subsets = items(object, "/subsets");
    let mut list = Vec::new();
    for subset in subsets {
        let addresses = items(subset, "/addresses");
        let ports = items(subset, "/ports");
        if ports.is_empty() {
            list.extend(addresses.iter().map(|address| text(address, "/ip").to_owned()));
        }
        for port in ports {
            let port = number(port, "/port").unwrap_or(0);
            list.extend(addresses.iter().map(|address| match text(address, "/ip") {
                ip if ip.contains(':') => format!("[{ip}]:{port}"),
                ip => format!("{ip}:{port}"),
            }));
        }
    }
    first_three(&list, if subsets.is_empty() { "<none>" } else { "" })
}

fn node(object: &Value, age: Value) -> Vec<Value> {
    let ready = items(object, "/status/conditions").iter().find(|it| text(it, "/type") == "Ready");
    let mut status = match ready {
        None => "Unknown".to_owned(),
        Some(ready) if text(ready, "/status") == "True" => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
    };
    if flag(object, "/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<String> = entries(object, "/metadata/labels")
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role.to_owned()),
            None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    let address = |kind: &str| {
        let found = items(object, "/status/addresses").iter().find(|it| text(it, "/type") == kind);
        Value::from(found.map_or("<none>", |it| text(it, "/address")))
    };
    let info = |field: &str| non_empty_or(text(object, &format!("/status/nodeInfo/{field}")), "<unknown>");
    let mut kernel = info("kernelVersion").to_owned();
    let architecture = text(object, "/status/nodeInfo/architecture");
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        name(object),
        status.into(),
        joined(&roles, "<none>").into(),
        age,
        text(object, "/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage").into(),
        kernel.into(),
        info("containerRuntimeVersion").into(),
    ]
}

fn phase(object: &Value) -> Value {
    if at(object, "/metadata/deletionTimestamp").is_some() {
        return "Terminating".into();
    }
    text(object, "/status/phase").into()
}

/// Returns the storage class, which a deprecated annotation may name instead of the spec.
fn storage_class(object: &Value) -> Value {
    let old = text(object, "/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
    non_empty_or(old, text(object, "/spec/storageClassName")).into()
}

fn unset(object: &Value, pointer: &str) -> Value {
    at(object, pointer).and_then(Value::as_str).unwrap_or("<unset>").into()
}

fn volume(object: &Value, age: Value) -> Vec<Value> {
    let claim = at(object, "/spec/claimRef")
        .map(|claim| format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")))
        .unwrap_or_default();
    vec![
        name(object),
        non_empty_or(text(object, "/spec/capacity/storage"), "0").into(),
        access_modes(object, "/spec/accessModes").into(),
        text(object, "/spec/persistentVolumeReclaimPolicy").into(),
        phase(object),
        claim.into(),
        storage_class(object),
        unset(object, "/spec/volumeAttributesClassName"),
        text(object, "/status/reason").into(),
        age,
        unset(object, "/spec/volumeMode"),
    ]
}

fn claim(object: &Value, age: Value) -> Vec<Value> {
    let volume = text(object, "/spec/volumeName");
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        let capacity = non_empty_or(text(object, "/status/capacity/storage"), "0").to_owned();
        (capacity, access_modes(object, "/status/accessModes"))
    };
    vec![
        name(object),
        phase(object),
        volume.into(),
        capacity.into(),
        modes.into(),
        storage_class(object),
        unset(object, "/spec/volumeAttributesClassName"),
        age,
        unset(object, "/spec/volumeMode"),
    ]
}

fn service(object: &Value, age: Value) -> Vec<Value> {
    let kind = text(object, "/spec/type");
    let external: Vec<String> =
        items(object, "/spec/externalIPs").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let addresses = match kind {
        "ClusterIP" | "NodePort" => joined(&external, "<none>"),
        "LoadBalancer" => {
            let balanced = load_balancer(object);
            let all: Vec<String> =
                balanced.split(',').filter(|it| !it.is_empty()).map(str::to_owned).chain(external).collect();
            joined(&all, "<pending>")
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
    let address = non_empty_or(text(object, "/spec/clusterIP"), "<none>");
    vec![
        name(object),
        kind.into(),
        address.into(),
        addresses.into(),
        joined(&ports, "<none>").into(),
        age,
        labels(object, "/spec/selector").into(),
    ]
}

/// Returns the cells of an event, of either group.
fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let either = |core: &'static str, new: &'static str| non_empty_or(text(object, core), text(object, new));
    let event_time = text(object, "/eventTime");
    let first = non_empty_or(either("/firstTimestamp", "/deprecatedFirstTimestamp"), event_time);
    let mut last = non_empty_or(either("/lastTimestamp", "/deprecatedLastTimestamp"), first);
    let mut count = number(object, "/count")
        .or(number(object, "/deprecatedCount"))
        .filter(|count| *count != 0)
        .unwrap_or(1);
    if let Some(series) = at(object, "/series") {
        last = text(series, "/lastObservedTime");
        count = number(series, "/count").unwrap_or(0);
    }
    let kind = either("/involvedObject/kind", "/regarding/kind").to_lowercase();
    let target = match either("/involvedObject/name", "/regarding/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = non_empty_or(
        either("/source/component", "/deprecatedSource/component"),
        either("/reportingComponent", "/reportingController"),
    );
    let instance =
        non_empty_or(either("/source/host", "/deprecatedSource/host"), text(object, "/reportingInstance"));
    let source = if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") };
    vec![
        age::since(last, now).into(),
        text(object, "/type").into(),
        text(object, "/reason").into(),
        target.into(),
        either("/involvedObject/fieldPath", "/regarding/fieldPath").into(),
        source.into(),
        either("/message", "/note").trim().into(),
        age::since(first, now).into(),
        count.into(),
        cell::name(object),
    ]
}

fn quota(object: &Value) -> [String; 2] {
    let mut lists = [Vec::new(), Vec::new()];
    for (resource, hard) in entries(object, "/status/hard") {
        let used = entries(object, "/status/used").find(|(key, _)| *key == resource);
        let used = used.and_then(|(_, value)| value.as_str()).unwrap_or("0");
        let part = format!("{resource}: {used}/{}", hard.as_str().unwrap_or("0"));
        lists[usize::from(resource.starts_with("limits."))].push(part);
    }
    lists.map(|list| list.join(", "))
}
