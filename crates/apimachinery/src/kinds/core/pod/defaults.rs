//! Defaults of pods and of pod templates in other kinds. Some apply to pods only.

use serde_json::{Value, json};

use super::resources::{is_huge_pages, is_of_pods, is_overcommitted, of_containers};
use crate::kinds::core::persistent_volume_claim::spec_defaults as claim_spec;
use crate::kinds::core::volume_source::source;
use crate::kinds::json_access::{Object, each, fill, fill_zero, object, object_if_present};
use crate::kinds::resource_list::ResourceList;

/// Sets the defaults of a pod: those of a template, and those of pods only.
pub(super) fn pod(pod: &mut Object) {
    let spec = object(pod, "spec");
    pod_spec(spec);
    for list in ["containers", "initContainers"] {
        each(spec, list).for_each(requests_from_limits);
    }
    pod_level_limits(spec);
    pod_level_requests(spec);
    fill(spec, "enableServiceLinks", true);
    let on_host = spec.get("hostNetwork").and_then(Value::as_bool) == Some(true);
    if on_host {
        for list in ["containers", "initContainers"] {
            each(spec, list).for_each(host_ports);
        }
    }
    if let Some(status) = object_if_present(pod, "status") {
        first_of_many(status, "podIP", "podIPs");
        first_of_many(status, "hostIP", "hostIPs");
    }
}

/// Makes a single address and the list of addresses consistent: it is the first of the list, and
/// wins if they differ.
fn first_of_many(status: &mut Object, one: &str, many: &str) {
    let address = status.get(one).and_then(Value::as_str).filter(|it| !it.is_empty()).map(str::to_owned);
    let first =
        status.get(many).and_then(|it| it.pointer("/0/ip")).and_then(Value::as_str).map(str::to_owned);
    match (address, first) {
        (Some(address), first) if first.as_deref() != Some(address.as_str()) => {
            status.insert(many.to_owned(), json!([{ "ip": address }]));
        }
        (None, Some(first)) => drop(status.insert(one.to_owned(), first.into())),
        _ => {}
    }
}

/// Gives an object without labels those of its pod template.
pub(in crate::kinds) fn default_labels(map: &mut Object) {
    if let Some(labels) = template_labels(map).cloned() {
        object(map, "metadata").entry("labels").or_insert(labels);
    }
}

/// Returns the labels of the pod template of an object, if it has any.
pub(in crate::kinds) fn template_labels(map: &Object) -> Option<&Value> {
    let labels = map.get("spec")?.pointer("/template/metadata/labels")?;
    labels.as_object().is_some_and(|it| !it.is_empty()).then_some(labels)
}

/// Sets the defaults of a pod template in another kind.
pub(in crate::kinds) fn template(template: &mut Object) {
    pod_spec(object(template, "spec"));
}

fn pod_spec(spec: &mut Object) {
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill(spec, "securityContext", json!({}));
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "schedulerName", "default-scheduler");
    // The deprecated `serviceAccount` follows `serviceAccountName`, or stands in for it.
    if let Some(name) = spec.get("serviceAccountName").or(spec.get("serviceAccount")).cloned() {
        spec.insert("serviceAccountName".to_owned(), name.clone());
        spec.insert("serviceAccount".to_owned(), name);
    }
    each(spec, "volumes").for_each(volume);
    for list in ["containers", "initContainers"] {
        each(spec, list).for_each(container);
    }
    each(spec, "ephemeralContainers").for_each(container);
}

fn container(container: &mut Object) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let pull = if pulls_latest(image) { "Always" } else { "IfNotPresent" };
    fill(container, "imagePullPolicy", pull);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    for port in each(container, "ports") {
        fill(port, "protocol", "TCP");
    }
    for variable in each(container, "env") {
        if let Some(source) = object_if_present(variable, "valueFrom") {
            field_refs(source);
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = object_if_present(container, key) {
            probe(found);
        }
    }
    if let Some(lifecycle) = object_if_present(container, "lifecycle") {
        for key in ["postStart", "preStop"] {
            if let Some(get) =
                object_if_present(lifecycle, key).and_then(|hook| object_if_present(hook, "httpGet"))
            {
                http_get(get);
            }
        }
    }
}

fn probe(probe: &mut Object) {
    for (key, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        fill_zero(probe, key, value);
    }
    if let Some(get) = object_if_present(probe, "httpGet") {
        http_get(get);
    }
    if let Some(grpc) = object_if_present(probe, "grpc") {
        fill(grpc, "service", "");
    }
}

fn http_get(get: &mut Object) {
    fill(get, "path", "/");
    fill(get, "scheme", "HTTP");
}

fn field_refs(source: &mut Object) {
    if let Some(field) = object_if_present(source, "fieldRef") {
        fill(field, "apiVersion", "v1");
    }
}

fn volume(volume: &mut Object) {
    if !volume.iter().any(|(key, value)| key != "name" && !value.is_null()) {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    source(volume);
    if let Some(image) = object_if_present(volume, "image") {
        let reference = image.get("reference").and_then(Value::as_str).unwrap_or_default();
        let pull = if pulls_latest(reference) { "Always" } else { "IfNotPresent" };
        fill(image, "pullPolicy", pull);
    }
    if let Some(downward) = object_if_present(volume, "downwardAPI") {
        each(downward, "items").for_each(field_refs);
    }
    if let Some(projected) = object_if_present(volume, "projected") {
        for source in each(projected, "sources") {
            if let Some(token) = object_if_present(source, "serviceAccountToken") {
                fill(token, "expirationSeconds", 3600);
            }
            if let Some(downward) = object_if_present(source, "downwardAPI") {
                each(downward, "items").for_each(field_refs);
            }
        }
    }
    if let Some(claim) =
        object_if_present(volume, "ephemeral").and_then(|it| object_if_present(it, "volumeClaimTemplate"))
    {
        object(claim, "metadata");
        claim_spec(object(claim, "spec"));
    }
}

/// Returns true if an image is the latest of its name: it has that tag, or neither a tag nor a
/// digest.
fn pulls_latest(image: &str) -> bool {
    let (name, digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => !digest && !image.is_empty(),
    }
}

fn requests_from_limits(container: &mut Object) {
    let resources = object(container, "resources");
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let requests = object(resources, "requests");
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

/// Sets the limits of huge pages at the level of the pod to those of its containers together, if
/// the pod has resources of its own (`defaultHugePagePodLimits`).
fn pod_level_limits(spec: &mut Object) {
    let has = |side: &str| pod_level(spec, side).is_some_and(|it| !it.is_empty());
    if !has("requests") && !has("limits") {
        return;
    }
    let limits = containers_together(spec, "limits");
    let requested = |name: &str| pod_level(spec, "requests").is_some_and(|it| it.contains_key(name));
    let limits = limits.filter(|name, _| is_huge_pages(name) && !requested(name));
    fill_resources(spec, "limits", &limits);
}

/// Sets the requests at the level of the pod to those of its containers together or, for resources
/// that none of them requests, to the limits of the pod (`defaultPodRequests`).
fn pod_level_requests(spec: &mut Object) {
    let Some(limits) = pod_level(spec, "limits").filter(|it| !it.is_empty()).cloned() else { return };
    let requests = containers_together(spec, "requests");
    let requests = requests.filter(|name, _| is_of_pods(name) && is_overcommitted(name));
    fill_resources(spec, "requests", &requests);
    let limits = ResourceList::at(&Value::Object(limits), "").filter(|name, _| is_of_pods(name));
    fill_resources(spec, "requests", &limits);
}

/// Returns the requests or the limits at the level of the pod.
fn pod_level<'a>(spec: &'a Object, side: &str) -> Option<&'a Object> {
    spec.get("resources")?.get(side)?.as_object()
}

/// Returns the requests or the limits of all containers together.
fn containers_together(spec: &Object, side: &str) -> ResourceList {
    let list = |name: &str| spec.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let pointer = format!("/resources/{side}");
    of_containers(list("containers"), list("initContainers"), |it| ResourceList::at(it, &pointer))
}

/// Sets the requests or the limits at the level of the pod that are not set.
fn fill_resources(spec: &mut Object, side: &str, amounts: &ResourceList) {
    if amounts.is_empty() {
        return;
    }
    let set = object(object(spec, "resources"), side);
    for (name, amount) in amounts.iter() {
        set.entry(name).or_insert_with(|| amount.canonical().into());
    }
}

fn host_ports(container: &mut Object) {
    for port in each(container, "ports") {
        if let Some(number) = port.get("containerPort").and_then(Value::as_i64) {
            fill_zero(port, "hostPort", number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_image_is_always_pulled() {
        for (image, latest) in [
            ("img", true),
            ("img:latest", true),
            ("img:1", false),
            ("host:5000/img", true),
            ("host:5000/a/img:2", false),
            ("img@sha256:aa", false),
            ("img:latest@sha256:aa", true),
        ] {
            assert_eq!(pulls_latest(image), latest, "{image}");
        }
    }

    #[test]
    fn defaults_are_idempotent() {
        let mut once = json!({"spec": {"containers": [{"name": "c", "image": "i", "livenessProbe": {"grpc": {"port": 1}}}],
            "volumes": [{"name": "v"}], "serviceAccount": "s"}});
        pod(once.as_object_mut().expect("an object"));
        let mut twice = once.clone();
        pod(twice.as_object_mut().expect("an object"));
        assert_eq!(once, twice);
    }
}
