//! Rows of the kinds outside the core group that run no pods.

use jiff::Timestamp;
use serde_json::Value;

use super::age;
use super::cell::{first_three, joined, load_balancer, name, non_empty_or, selector};
use super::control_plane;
use crate::kinds::autoscaling;
use crate::kinds::json_access::{at, flag, items, number, text};

/// Returns the cells of an object if this module prints its kind.
pub(super) fn cells(group: &str, plural: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let age = age::since_creation(object, now);
    let first = name(object);
    let plain = |pointer: &str| Value::from(text(object, pointer));
    Some(match (group, plural) {
        ("networking.k8s.io", "ingresses") => vec![
            first,
            at(object, "/spec/ingressClassName").and_then(Value::as_str).unwrap_or("<none>").into(),
            hosts(object).into(),
            load_balancer(object).into(),
            if items(object, "/spec/tls").is_empty() { "80" } else { "80, 443" }.into(),
            age,
        ],
        ("networking.k8s.io", "ingressclasses") => {
            vec![first, plain("/spec/controller"), parameters(object).into(), age]
        }
        ("networking.k8s.io", "networkpolicies") => {
            vec![first, selector(object, "/spec/podSelector").into(), age]
        }
        ("discovery.k8s.io", "endpointslices") => {
            vec![
                first,
                plain("/addressType"),
                slice_ports(object).into(),
                slice_addresses(object).into(),
                age,
            ]
        }
        ("coordination.k8s.io", "leases") => vec![first, plain("/spec/holderIdentity"), age],
        ("policy", "poddisruptionbudgets") => {
            let allowed = number(object, "/status/disruptionsAllowed").unwrap_or(0).into();
            let bound = |field: &str| Value::from(int_or_text(object, field));
            vec![first, bound("/spec/minAvailable"), bound("/spec/maxUnavailable"), allowed, age]
        }
        ("autoscaling", "scale") => {
            let count = |pointer: &str| Value::from(number(object, pointer).unwrap_or(0));
            vec![first, count("/spec/replicas"), count("/status/replicas"), age]
        }
        ("autoscaling", "horizontalpodautoscalers") if object["apiVersion"] == "autoscaling/v1" => {
            autoscaler(&autoscaling::to_v2(object), age)
        }
        ("autoscaling", "horizontalpodautoscalers") => autoscaler(object, age),
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => {
            vec![first, plain("/metadata/creationTimestamp")]
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => binding(object, age),
        ("storage.k8s.io", _) => return storage(plural, object, age),
        ("scheduling.k8s.io", "priorityclasses") => vec![
            first,
            number(object, "/value").unwrap_or(0).into(),
            flag(object, "/globalDefault").into(),
            age,
            plain("/preemptionPolicy"),
        ],
        ("admissionregistration.k8s.io", _) => return admission(plural, object, age),
        ("resource.k8s.io", "resourceclaims") => vec![first, claim_state(object).into(), age],
        ("resource.k8s.io", "resourceslices") => {
            vec![first, plain("/spec/nodeName"), plain("/spec/driver"), plain("/spec/pool/name"), age]
        }
        ("networking.k8s.io", "servicecidrs") => {
            let ranges = items(object, "/spec/cidrs").iter().filter_map(Value::as_str);
            vec![first, ranges.collect::<Vec<_>>().join(",").into(), age]
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            vec![first, plain("/metadata/creationTimestamp")]
        }
        ("node.k8s.io", "runtimeclasses") => vec![first, plain("/handler"), age],
        _ => return control_plane::cells(group, plural, object, age),
    })
}

fn admission(plural: &str, object: &Value, age: Value) -> Option<Vec<Value>> {
    let count = |pointer: &str| Value::from(items(object, pointer).len());
    let kind = || match at(object, "/spec/paramKind") {
        None => "<unset>".to_owned(),
        Some(kind) => format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")),
    };
    let reference = || match at(object, "/spec/paramRef") {
        None => "<unset>".to_owned(),
        Some(of) if text(of, "/namespace").is_empty() => format!("*/{}", text(of, "/name")),
        Some(of) => format!("{}/{}", text(of, "/namespace"), text(of, "/name")),
    };
    Some(match plural {
        "validatingwebhookconfigurations" | "mutatingwebhookconfigurations" => {
            vec![name(object), count("/webhooks"), age]
        }
        "validatingadmissionpolicies" => {
            vec![name(object), count("/spec/validations"), kind().into(), age]
        }
        "mutatingadmissionpolicies" => vec![name(object), count("/spec/mutations"), kind().into(), age],
        "validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings" => {
            vec![name(object), text(object, "/spec/policyName").into(), reference().into(), age]
        }
        _ => return None,
    })
}

fn claim_state(claim: &Value) -> String {
    let mut states = Vec::new();
    if at(claim, "/metadata/deletionTimestamp").is_some() {
        states.push("deleted");
    }
    if at(claim, "/status/allocation").is_none() {
        if states.is_empty() {
            states.push("pending");
        }
    } else {
        states.push("allocated");
        states.push(if items(claim, "/status/reservedFor").is_empty() { "" } else { "reserved" });
    }
    states.retain(|it| !it.is_empty());
    states.join(",")
}

fn hosts(ingress: &Value) -> String {
    let rules = items(ingress, "/spec/rules");
    let named: Vec<&str> =
        rules.iter().map(|rule| text(rule, "/host")).filter(|host| !host.is_empty()).collect();
    let shown: Vec<&str> = named.iter().take(3).copied().collect();
    // As kube-apiserver does: once three hosts are shown, rules are counted with or without a host.
    let third = rules.iter().enumerate().filter(|(_, rule)| !text(rule, "/host").is_empty()).nth(2);
    match third {
        _ if shown.is_empty() => "*".to_owned(),
        Some((index, _)) if index + 1 < rules.len() => {
            format!("{} + {} more...", shown.join(","), rules.len() - 3)
        }
        _ => shown.join(","),
    }
}

fn parameters(class: &Value) -> String {
    let Some(parameters) = at(class, "/spec/parameters") else { return "<none>".to_owned() };
    let kind = text(parameters, "/kind");
    let kind = match text(parameters, "/apiGroup") {
        "" => kind.to_owned(),
        group => format!("{kind}.{group}"),
    };
    format!("{kind}/{}", text(parameters, "/name"))
}

fn slice_ports(slice: &Value) -> String {
    let ports: Vec<String> = items(slice, "/ports")
        .iter()
        .map(|port| match number(port, "/port") {
            Some(number) => number.to_string(),
            None => at(port, "/name").and_then(Value::as_str).unwrap_or("*").to_owned(),
        })
        .collect();
    first_three(&ports, "<unset>")
}

fn slice_addresses(slice: &Value) -> String {
    let addresses: Vec<String> = items(slice, "/endpoints")
        .iter()
        .flat_map(|endpoint| items(endpoint, "/addresses"))
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    first_three(&addresses, "<unset>")
}

fn int_or_text(object: &Value, pointer: &str) -> String {
    match at(object, pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "N/A".to_owned(),
    }
}

fn autoscaler(object: &Value, age: Value) -> Vec<Value> {
    let target = text(object, "/spec/scaleTargetRef/kind");
    let target = format!("{target}/{}", text(object, "/spec/scaleTargetRef/name"));
    let least = number(object, "/spec/minReplicas").map_or("<unset>".to_owned(), |it| it.to_string());
    vec![
        name(object),
        target.into(),
        metrics(object).into(),
        least.into(),
        number(object, "/spec/maxReplicas").unwrap_or(0).into(),
        number(object, "/status/currentReplicas").unwrap_or(0).into(),
        age,
    ]
}

fn metrics(object: &Value) -> String {
    let specs = items(object, "/spec/metrics");
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let now = items(object, "/status/currentMetrics");
    let list: Vec<String> =
        specs.iter().enumerate().map(|(index, spec)| metric(spec, now.get(index))).collect();
    match list.as_slice() {
        [a, b, rest @ ..] if !rest.is_empty() => format!("{a}, {b} + {} more...", rest.len()),
        all => all.join(", "),
    }
}

/// Formats one metric: its current value and its target.
fn metric(spec: &Value, status: Option<&Value>) -> String {
    let (field, named) = match text(spec, "/type") {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = |value: &str| text(spec, &format!("/{field}/target/{value}"));
    let current = |value: &str| {
        let found = status.map_or("", |status| text(status, &format!("/{field}/current/{value}")));
        non_empty_or(found, "<unknown>").to_owned()
    };
    let average = wanted("averageValue");
    if named {
        let name = text(spec, &format!("/{field}/name"));
        if !average.is_empty() {
            return format!("{name}: {}/{average}", current("averageValue"));
        }
        let percent = |value: Option<i64>, none: &str| value.map_or(none.to_owned(), |it| format!("{it}%"));
        let used = status.and_then(|it| number(it, &format!("/{field}/current/averageUtilization")));
        let target = number(spec, &format!("/{field}/target/averageUtilization"));
        return format!("{name}: {}/{}", percent(used, "<unknown>"), percent(target, "<auto>"));
    }
    match (field, average.is_empty()) {
        ("pods", _) => format!("{}/{average}", current("averageValue")),
        (_, false) => format!("{}/{average} (avg)", current("averageValue")),
        (_, true) => format!("{}/{}", current("value"), wanted("value")),
    }
}

fn binding(object: &Value, age: Value) -> Vec<Value> {
    let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
    let subjects = |kind: &str| {
        let list: Vec<String> = items(object, "/subjects")
            .iter()
            .filter(|subject| text(subject, "/kind") == kind)
            .map(|subject| match kind {
                "ServiceAccount" => format!("{}/{}", text(subject, "/namespace"), text(subject, "/name")),
                _ => text(subject, "/name").to_owned(),
            })
            .collect();
        Value::from(list.join(", "))
    };
    vec![name(object), role.into(), age, subjects("User"), subjects("Group"), subjects("ServiceAccount")]
}

fn storage(plural: &str, object: &Value, age: Value) -> Option<Vec<Value>> {
    let plain = |pointer: &str| Value::from(text(object, pointer));
    let on = |pointer: &str| Value::from(flag(object, pointer));
    Some(match plural {
        "storageclasses" => {
            let mut first = text(object, "/metadata/name").to_owned();
            let annotation = |version: &str| {
                let key = format!("/metadata/annotations/{version}~1is-default-class");
                text(object, &key) == "true"
            };
            if annotation("storageclass.kubernetes.io") || annotation("storageclass.beta.kubernetes.io") {
                first.push_str(" (default)");
            }
            let expands = on("/allowVolumeExpansion");
            vec![
                first.into(),
                plain("/provisioner"),
                plain("/reclaimPolicy"),
                plain("/volumeBindingMode"),
                expands,
                age,
            ]
        }
        "csidrivers" => {
            let list = |pointer: &str, field: &str| -> Vec<String> {
                items(object, pointer).iter().map(|it| text(it, field).to_owned()).collect()
            };
            let modes = joined(&list("/spec/volumeLifecycleModes", ""), "<none>");
            let attach = at(object, "/spec/attachRequired").and_then(Value::as_bool).unwrap_or(true);
            vec![
                name(object),
                attach.into(),
                on("/spec/podInfoOnMount"),
                on("/spec/storageCapacity"),
                joined(&list("/spec/tokenRequests", "/audience"), "<unset>").into(),
                on("/spec/requiresRepublish"),
                modes.into(),
                age,
            ]
        }
        "csistoragecapacities" => vec![name(object), plain("/metadata/creationTimestamp")],
        "volumeattributesclasses" => vec![name(object), plain("/driverName"), age],
        "csinodes" => vec![name(object), items(object, "/spec/drivers").len().into(), age],
        "volumeattachments" => vec![
            name(object),
            plain("/spec/attacher"),
            plain("/spec/source/persistentVolumeName"),
            plain("/spec/nodeName"),
            on("/status/attached"),
            age,
        ],
        _ => return None,
    })
}
