//! Endpoints: the pods of each service with a selector, as EndpointSlices and as Endpoints.
//!
//! The `mod` lines below are in layer order.

mod addresses;
mod capacity;
mod slices;

use std::collections::BTreeMap;
use std::sync::Arc;

use dogwatch_core::ObjectKey;
use serde_json::{Value, json};

use super::decoded_cache::DecodedCache;
use super::owner::is_deleting;
use super::selector::{of_labels, selects};
use crate::ApiError;
use crate::cluster::{Cluster, DeleteOptions, ObjectRef, Writer};
use crate::controllers::reconcile::{Next, Reconciler};
use crate::controllers::{builtin, writer};
use crate::kinds::json_access::{at, entries, text};
use crate::registry::Kind;
use crate::store::{CollectionName, Encoded};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
const HEADLESS: &str = "service.kubernetes.io/headless";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// Writes the EndpointSlices and Endpoints of services.
#[derive(Debug, Default)]
pub(super) struct Endpoints {
    pods: DecodedCache,
    services: DecodedCache,
}

impl Reconciler for Endpoints {
    fn name(&self) -> &'static str {
        "endpointslice-controller"
    }

    fn follows(&self, cluster: &Cluster) -> Vec<CollectionName> {
        let of = |group, plural| builtin(cluster, group, "v1", plural).collection.clone();
        vec![
            of("", "services"),
            of("", "pods"),
            of("", "endpoints"),
            of("discovery.k8s.io", "endpointslices"),
        ]
    }

    /// Returns a service; the services that select a pod, before or after a change; or the service
    /// of a slice.
    fn touched(
        &mut self,
        cluster: &Cluster,
        collection: &CollectionName,
        before: Option<&Encoded>,
        after: Option<&Encoded>,
    ) -> Vec<ObjectKey> {
        let Some(key) = after.or(before).map(Encoded::key) else { return Vec::new() };
        match &**collection {
            "/pods" => {
                let sides: Vec<_> =
                    [before, after].into_iter().flatten().map(|it| self.pods.value(it)).collect();
                if after.is_none() {
                    self.pods.forget(key);
                }
                let kind = builtin(cluster, "", "v1", "services");
                let services = cluster.list(&kind, key.namespace());
                let about = |service: &Value| sides.iter().any(|pod| covers(service, pod));
                let about = services.iter().filter(|it| about(&self.services.value(it)));
                about.map(|it| it.key().clone()).collect()
            }
            "discovery.k8s.io/endpointslices" => {
                let slice = after.or(before).map(Encoded::to_value).unwrap_or_default();
                let service = slices::service_of(&slice);
                service.and_then(|it| ObjectKey::from_parts(key.namespace(), it).ok()).into_iter().collect()
            }
            "/services" if after.is_none() => {
                self.services.forget(key);
                vec![key.clone()]
            }
            _ => vec![key.clone()],
        }
    }

    async fn sync(&mut self, cluster: &Cluster, key: &ObjectKey) -> Result<Next, ApiError> {
        let services = builtin(cluster, "", "v1", "services");
        let writer = writer("endpointslice-controller", "kube-controller-manager");
        let service = cluster.get(&services, key).map(|it| self.services.value(&it));
        let Some(service) = service.filter(|it| !is_deleting(it)) else {
            forget(cluster, key, &writer).await?;
            return Ok(Next::touch());
        };
        if at(&service, "/spec/selector").is_none() || text(&service, "/spec/type") == "ExternalName" {
            return Ok(Next::touch());
        }
        let pods = self.pods.all(cluster, &builtin(cluster, "", "v1", "pods"), key.namespace());
        let pods: Vec<_> = pods.into_iter().filter(|it| covers(&service, it)).collect();
        let groups = addresses::groups(&service, &pods);
        let zones = zones(cluster);
        let endpoint = |pod: &Arc<Value>| {
            let zone = zones.get(text(pod, "/spec/nodeName")).map(String::as_str);
            addresses::endpoint(&service, pod, zone)
        };
        let wanted =
            groups.iter().map(|it| (it.ports.clone(), it.pods.iter().map(endpoint).collect())).collect();
        let writes = slices::writes(&service, wanted, own_slices(cluster, key));
        write_slices(cluster, key, writes, &writer).await?;
        let subsets = groups.iter().filter_map(|it| addresses::subset(&service, it)).collect();
        write_endpoints(cluster, key, &service, subsets, &writer).await?;
        Ok(Next::touch())
    }
}

/// Returns true if a service selects a pod.
fn covers(service: &Value, pod: &Value) -> bool {
    at(service, "/spec/selector").is_some()
        && of_labels(service, "/spec/selector").is_some_and(|it| selects(&it, pod))
}

/// Returns the zones of nodes, by name.
fn zones(cluster: &Cluster) -> BTreeMap<String, String> {
    let nodes = cluster.list(&builtin(cluster, "", "v1", "nodes"), None);
    let zone = |node: &Arc<Encoded>| {
        let zone = node.labels().get("topology.kubernetes.io/zone")?.to_owned();
        Some((node.key().name().to_owned(), zone))
    };
    nodes.iter().filter_map(zone).collect()
}

/// Returns the slices of a service that this controller manages.
fn own_slices(cluster: &Cluster, key: &ObjectKey) -> Vec<Value> {
    let kind = builtin(cluster, "discovery.k8s.io", "v1", "endpointslices");
    let all = cluster.list(&kind, key.namespace()).into_iter().map(|it| it.to_value());
    all.filter(|it| slices::service_of(it) == Some(key.name()) && !is_deleting(it)).collect()
}

async fn write_slices(
    cluster: &Cluster,
    key: &ObjectKey,
    writes: slices::Writes,
    writer: &Writer,
) -> Result<(), ApiError> {
    let kind = builtin(cluster, "discovery.k8s.io", "v1", "endpointslices");
    for slice in writes.create {
        cluster.add(slice, writer).await?;
    }
    for slice in writes.update {
        let Ok(slice_key) = ObjectKey::from_parts(key.namespace(), text(&slice, "/metadata/name")) else {
            continue;
        };
        // Fails on a conflict with another write; then the service is retried.
        cluster.update(&ObjectRef::of(&kind, &slice_key), slice, writer).await?;
    }
    for name in writes.delete {
        delete(cluster, &kind, key, &name, writer).await?;
    }
    Ok(())
}

async fn delete(
    cluster: &Cluster,
    kind: &Kind,
    key: &ObjectKey,
    name: &str,
    writer: &Writer,
) -> Result<(), ApiError> {
    let Ok(key) = ObjectKey::from_parts(key.namespace(), name) else { return Ok(()) };
    match cluster.delete(&ObjectRef::of(kind, &key), &DeleteOptions::default(), writer).await {
        Err(refusal) if refusal.0.code != 404 => Err(refusal),
        _ => Ok(()),
    }
}

async fn write_endpoints(
    cluster: &Cluster,
    key: &ObjectKey,
    service: &Value,
    mut subsets: Vec<Value>,
    writer: &Writer,
) -> Result<(), ApiError> {
    let kind = builtin(cluster, "", "v1", "endpoints");
    let labels = labels(service);
    let truncated = capacity::truncate(&mut subsets);
    let bring = |it: &mut Value| {
        let before = (it["metadata"].clone(), it.get("subsets").cloned());
        it["metadata"]["labels"] = labels.clone();
        if truncated {
            it["metadata"]["annotations"][OVER_CAPACITY] = "truncated".into();
        } else if let Some(annotations) = it["metadata"].get_mut("annotations").and_then(Value::as_object_mut)
        {
            annotations.remove(OVER_CAPACITY);
        }
        match it.as_object_mut() {
            Some(it) if subsets.is_empty() => drop(it.remove("subsets")),
            _ => it["subsets"] = subsets.clone().into(),
        }
        before != (it["metadata"].clone(), it.get("subsets").cloned())
    };
    if cluster.change(&ObjectRef::of(&kind, key), writer, bring).await?.is_some() {
        return Ok(());
    }
    let mut endpoints = json!({ "apiVersion": "v1", "kind": "Endpoints",
        "metadata": { "name": key.name(), "namespace": key.namespace(), "labels": labels } });
    if truncated {
        endpoints["metadata"]["annotations"] = json!({ OVER_CAPACITY: "truncated" });
    }
    if !subsets.is_empty() {
        endpoints["subsets"] = subsets.into();
    }
    match cluster.add(endpoints, writer).await {
        // The namespace is being deleted.
        Err(refusal) if !matches!(refusal.0.code, 403 | 404) => Err(refusal),
        _ => Ok(()),
    }
}

/// Returns the labels of Endpoints: those of the service, and the manager.
fn labels(service: &Value) -> Value {
    let own = entries(service, "/metadata/labels").filter(|(name, _)| ![MANAGED_BY, HEADLESS].contains(name));
    let mut labels: serde_json::Map<_, _> =
        own.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    if matches!(text(service, "/spec/clusterIP"), "" | "None") {
        labels.insert(HEADLESS.to_owned(), "".into());
    }
    labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
    labels.into()
}

/// Deletes the slices and Endpoints of a service that is gone.
async fn forget(cluster: &Cluster, key: &ObjectKey, writer: &Writer) -> Result<(), ApiError> {
    let kind = builtin(cluster, "discovery.k8s.io", "v1", "endpointslices");
    for slice in own_slices(cluster, key) {
        delete(cluster, &kind, key, text(&slice, "/metadata/name"), writer).await?;
    }
    let kind = builtin(cluster, "", "v1", "endpoints");
    let ours = |it: &Arc<Encoded>| it.labels().get(MANAGED_BY) == Some(MANAGER);
    if cluster.get(&kind, key).is_some_and(|it| ours(&it)) {
        delete(cluster, &kind, key, key.name(), writer).await?;
    }
    Ok(())
}
