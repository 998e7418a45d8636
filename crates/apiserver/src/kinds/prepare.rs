//! The fields that the server itself sets before an object is stored: status, generation, and
//! everything it decides.
//!
//! Runs after [`defaults`] and before validation. What depends on more than the object (addresses,
//! ports, priorities) is obtained from [`ClusterResources`].

use serde_json::{Map, Value, json};

use crate::ApiError;
use crate::kinds::allocate::{allocate, keep_allocated};
use crate::kinds::defaults;
use crate::kinds::json_access::{at, entries, fill, flag, items, number, object, text};
use crate::kinds::quantity::Quantity;
use crate::kinds::traits::{KindTraits, StatusMetadata};

pub use crate::kinds::allocate::ClusterResources;

/// The names and traits of a kind.
#[derive(Clone, Copy, Debug)]
pub struct KindNames<'a> {
    /// The group; empty for the core group.
    pub group: &'a str,
    /// The version of the object.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The plural name.
    pub plural: &'a str,
    /// The rules for creating, updating and deleting its objects.
    pub traits: KindTraits,
}

/// Prepares a new object. Its uid must be set, since jobs select by it; `now` is the time of
/// creation.
pub fn for_create(
    names: KindNames<'_>,
    value: &mut Value,
    now: &str,
    around: &mut dyn ClusterResources,
) -> Result<(), ApiError> {
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
            normalize_sources(value);
        }
        ("batch", "Job") => generate_job_selector(value),
        ("apps", "DaemonSet") => set_template_generation(value, 1),
        ("coordination.k8s.io", "Lease") => drop_election_fields(value),
        _ => {}
    }
    Ok(())
}

/// Reduces a write to the subresource `ephemeralcontainers` or `resize` of a pod to the fields of
/// that subresource; all other fields keep their old values.
pub fn only_part(part: &str, new: &mut Value, old: &Value) {
    let mut spec = old["spec"].clone();
    let names = |pod: &Value| {
        ["containers", "initContainers"].map(|list| {
            let containers = items(pod, &format!("/spec/{list}")).iter();
            containers.map(|it| text(it, "/name").to_owned()).collect::<Vec<_>>()
        })
    };
    match part {
        "ephemeralcontainers" => match new.pointer("/spec/ephemeralContainers") {
            Some(containers) => spec["ephemeralContainers"] = containers.clone(),
            None => drop(spec.as_object_mut().map(|it| it.remove("ephemeralContainers"))),
        },
        // Validation rejects containers that were added, removed, renamed or moved.
        "resize" if names(new) != names(old) => return,
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

/// Prepares the new state of an object for a write to the object itself. The caller, which knows
/// both states, releases the addresses and ports that a service no longer uses.
pub fn for_update(
    names: KindNames<'_>,
    new: &mut Value,
    old: &Value,
    around: &mut dyn ClusterResources,
) -> Result<(), ApiError> {
    let traits = names.traits;
    if traits.has_status {
        copy(new, old, "status");
    }
    match (names.group, names.kind) {
        ("", "Namespace") => {
            copy(new, old, "spec");
            defaults::apply(names.group, names.version, names.kind, new);
        }
        // A signer trusts the user and the request that were approved (k8s.io/kubernetes v1.36.4
        // pkg/registry/certificates/certificates/strategy.go).
        ("certificates.k8s.io", "CertificateSigningRequest") => copy(new, old, "spec"),
        ("", "Pod") => keep_server_fields(new, old),
        ("", "PersistentVolumeClaim") => normalize_sources(new),
        ("coordination.k8s.io", "Lease") => drop_election_fields(new),
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

/// Drops a `dataSource` of an unsupported kind, and a `dataSourceRef` to another namespace, which
/// needs a feature gate that is off by default (k8s.io/kubernetes v1.36.4
/// pkg/api/persistentvolumeclaim/util.go).
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

/// Copies the source of a claim from one field to the other, because provisioners read either
/// (`NormalizeDataSources`).
fn normalize_sources(claim: &mut Value) {
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for (set, unset) in [("dataSource", "dataSourceRef"), ("dataSourceRef", "dataSource")] {
        if let Some(source) = spec.get(set).filter(|it| text(it, "/namespace").is_empty()).cloned()
            && !spec.contains_key(unset)
        {
            spec.insert(unset.to_owned(), source);
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

/// Returns the QoS class of a pod, computed from the requests and limits of its containers.
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
    // kube-apiserver counts the generation of a CSIDriver from its first update on, and does not
    // count that of a PriorityClass after its creation.
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

fn new_pod(pod: &mut Value, now: &str, around: &mut dyn ClusterResources) -> Result<(), ApiError> {
    let class = text(pod, "/spec/priorityClassName").to_owned();
    let (priority, preemption) = match around.priority(&class) {
        Some(found) => found,
        None if class.is_empty() => (0, "PreemptLowerPriority".to_owned()),
        None => {
            let why = format!("no PriorityClass with name {class} was found");
            return Err(ApiError::forbidden("", "pods", text(pod, "/metadata/name"), &why));
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
    for (key, description, value) in decided {
        let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let Some(given) = spec.get(key).filter(|it| !it.is_null() && **it != value) {
            let why = format!(
                "the {description} ({}) must not be provided in pod spec; priority admission controller computed {} from the given \
                 PriorityClass name",
                shown(given),
                shown(&value)
            );
            return Err(ApiError::forbidden("", "pods", &name, &why));
        }
        spec.insert(key.to_owned(), value);
    }
    // As in k8s.io/kubernetes v1.36.4 pkg/apis/core/v1/conversion.go, a negative grace period means
    // one second.
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|it| it < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    add_default_tolerations(spec);
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

/// Adds the default tolerations: pods stay for five minutes on nodes that are not ready or not
/// reachable (k8s.io/kubernetes v1.36.4 plugin/pkg/admission/defaulttolerationseconds).
fn add_default_tolerations(spec: &mut Map<String, Value>) {
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

/// Keeps the fields that the server has set on a pod if an update leaves them out.
fn keep_server_fields(new: &mut Value, old: &Value) {
    let Some(map) = new.as_object_mut() else { return };
    let spec = object(map, "spec");
    for key in ["priority", "preemptionPolicy"] {
        if let Some(value) = old["spec"].get(key) {
            fill(spec, key, value.clone());
        }
    }
    add_default_tolerations(spec);
}

/// Drops the fields for coordinated leader election, whose feature gate is off by default
/// (k8s.io/kubernetes v1.36.4 pkg/registry/coordination/lease/strategy.go).
fn drop_election_fields(lease: &mut Value) {
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

/// Adds the taint that keeps pods off a new node until it is ready (k8s.io/kubernetes v1.36.4
/// plugin/pkg/admission/nodetaint).
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

/// Makes a job select its pods by its uid, unless `manualSelector` is set (k8s.io/kubernetes
/// v1.36.4 pkg/registry/batch/job/strategy.go).
fn generate_job_selector(job: &mut Value) {
    if flag(job, "/spec/manualSelector") {
        return;
    }
    let name = text(job, "/metadata/name").to_owned();
    let uid = text(job, "/metadata/uid").to_owned();
    // Labels that were defaulted from the template share its map in kube-apiserver, and therefore
    // get the generated ones too; labels set by the user stay unchanged.
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
