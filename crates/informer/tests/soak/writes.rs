//! The writes of a run: objects, their namespaces, and the definition of one of their kinds. Faults
//! may make any of them fail.

use dogwatch_client::{Api, Client, Error};
use dogwatch_core::{DeleteParams, Gvk, ResourceType, WriteParams};
use serde_json::{Value, json};

use crate::sample::POISON;
use crate::schedule::{Kind, Place};

const GROUP: &str = "soak.example";

/// Returns the type of config maps, which the server always serves.
pub(crate) fn maps() -> ResourceType {
    ResourceType::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps")
}

/// Returns the type of buoys, which the server serves while they are defined.
pub(crate) fn buoys() -> ResourceType {
    ResourceType::namespaced(Gvk::new(GROUP, "v1", "Buoy"), "buoys")
}

/// Lets the other tasks run this many times.
pub(crate) async fn turns(count: u8) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

/// The only writer besides the server itself.
#[derive(Debug)]
pub(crate) struct Writer {
    client: Client,
    /// The number of objects written, so that each one is different.
    written: u64,
}

impl Writer {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, written: 0 }
    }

    pub(crate) fn api(&self, place: Place) -> Api<Value> {
        let resource = match place.kind {
            Kind::Map => maps(),
            Kind::Buoy => buoys(),
        };
        Api::dynamic(self.client.clone(), resource).in_namespace(place.namespace)
    }

    /// Creates or changes an object, and its namespace if that was deleted.
    pub(crate) async fn put(&mut self, place: Place, on: bool) -> Result<Value, Error> {
        let value = (self.written + 1).to_string();
        self.write(place, on, &value).await
    }

    /// Writes an object that informers cannot decode. It may carry the label or not.
    pub(crate) async fn poison(&mut self, place: Place) -> Result<Value, Error> {
        self.write(place, !self.written.is_multiple_of(3), POISON).await
    }

    async fn write(&mut self, place: Place, on: bool, value: &str) -> Result<Value, Error> {
        self.written += 1;
        // A request to an in-process server may complete before any other task has run.
        turns((self.written % 4) as u8).await;
        let api = self.api(place);
        let name = format!("n{}", place.name);
        let set = if on { "on" } else { "off" };
        let object = json!({
            "apiVersion": api.resource().gvk.api_version(), "kind": api.resource().gvk.kind,
            "metadata": { "name": name, "labels": { "set": set } },
            "data": { "value": value },
        });
        match api.replace(&name, &WriteParams::default(), &object).await {
            Err(error) if error.is_not_found() => {}
            other => return other,
        }
        match api.create(&WriteParams::default(), &object).await {
            Err(error) if error.is_not_found() => {
                drop(self.found(place.namespace).await);
                api.create(&WriteParams::default(), &object).await
            }
            other => other,
        }
    }

    pub(crate) async fn delete(&self, place: Place) -> Result<(), Error> {
        let name = format!("n{}", place.name);
        self.api(place).delete(&name, &DeleteParams::default()).await.map(drop)
    }

    fn namespaces(&self) -> Api<Value> {
        let resource = ResourceType::cluster(Gvk::new("", "v1", "Namespace"), "namespaces");
        Api::dynamic(self.client.clone(), resource)
    }

    pub(crate) async fn found(&self, namespace: &str) -> Result<(), Error> {
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        self.namespaces().create(&WriteParams::default(), &object).await.map(drop)
    }

    pub(crate) async fn remove_namespace(&self, namespace: &str) -> Result<(), Error> {
        self.namespaces().delete(namespace, &DeleteParams::default()).await.map(drop)
    }

    fn definitions(&self) -> Api<Value> {
        let kind = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        Api::dynamic(self.client.clone(), ResourceType::cluster(kind, "customresourcedefinitions"))
    }

    /// Creates the definition of buoys.
    pub(crate) async fn define(&self) -> Result<(), Error> {
        self.definitions().create(&WriteParams::default(), &definition()).await.map(drop)
    }

    pub(crate) async fn remove_definition(&self) -> Result<(), Error> {
        let name = format!("buoys.{GROUP}");
        self.definitions().delete(&name, &DeleteParams::default()).await.map(drop)
    }
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("buoys.{GROUP}") },
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": { "plural": "buoys", "singular": "buoy", "kind": "Buoy", "listKind": "BuoyList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
}
