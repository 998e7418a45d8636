//! Nodes.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::fields::{Field, SelectableFields};
use crate::kinds::json_access::{Object, entries, flag, items, object, text};
use crate::kinds::names;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::KindTraits;
use crate::kinds::validate::check::{FieldErrors, cidr, forbidden, invalid_string, required, unsupported};

/// The rules of the kind Node.
pub(crate) static RULES: KindRules = KindRules {
    group: "",
    kind: "Node",
    plural: "nodes",
    traits: KindTraits { has_status: true, ..KindTraits::COMMON },
    default: defaults,
    creates_status: true,
    validate_create: validate,
    validate_update: Some(validate_update),
    fields: SelectableFields {
        namespace: false,
        ..SelectableFields::of(&[Field::flag("spec.unschedulable", "/spec/unschedulable")])
    },
    cells,
    storage_path: Some("minions"),
    ..COMMON
};

fn defaults(_: &str, map: &mut Object) {
    let spec = object(map, "spec");
    if let Some(range) = spec.get("podCIDR").cloned()
        && spec.get("podCIDRs").and_then(|all| all.get(0)) != Some(&range)
    {
        spec.insert("podCIDRs".to_owned(), json!([range]));
    }
    let node_status = object(map, "status");
    if let Some(capacity) = node_status.get("capacity").cloned() {
        node_status.entry("allocatable").or_insert(capacity);
    }
}

fn validate(out: &mut FieldErrors, object: &Value) {
    taints(out, object);
    for (index, range) in items(object, "/spec/podCIDRs").iter().filter_map(Value::as_str).enumerate() {
        cidr(out, &format!("spec.podCIDRs[{index}]"), range);
    }
}

fn validate_update(out: &mut FieldErrors, new: &Value, old: &Value) {
    validate(out, new);
    // Taints are validated, and their problems are reported, twice: `ValidateUpdate` in
    // k8s.io/kubernetes v1.36.4 pkg/registry/core/node/strategy.go.
    taints(out, new);
    let before = items(old, "/spec/podCIDRs");
    if !before.is_empty() && before != items(new, "/spec/podCIDRs") {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        forbidden(out, "spec.podCIDRs", detail);
    }
}

fn taints(out: &mut FieldErrors, node: &Value) {
    for (index, taint) in items(node, "/spec/taints").iter().enumerate() {
        // Taints are in `spec`, but `ValidateNode` of k8s.io/kubernetes v1.36.4
        // pkg/apis/core/validation/validation.go reports them below `metadata`.
        let path = format!("metadata.taints[{index}]");
        let (key, value) = (text(taint, "/key"), text(taint, "/value"));
        invalid_string(out, &format!("{path}.key"), key, names::qualified(key));
        invalid_string(out, &format!("{path}.value"), value, names::label_value(value));
        match text(taint, "/effect") {
            "" => required(out, &format!("{path}.effect"), ""),
            "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
            other => {
                let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
                unsupported(out, &format!("{path}.effect"), &other.into(), &known);
            }
        }
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let age = age::since_creation(object, now);
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
    let info =
        |field: &str| cells::non_empty_or(text(object, &format!("/status/nodeInfo/{field}")), "<unknown>");
    let mut kernel = info("kernelVersion").to_owned();
    let architecture = text(object, "/status/nodeInfo/architecture");
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        cells::name(object),
        status.into(),
        cells::joined(&roles, "<none>").into(),
        age,
        text(object, "/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage").into(),
        kernel.into(),
        info("containerRuntimeVersion").into(),
    ]
}
