//! Validation of pods.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::prepare::qos_class;
use super::spec::spec;
use crate::kinds::json_access::{at, entries, items, number, text};
use crate::kinds::names;
use crate::kinds::validate::check::{FieldErrors, duplicate, forbidden, invalid, invalid_string, required};
use crate::kinds::validate::metadata;

const MUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates a new pod.
pub(super) fn create(out: &mut FieldErrors, pod: &Value) {
    spec(out, &pod["spec"], "spec");
    if !items(pod, "/spec/ephemeralContainers").is_empty() {
        forbidden(out, "spec.ephemeralContainers", "cannot be set on create");
    }
    let mirror = "kubernetes.io/config.mirror";
    if let Some(value) = at(pod, "/metadata/annotations").and_then(|it| it.get(mirror))
        && text(pod, "/spec/nodeName").is_empty()
    {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        invalid(out, &format!("metadata.annotations[{mirror}]"), value, detail);
    }
}

/// Validates the new state of a pod: hardly any field is mutable.
pub(super) fn update(out: &mut FieldErrors, new: &Value, old: &Value) {
    spec(out, &new["spec"], "spec");
    let mut counted = false;
    for list in ["containers", "initContainers"] {
        let pointer = format!("/spec/{list}");
        if items(new, &pointer).len() != items(old, &pointer).len() {
            forbidden(out, &format!("spec.{list}"), "pod updates may not add or remove containers");
            counted = true;
            continue;
        }
        // Reported twice, as by `ValidatePodUpdate` in k8s.io/kubernetes v1.36.4
        // pkg/apis/core/validation/validation.go: the validation of the whole spec finds it too.
        for (index, container) in items(new, &pointer).iter().enumerate() {
            if text(container, "/image").trim().is_empty() {
                required(out, &format!("spec.{list}[{index}].image"), "");
            }
        }
    }
    if counted {
        return;
    }
    if let Some(before) = number(old, "/spec/activeDeadlineSeconds") {
        match at(new, "/spec/activeDeadlineSeconds") {
            None => {
                let detail = "must not update from a positive integer to nil value";
                return invalid(out, "spec.activeDeadlineSeconds", &Value::Null, detail);
            }
            Some(now) if now.as_i64().is_some_and(|now| now > before) => {
                let detail = "must be less than or equal to previous value";
                return invalid(out, "spec.activeDeadlineSeconds", now, detail);
            }
            Some(_) => {}
        }
    }
    let before = items(old, "/spec/tolerations");
    let tolerated = |it: &Value| ["key", "operator", "value", "effect"].map(|key| it.get(key).cloned());
    let now: HashSet<_> = items(new, "/spec/tolerations").iter().map(tolerated).collect();
    let kept = before.iter().all(|toleration| now.contains(&tolerated(toleration)));
    // Tolerations that the server itself added may be left out: they are added again.
    let only_own = before.iter().all(|it| text(it, "/key").starts_with("node.kubernetes.io/"));
    if !kept && !only_own {
        forbidden(
            out,
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
    if immutable_parts(new, old) != immutable_parts(old, old) {
        forbidden(out, "spec", MUTABLE);
    }
}

/// Validates a pod whose ephemeral containers or resources have changed.
pub fn update_part(part: &str, new: &Value, old: &Value) -> FieldErrors {
    if let Some(detail) = unsupported(part, old) {
        let mut out = FieldErrors::default();
        forbidden(&mut out, "", detail);
        return out;
    }
    let mut out = metadata::update_common(new, old);
    match part {
        "ephemeralcontainers" => update_ephemeral(&mut out, new, old),
        _ => resize(&mut out, new, old),
    }
    out
}

/// Returns the reason why a part of a pod can never change.
fn unsupported(part: &str, pod: &Value) -> Option<&'static str> {
    let is_static = pod["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some();
    match part {
        "ephemeralcontainers" if is_static => Some("static pods do not support ephemeral containers"),
        "resize" if is_static => Some("static pods cannot be resized"),
        "resize" if text(pod, "/spec/os/name") == "windows" => Some("windows pods cannot be resized"),
        _ => None,
    }
}

/// Validates a resized pod: it and its containers may have other amounts of cpu and memory than
/// before, as long as its QoS class is the same.
///
/// Mirrors `ValidatePodResize` in k8s.io/kubernetes v1.36.4 pkg/apis/core/validation/validation.go,
/// without the check that the kubelet reports the resources of running containers.
fn resize(out: &mut FieldErrors, new: &Value, old: &Value) {
    spec(out, &new["spec"], "spec");
    let class = match text(old, "/status/qosClass") {
        "" => qos_class(old),
        class => class,
    };
    if class != qos_class(new) {
        invalid(out, "spec", &class.into(), "Pod QOS Class may not change as a result of resizing");
    }
    resize_pod_level(out, &new["spec"], &old["spec"]);
    if reordered(out, new, old) {
        return;
    }
    let pairs = |list: &str| {
        let pointer = format!("/spec/{list}");
        items(new, &pointer).iter().zip(items(old, &pointer)).enumerate()
    };
    for list in ["initContainers", "containers"] {
        for (index, (now, before)) in pairs(list) {
            for part in ["requests", "limits"] {
                if !keeps_names(now, before, part) {
                    let detail = format!("resource {part} cannot be removed");
                    forbidden(out, &format!("spec.{list}[{index}].resources.{part}"), &detail);
                }
            }
        }
    }
    for _ in pairs("containers").filter(|(_, (now, before))| fixed_parts(now) != fixed_parts(before)) {
        forbidden(out, "spec", "only cpu and memory resources are mutable");
    }
    for (index, (now, before)) in pairs("initContainers") {
        if fixed_parts(now) != fixed_parts(before) {
            let detail = "only cpu and memory resources for init or sidecar containers are mutable";
            forbidden(out, &format!("spec.initContainers[{index}]"), detail);
        }
    }
}

/// Validates the resources of a resized pod at the level of the pod.
fn resize_pod_level(out: &mut FieldErrors, new: &Value, old: &Value) {
    if at(new, "/resources").is_none() {
        let set = |part: &str| entries(old, &format!("/resources/{part}")).next().is_some();
        if set("requests") || set("limits") {
            forbidden(out, "spec.resources", "pod-level resources cannot be removed");
        }
        return;
    }
    for part in ["requests", "limits"] {
        if !keeps_names(new, old, part) {
            let detail = format!("pod-level resource {part} cannot be removed");
            forbidden(out, &format!("spec.resources.{part}"), &detail);
        }
    }
    let fixed = |spec: &Value| {
        let fixed = fixed_parts(&json!({ "resources": spec["resources"] }));
        at(&fixed, "/resources").filter(|it| **it != json!({})).cloned()
    };
    if fixed(new) != fixed(old) {
        forbidden(out, "spec", "only cpu and memory resources are mutable at pod-level");
    }
}

/// Returns true if the requests or the limits of a container or a pod have all names they had.
fn keeps_names(new: &Value, old: &Value, part: &str) -> bool {
    entries(old, &format!("/resources/{part}")).all(|(name, _)| new["resources"][part].get(name).is_some())
}

/// Reports containers that a resize adds, removes, renames or moves. Returns true if there are any.
fn reordered(out: &mut FieldErrors, new: &Value, old: &Value) -> bool {
    let problems = out.count();
    for list in ["containers", "initContainers"] {
        let (now, before) = (items(new, &format!("/spec/{list}")), items(old, &format!("/spec/{list}")));
        if now.len() != before.len() {
            let detail = format!("{list} may not be added or removed on resize");
            forbidden(out, &format!("spec.{list}"), &detail);
            continue;
        }
        for (index, _) in
            now.iter().zip(before).enumerate().filter(|(_, (now, before))| now["name"] != before["name"])
        {
            let detail = format!("{list} may not be renamed or reordered on resize");
            forbidden(out, &format!("spec.{list}[{index}].name"), &detail);
        }
    }
    out.count() > problems
}

/// Returns a container without its cpu and memory.
fn fixed_parts(container: &Value) -> Value {
    let mut container = container.clone();
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else {
        return container;
    };
    for part in ["requests", "limits"] {
        let Some(amounts) = resources.get_mut(part).and_then(Value::as_object_mut) else { continue };
        amounts.remove("cpu");
        amounts.remove("memory");
        if amounts.is_empty() {
            resources.remove(part);
        }
    }
    container
}

/// Validates a pod with changed ephemeral containers: their names are unique, and existing ones are
/// immutable.
fn update_ephemeral(out: &mut FieldErrors, new: &Value, old: &Value) {
    let lists = ["/spec/containers", "/spec/initContainers"];
    let mut seen: HashSet<&str> =
        lists.iter().flat_map(|it| items(new, it)).map(|it| text(it, "/name")).collect();
    let now = items(new, "/spec/ephemeralContainers");
    for (index, container) in now.iter().enumerate() {
        let path = format!("spec.ephemeralContainers[{index}]");
        match text(container, "/name") {
            "" => required(out, &format!("{path}.name"), ""),
            name => {
                invalid_string(out, &format!("{path}.name"), name, names::label(name));
                if !seen.insert(name) {
                    duplicate(out, &format!("{path}.name"), &name.into());
                }
            }
        }
        if text(container, "/image").is_empty() {
            required(out, &format!("{path}.image"), "");
        }
    }
    let mut by_name = HashMap::new();
    for container in now {
        by_name.entry(text(container, "/name")).or_insert(container);
    }
    for before in items(old, "/spec/ephemeralContainers") {
        let name = text(before, "/name");
        let what = match by_name.get(name).copied() {
            None => "removed",
            Some(after) if after != before => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers {name:?} may not be {what}\n");
        forbidden(out, "spec.ephemeralContainers", &detail);
    }
}

/// Returns the spec of a pod without its mutable parts.
fn immutable_parts(pod: &Value, old: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    let Some(map) = spec.as_object_mut() else { return spec };
    for key in ["activeDeadlineSeconds", "tolerations"] {
        map.remove(key);
    }
    if map.get("terminationGracePeriodSeconds").and_then(Value::as_i64) == Some(1)
        && number(old, "/spec/terminationGracePeriodSeconds").is_some_and(|before| before < 0)
    {
        map.insert(
            "terminationGracePeriodSeconds".to_owned(),
            old["spec"]["terminationGracePeriodSeconds"].clone(),
        );
    }
    // The node constraints of a pod with scheduling gates may still change, and its gates be
    // removed.
    if !items(old, "/spec/schedulingGates").is_empty() {
        for key in ["schedulingGates", "nodeSelector", "affinity"] {
            map.remove(key);
        }
    }
    for list in ["containers", "initContainers"] {
        for container in map.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                container.remove("image");
                container.remove("imagePullPolicy");
            }
        }
    }
    spec
}
