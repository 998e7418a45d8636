//! What the server itself writes into an object before it is stored: status, generation, and what it decides alone.
//!
//! Runs after [`defaults`], before validation. What needs more than the object (addresses, ports,
//! priorities) is asked of [`Surroundings`].

use serde_json::{Map, Value, json};

use crate::Refusal;
use crate::kinds::allocate::{allocate, keep_allocated};
use crate::kinds::defaults;
use crate::kinds::look::{at, entries, fill, flag, items, number, object, text};
use crate::kinds::quantity::Quantity;
use crate::kinds::traits::{KindTraits, StatusMetadata};

pub use crate::kinds::allocate::Surroundings;

/// The kind of an object, by all its names.
#[derive(Clone, Copy, Debug)]
pub struct KindNames<'a> {
    /// The group; empty for the core group.
    pub group: &'a str,
    /// The version of the object.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The plural.
    pub plural: &'a str,
    /// What sets it apart.
    pub traits: KindTraits,
}

/// Prepares a new object. Its uid must be set, since jobs select by it; `now` is the time of creation.
pub fn for_create(
    names: KindNames<'_>,
    value: &mut Value,
    now: &str,
    around: &mut dyn Surroundings,
) -> Result<(), Refusal> {
    let traits = names.traits;
    if let Some(map) = value.as_object_mut() {
        if traits.has_status && (names.group, names.kind) != ("", "Node") {
            map.remove("status");
        }
        let meta = object(map, "metadata");
        if traits.has_generation {
            meta.insert("generation".to_owned(), 1.into());
        }
    }
    defaults::apply(names.group, names.version, names.kind, value);
    match (names.group, names.kind) {
        ("", "Pod") => new_pod(value, now, around)?,
        ("", "Service") => allocate(value, None, around)?,
        ("", "Namespace") => new_namespace(value),
        ("", "Node") => new_node(value),
        ("", "PersistentVolume") => {
            add_finalizer(value, "kubernetes.io/pv-protection");
            value["status"]["lastPhaseTransitionTime"] = now.into();
        }
        ("", "PersistentVolumeClaim") => {
            add_finalizer(value, "kubernetes.io/pvc-protection");
            drop_unsupported_source(value);
            settle_source(value);
        }
        ("batch", "Job") => generate_job_selector(value),
        ("apps", "DaemonSet") => set_template_generation(value, 1),
        ("coordination.k8s.io", "Lease") => without_strategy(value),
        _ => {}
    }
    Ok(())
}

/// Leaves of a change to a pod what its parts `ephemeralcontainers` and `resize` are for; the rest stays as it was.
pub fn only_part(part: &str, new: &mut Value, old: &Value) {
    let mut spec = old["spec"].clone();
    match part {
        "ephemeralcontainers" => match new.pointer("/spec/ephemeralContainers") {
            Some(containers) => spec["ephemeralContainers"] = containers.clone(),
            None => drop(spec.as_object_mut().map(|it| it.remove("ephemeralContainers"))),
        },
        "resize" => {
            for list in ["containers", "initContainers"] {
                for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                    let named = |it: &&Value| it["name"] == container["name"];
                    let Some(wanted) = items(new, &format!("/spec/{list}")).iter().find(named) else {
                        continue;
                    };
                    for field in ["resources", "resizePolicy"] {
                        copy(container, wanted, field);
                    }
                }
            }
        }
        _ => return,
    }
    new["spec"] = spec;
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        copy(&mut new["metadata"], &old["metadata"], field);
    }
}

/// Prepares the new state of an object for a write to the object itself. What a service no longer uses is given back by
/// the caller, who sees both states.
pub fn for_update(
    names: KindNames<'_>,
    new: &mut Value,
    old: &Value,
    around: &mut dyn Surroundings,
) -> Result<(), Refusal> {
    let traits = names.traits;
    if traits.has_status {
        copy(new, old, "status");
    }
    match (names.group, names.kind) {
        ("", "Namespace") => {
            copy(new, old, "spec");
            defaults::apply(names.group, names.version, names.kind, new);
        }
        ("", "Pod") => keep_decided(new, old),
        ("", "PersistentVolumeClaim") => settle_source(new),
        ("coordination.k8s.io", "Lease") => without_strategy(new),
        ("", "Service") => {
            keep_allocated(new, old);
            allocate(new, Some(old), around)?;
        }
        ("apps", "DaemonSet") => {
            let generation = template_generation(old);
            let changed = at(new, "/spec/template") != at(old, "/spec/template");
            set_template_generation(new, if changed { generation + 1 } else { generation });
        }
        _ => {}
    }
    keep_generation(names, traits, new, old);
    Ok(())
}

/// Drops a source of a claim that the old field cannot name, and one of another namespace, which is behind a switch
/// that is off by default.
fn drop_unsupported_source(claim: &mut Value) {
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let supported = |source: &Value| {
        matches!(
            (text(source, "/apiGroup"), text(source, "/kind")),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    };
    if spec.get("dataSource").is_some_and(|it| !supported(it)) {
        spec.remove("dataSource");
    }
    if spec.get("dataSourceRef").is_some_and(|it| !text(it, "/namespace").is_empty()) {
        spec.remove("dataSourceRef");
    }
}

/// Says in both fields what a claim is filled from, where it is said in one. Provisioners read either.
fn settle_source(claim: &mut Value) {
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for (said, unsaid) in [("dataSource", "dataSourceRef"), ("dataSourceRef", "dataSource")] {
        if let Some(source) = spec.get(said).filter(|it| text(it, "/namespace").is_empty()).cloned()
            && !spec.contains_key(unsaid)
        {
            spec.insert(unsaid.to_owned(), source);
        }
    }
}

/// Prepares the new state of an object for a write to its `/status`.
pub fn for_status_update(names: KindNames<'_>, new: &mut Value, old: &Value) {
    let traits = names.traits;
    let status = new.get("status").cloned();
    let mut meta = new.get("metadata").cloned().unwrap_or_default();
    let keep: &[&str] = match traits.status_metadata {
        StatusMetadata::All => &["generation"],
        StatusMetadata::AllButLabels => &["generation", "labels"],
        StatusMetadata::AllButOwners => &["generation", "ownerReferences", "deletionTimestamp"],
        StatusMetadata::Nothing => {
            &["generation", "ownerReferences", "deletionTimestamp", "labels", "annotations", "finalizers"]
        }
    };
    let old_meta = old.get("metadata").cloned().unwrap_or_default();
    for key in keep {
        copy(&mut meta, &old_meta, key);
    }
    let mut stored = old.clone();
    if let Some(map) = stored.as_object_mut() {
        map.insert("metadata".to_owned(), meta);
        match status {
            Some(status) => map.insert("status".to_owned(), status),
            None => map.remove("status"),
        };
    }
    if (names.group, names.kind) == ("", "Pod") && text(&stored, "/status/qosClass").is_empty() {
        let class = at(old, "/status/qosClass").cloned();
        if let (Some(class), Some(map)) = (class, stored.as_object_mut()) {
            object(map, "status").insert("qosClass".to_owned(), class);
        }
    }
    if (names.group, names.kind) == ("apps", "DaemonSet") {
        set_template_generation(&mut stored, template_generation(old));
    }
    defaults::apply(names.group, names.version, names.kind, &mut stored);
    *new = stored;
}

/// How a pod is treated when a node runs short: by what its containers ask for and are held to.
pub fn qos_class(pod: &Value) -> &'static str {
    let containers = || items(pod, "/spec/containers").iter().chain(items(pod, "/spec/initContainers"));
    let amount = |container: &Value, list: &str, name: &str| {
        let pointer = format!("/resources/{list}/{name}");
        at(container, &pointer).and_then(Quantity::read).filter(|amount| !amount.is_zero())
    };
    let mut any = false;
    let mut all = true;
    for container in containers() {
        for name in ["cpu", "memory"] {
            let limit = amount(container, "limits", name);
            let request = amount(container, "requests", name);
            any |= limit.is_some() || request.is_some();
            let held = limit.is_some_and(|limit| request.is_none_or(|request| request.equals(limit)));
            all &= held;
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn copy(new: &mut Value, old: &Value, key: &str) {
    let Some(map) = new.as_object_mut() else { return };
    match old.get(key) {
        Some(value) => map.insert(key.to_owned(), value.clone()),
        None => map.remove(key),
    };
}

fn keep_generation(names: KindNames<'_>, traits: KindTraits, new: &mut Value, old: &Value) {
    // Drivers are counted from their first change on, and classes of priority not at all.
    let counted = match names.kind {
        "CSIDriver" => true,
        "PriorityClass" => false,
        _ => traits.has_generation,
    };
    if !counted {
        if let Some(meta) = new.get_mut("metadata") {
            copy(meta, old.get("metadata").unwrap_or(&Value::Null), "generation");
        }
        return;
    }
    let counts_metadata: &[&str] = match names.kind {
        "Deployment" => &["/metadata/annotations"],
        "EndpointSlice" => &["/metadata/labels"],
        _ => &[],
    };
    let wanted = |value: &Value| -> Vec<(String, Value)> {
        entries(value, "")
            .filter(|(key, _)| !matches!(*key, "metadata" | "status" | "kind" | "apiVersion"))
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect()
    };
    let changed =
        wanted(new) != wanted(old) || counts_metadata.iter().any(|field| at(new, field) != at(old, field));
    let generation = number(old, "/metadata/generation").unwrap_or(0).saturating_add(i64::from(changed));
    if let Some(map) = new.as_object_mut().filter(|_| generation > 0) {
        object(map, "metadata").insert("generation".to_owned(), generation.into());
    }
}

fn new_pod(pod: &mut Value, now: &str, around: &mut dyn Surroundings) -> Result<(), Refusal> {
    let class = text(pod, "/spec/priorityClassName").to_owned();
    let (priority, preemption) = match around.priority(&class) {
        Some(found) => found,
        None if class.is_empty() => (0, "PreemptLowerPriority".to_owned()),
        None => {
            let why = format!("no PriorityClass with name {class} was found");
            return Err(Refusal::forbidden("", "pods", text(pod, "/metadata/name"), &why));
        }
    };
    let qos = qos_class(pod);
    let Some(map) = pod.as_object_mut() else { return Ok(()) };
    let name = map["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let spec = object(map, "spec");
    let decided = [
        ("priority", "integer value of priority", Value::from(priority)),
        ("preemptionPolicy", "string value of PreemptionPolicy", Value::from(preemption)),
    ];
    for (key, called, value) in decided {
        let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let Some(said) = spec.get(key).filter(|said| !said.is_null() && **said != value) {
            let why = format!(
                "the {called} ({}) must not be provided in pod spec; priority admission controller computed {} from the given \
                 PriorityClass name",
                shown(said),
                shown(&value)
            );
            return Err(Refusal::forbidden("", "pods", &name, &why));
        }
        spec.insert(key.to_owned(), value);
    }
    // A pod that would not wait at all is given a second.
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|it| it < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    tolerate_for_a_while(spec);
    let gated = spec.get("schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty());
    let status = object(map, "status");
    status.insert("phase".to_owned(), "Pending".into());
    status.insert("qosClass".to_owned(), qos.into());
    if gated {
        let condition = json!({"type": "PodScheduled", "status": "False",
            "lastProbeTime": null, "lastTransitionTime": now, "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates"});
        status.insert("conditions".to_owned(), json!([condition]));
    }
    Ok(())
}

/// Pods stay for five minutes on nodes that are not ready or not reachable, unless they say otherwise.
fn tolerate_for_a_while(spec: &mut Map<String, Value>) {
    let mut tolerations = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let known = tolerations.iter().any(|toleration| {
            let of = text(toleration, "/key");
            let effect = text(toleration, "/effect");
            (of == key || of.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !known {
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
    spec.insert("tolerations".to_owned(), tolerations.into());
}

/// What the server decided about a pod stays where an update leaves it out.
fn keep_decided(new: &mut Value, old: &Value) {
    let Some(map) = new.as_object_mut() else { return };
    let spec = object(map, "spec");
    for key in ["priority", "preemptionPolicy"] {
        if let Some(value) = old["spec"].get(key) {
            fill(spec, key, value.clone());
        }
    }
    tolerate_for_a_while(spec);
}

/// Elections that the server coordinates are off, and with them what leases say for them.
fn without_strategy(lease: &mut Value) {
    if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}

fn new_namespace(namespace: &mut Value) {
    let Some(map) = namespace.as_object_mut() else { return };
    let spec = object(map, "spec");
    let mut finalizers = spec.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    if !finalizers.contains(&"kubernetes".into()) {
        finalizers.push("kubernetes".into());
    }
    spec.insert("finalizers".to_owned(), finalizers.into());
}

/// A node has to show that it is ready before pods come to it.
fn new_node(node: &mut Value) {
    let Some(map) = node.as_object_mut() else { return };
    let spec = object(map, "spec");
    let mut taints = spec.get("taints").and_then(Value::as_array).cloned().unwrap_or_default();
    let key = "node.kubernetes.io/not-ready";
    if !taints.iter().any(|taint| text(taint, "/key") == key && text(taint, "/effect") == "NoSchedule") {
        taints.push(json!({"key": key, "effect": "NoSchedule"}));
    }
    spec.insert("taints".to_owned(), taints.into());
}

fn add_finalizer(value: &mut Value, finalizer: &str) {
    let Some(map) = value.as_object_mut() else { return };
    let meta = object(map, "metadata");
    let mut finalizers = meta.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    if !finalizers.contains(&finalizer.into()) {
        finalizers.push(finalizer.into());
    }
    meta.insert("finalizers".to_owned(), finalizers.into());
}

/// A job selects its pods by its uid, unless it says that it selects them by itself.
fn generate_job_selector(job: &mut Value) {
    if flag(job, "/spec/manualSelector") {
        return;
    }
    let name = text(job, "/metadata/name").to_owned();
    let uid = text(job, "/metadata/uid").to_owned();
    // Labels that were taken over from the template share it; those of the user's own stay as they are.
    let shared = at(job, "/metadata/labels") == at(job, "/spec/template/metadata/labels");
    let Some(map) = job.as_object_mut() else { return };
    let spec = object(map, "spec");
    let labels = object(object(object(spec, "template"), "metadata"), "labels");
    for (key, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        labels.entry(key).or_insert(value.as_str().into());
    }
    let labels = labels.clone();
    let selector = object(object(spec, "selector"), "matchLabels");
    selector.entry("batch.kubernetes.io/controller-uid").or_insert(uid.into());
    if shared {
        object(map, "metadata").insert("labels".to_owned(), labels.into());
    }
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(daemon_set: &Value) -> i64 {
    let pointer = format!("/metadata/annotations/{TEMPLATE_GENERATION}");
    text(daemon_set, &pointer).parse().unwrap_or(0)
}

fn set_template_generation(daemon_set: &mut Value, generation: i64) {
    let Some(map) = daemon_set.as_object_mut() else { return };
    let annotations = object(object(map, "metadata"), "annotations");
    annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
}
