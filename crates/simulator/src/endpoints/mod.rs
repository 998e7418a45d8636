//! Endpoints: the pods of each service with a selector, as EndpointSlices and as Endpoints.
//!
//! The `mod` lines below are in layer order.

mod addresses;
mod capacity;
mod slices;

use std::sync::Arc;

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Reconciler};
use dogwatch_core::{DeleteParams, Object, ObjectKey};
use serde_json::{Value, json};

use crate::caches::Caches;
use crate::collection::{Collection, FirstError, Writer};
use crate::component::Component;
use crate::index::{LABEL, SELECTOR, anchor, labels as label_values};
use crate::json_access::{entries, text};
use crate::object::{JsonObject, Payload, Pod};
use crate::owner::is_deleting;
use crate::selector::of_service;

/// The name of the component.
const NAME: &str = "endpointslice-controller";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
const HEADLESS: &str = "service.kubernetes.io/headless";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// Writes the EndpointSlices and Endpoints of services.
#[derive(Debug)]
pub(crate) struct Endpoints {
    services: Collection<JsonObject>,
    pods: Collection<Pod>,
    nodes: Collection<JsonObject>,
    endpoints: Collection<JsonObject>,
    slices: Collection<JsonObject>,
}

impl Endpoints {
    pub(crate) fn new(caches: &Caches) -> Self {
        Self {
            services: caches.services.get(),
            pods: caches.pods.get(),
            nodes: caches.nodes.get(),
            endpoints: caches.endpoints.get(),
            slices: caches.slices.get(),
        }
    }
}

impl Component for Endpoints {
    const NAME: &'static str = NAME;

    /// Returns the controller, which processes a service; the services that select a pod, before or
    /// after a change; and the service of a slice or of Endpoints.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let services = self.services.clone();
        let of_pod = move |pod: &Pod| -> Vec<ObjectKey> {
            let header = pod.header();
            let candidates = label_values(&header).into_iter().flat_map(|it| services.found(SELECTOR, &it));
            let selects = |it: &Arc<JsonObject>| of_service(it).is_some_and(|it| it.matches(header.labels));
            candidates.filter(selects).filter_map(|it| it.key()).collect()
        };
        let of_slice = |slice: &JsonObject| {
            ObjectKey::from_parts(slice.header().namespace, slices::service_of(slice)?).ok()
        };
        Controller::of(&self.services.informer)
            .watches(&self.pods.informer, of_pod)
            .watches(&self.endpoints.informer, |it: &JsonObject| it.key())
            .watches(&self.slices.informer, of_slice)
            .needs(&self.nodes.informer)
    }
}

impl Reconciler for Endpoints {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        let writer = Writer { manager: "kube-controller-manager", context };
        // A service that is being deleted can have traffic until its finalizers are gone.
        let Some(service) = self.services.get(key) else {
            self.forget(key, writer).await?;
            return Ok(Action::Done);
        };
        let Some(selector) = of_service(&service) else { return Ok(Action::Done) };
        if text(&service, "/spec/type") == "ExternalName" {
            return Ok(Action::Done);
        }
        let pods = self.pods.found(LABEL, &anchor(key.namespace().unwrap_or_default(), &selector));
        let pods = pods.iter().filter(|it| selector.matches(it.header().labels));
        let pods: Vec<Arc<Value>> = pods.map(|it| Arc::clone(it.json())).collect();
        let groups = addresses::groups(&service, &pods);
        let endpoint = |pod: &Arc<Value>| {
            let node = self.nodes.store.get_named(None, text(pod, "/spec/nodeName"));
            let zone = node.as_deref().and_then(|it| it.header().labels.get("topology.kubernetes.io/zone"));
            addresses::endpoint(&service, pod, zone)
        };
        let wanted =
            groups.iter().map(|it| (it.ports.clone(), it.pods.iter().map(endpoint).collect())).collect();
        let writes = slices::writes(&service, wanted, self.own_slices(key));
        let slices = self.write_slices(key, writes, writer).await;
        let subsets = groups.iter().filter_map(|it| addresses::subset(&service, it)).collect();
        let endpoints = self.write_endpoints(key, &service, subsets, writer).await;
        slices.and(endpoints).map(|()| Action::Done)
    }
}

impl Endpoints {
    /// Returns the slices of a service that this controller manages.
    fn own_slices(&self, key: &ObjectKey) -> Vec<Value> {
        let value =
            format!("{}/{}={}", key.namespace().unwrap_or_default(), slices::SERVICE_NAME, key.name());
        let all = self.slices.found(LABEL, &value);
        let ours = all.iter().filter(|it| slices::service_of(it) == Some(key.name()) && !is_deleting(it));
        ours.map(|it| Value::clone(it)).collect()
    }

    async fn write_slices(
        &self,
        key: &ObjectKey,
        writes: slices::Writes,
        writer: Writer<'_>,
    ) -> Result<(), Error> {
        let mut failed = FirstError::default();
        for slice in writes.create {
            failed.keep(self.slices.create(slice, writer).await);
        }
        for slice in writes.update {
            let Ok(slice_key) = ObjectKey::from_parts(key.namespace(), text(&slice, "/metadata/name")) else {
                continue;
            };
            // Fails on a conflict with another write; then the service is retried.
            failed.keep(self.slices.replace(&slice_key, slice, writer).await);
        }
        // The slices to delete may have endpoints that the others should have taken over.
        failed.into_result()?;
        let mut failed = FirstError::default();
        for name in writes.delete {
            let Ok(slice) = ObjectKey::from_parts(key.namespace(), &name) else { continue };
            failed.keep(self.slices.delete(&slice, &DeleteParams::default(), writer).await);
        }
        failed.into_result()
    }

    async fn write_endpoints(
        &self,
        key: &ObjectKey,
        service: &Value,
        mut subsets: Vec<Value>,
        writer: Writer<'_>,
    ) -> Result<(), Error> {
        let labels = labels(service);
        let truncated = capacity::truncate(&mut subsets);
        let bring = |it: &mut Value| {
            let before = (it["metadata"].clone(), it.get("subsets").cloned());
            it["metadata"]["labels"] = labels.clone();
            if truncated {
                it["metadata"]["annotations"][OVER_CAPACITY] = "truncated".into();
            } else if let Some(annotations) =
                it["metadata"].get_mut("annotations").and_then(Value::as_object_mut)
            {
                annotations.remove(OVER_CAPACITY);
            }
            match it.as_object_mut() {
                Some(it) if subsets.is_empty() => drop(it.remove("subsets")),
                _ => it["subsets"] = subsets.clone().into(),
            }
            before != (it["metadata"].clone(), it.get("subsets").cloned())
        };
        if self.endpoints.change(key, "", writer, bring).await?.is_some() {
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
        self.endpoints.create(endpoints, writer).await.map(drop)
    }

    /// Deletes the slices and Endpoints of a service that is gone.
    async fn forget(&self, key: &ObjectKey, writer: Writer<'_>) -> Result<(), Error> {
        let mut failed = FirstError::default();
        for slice in self.own_slices(key) {
            let Ok(slice) = ObjectKey::from_parts(key.namespace(), text(&slice, "/metadata/name")) else {
                continue;
            };
            failed.keep(self.slices.delete(&slice, &DeleteParams::default(), writer).await);
        }
        let ours = |it: &Arc<JsonObject>| it.header().labels.get(MANAGED_BY) == Some(MANAGER);
        if self.endpoints.get(key).filter(ours).is_some() {
            failed.keep(self.endpoints.delete(key, &DeleteParams::default(), writer).await);
        }
        failed.into_result()
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
