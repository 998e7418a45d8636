//! The objects of every namespace: the service account `default`, and the root certificate of the
//! API server.

use dogwatch_client::Error;
use dogwatch_controller::{Action, Context, Controller, ControllerBuilder, Reconciler};
use dogwatch_core::{Object, ObjectKey};
use serde_json::{Value, json};

use crate::caches::{ACCOUNT, CERTIFICATE, Caches};
use crate::collection::{Collection, FirstError, Writer};
use crate::component::Component;
use crate::object::JsonObject;
use crate::owner::is_deleting;

/// The name of the component.
const NAME: &str = "serviceaccount-controller";

/// Creates these objects in each namespace, and creates them again if they are deleted.
#[derive(Debug)]
pub(crate) struct Accounts {
    namespaces: Collection<JsonObject>,
    accounts: Collection<JsonObject>,
    /// The certificate, and the ConfigMaps that hold it.
    certificates: Option<(String, Collection<JsonObject>)>,
}

impl Accounts {
    pub(crate) fn new(caches: &Caches, certificate: Option<String>) -> Self {
        Self {
            namespaces: caches.namespaces.get(),
            accounts: caches.accounts.get(),
            certificates: certificate.map(|it| (it, caches.certificates.get())),
        }
    }
}

impl Component for Accounts {
    const NAME: &'static str = NAME;

    /// Returns the controller, which watches the namespaces and these objects.
    fn watch(&self) -> ControllerBuilder<ObjectKey> {
        let namespace = |object: &JsonObject| object.header().namespace.map(ObjectKey::cluster);
        let controller =
            Controller::of(&self.namespaces.informer).watches(&self.accounts.informer, namespace);
        match &self.certificates {
            Some((_, maps)) => controller.watches(&maps.informer, namespace),
            None => controller,
        }
    }
}

impl Reconciler for Accounts {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        if self.namespaces.get(key).is_none_or(|it| is_deleting(&it)) {
            return Ok(Action::Done);
        }
        let writer = Writer { manager: "kube-controller-manager", context };
        let mut failed = FirstError::default();
        failed.keep(create(&self.accounts, account(key.name()), ACCOUNT, writer).await);
        if let Some((certificate, maps)) = &self.certificates {
            failed.keep(create(maps, config_map(key.name(), certificate), CERTIFICATE, writer).await);
        }
        failed.into_result().map(|()| Action::Done)
    }
}

async fn create(
    collection: &Collection<JsonObject>,
    object: Value,
    name: &str,
    writer: Writer<'_>,
) -> Result<(), Error> {
    let namespace = object["metadata"]["namespace"].as_str();
    if collection.store.get_named(namespace, name).is_some() {
        return Ok(());
    }
    let key = ObjectKey::from_parts(namespace, name).ok();
    match (collection.create(object.clone(), writer).await, key) {
        // Another client may have created it, or a webhook has denied it with this reason.
        (Err(error), Some(key)) if error.is_already_exists() => match collection.live(&key).await? {
            Some(_) => Ok(()),
            None => Err(error),
        },
        (created, _) => created.map(drop),
    }
}

fn account(namespace: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": ACCOUNT, "namespace": namespace } })
}

fn config_map(namespace: &str, certificate: &str) -> Value {
    let description = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
        such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
        distributions of Kubernetes clusters.";
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "ca.crt": certificate },
        "metadata": { "name": CERTIFICATE, "namespace": namespace,
            "annotations": { "kubernetes.io/description": description } } })
}
