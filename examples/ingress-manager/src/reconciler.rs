//! Performs the decided writes, whenever a Service or an Ingress changes.

use dogwatch::api::{DeleteParams, Preconditions, WriteParams};
use dogwatch::controller::{Action, BoxError, Context, Controller, Manager, Predicate, Reconciler, Watched};
use dogwatch::informer::Lister;
use dogwatch::k8s_openapi::api::core::v1::Service;
use dogwatch::k8s_openapi::api::networking::v1::Ingress;
use dogwatch::{Api, Client, Object, ObjectKey};
use tracing::{info, warn};

use crate::decide::{Decision, decide};

/// The reconciler that gives Services their Ingresses.
#[derive(Debug)]
pub struct IngressManager {
    services: Lister<Service>,
    ingresses: Lister<Ingress>,
    client: Client,
}

/// Returns the controller, with informers from this manager. It reconciles Services, also when the
/// Ingress of one changes.
pub fn controller(manager: &Manager, client: Client) -> Controller {
    let (services, ingresses) = (manager.informer::<Service>(), manager.informer::<Ingress>());
    let reconciler = IngressManager { services: services.lister(), ingresses: ingresses.lister(), client };
    Controller::of(Watched::new(&services).when(Predicate::version_changed()))
        .named("ingress-manager")
        // Map by name and not by owner reference: a foreign Ingress of the same name blocks ours
        // until it is deleted.
        .watches(Watched::new(&ingresses).when(Predicate::version_changed()), Object::key)
        .workers(4)
        .build(reconciler)
}

impl Reconciler<ObjectKey> for IngressManager {
    type Error = BoxError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, BoxError> {
        let service = self.services.get(key);
        let ingress = self.ingresses.get(key);
        let api = Api::<Ingress>::namespaced(self.client.clone(), key.namespace().unwrap_or_default());
        match decide(service.as_deref(), ingress.as_deref()) {
            Decision::Nothing => {}
            Decision::Create(desired) => {
                context.wrote(&api.create(&WriteParams::default(), &desired).await?);
                info!(service = %key, "created the ingress");
            }
            Decision::Replace(desired) => {
                // If another client has changed it, this fails with a conflict and the queue
                // retries the key.
                context.wrote(&api.replace(key.name(), &WriteParams::default(), &desired).await?);
                info!(service = %key, "restored the ingress");
            }
            Decision::Delete(found) => {
                // A 404 is an error like any other: it may come from a webhook. If the ingress is
                // gone, the retry finds nothing to do.
                api.delete(key.name(), &delete_exactly(&found)).await?;
                info!(service = %key, "deleted the ingress");
            }
            Decision::Taken => {
                warn!(service = %key, "an ingress of that name has another owner; leaving it alone")
            }
        }
        Ok(Action::Done)
    }
}

/// Returns parameters that delete exactly this object at its current version.
fn delete_exactly(found: &Ingress) -> DeleteParams {
    let preconditions = Preconditions {
        uid: found.metadata.uid.clone(),
        resource_version: found.metadata.resource_version.clone(),
    };
    let mut params = DeleteParams::background();
    params.preconditions = Some(preconditions);
    params
}
