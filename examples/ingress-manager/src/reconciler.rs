//! Does what was decided, and is told when to decide again.

use dogwatch::controller::{
    Action, Context, Controller, Manager, Predicate, ReconcileError, Reconciler, Watched,
};
use dogwatch::k8s_openapi::api::core::v1::Service;
use dogwatch::k8s_openapi::api::networking::v1::Ingress;
use dogwatch::{Api, Client, DeleteParams, Lister, Object, ObjectKey, Preconditions, WriteParams};
use tracing::{info, warn};

use crate::decide::{Step, decide};

/// Gives Services their Ingresses.
#[derive(Debug)]
pub struct IngressManager {
    services: Lister<Service>,
    ingresses: Lister<Ingress>,
    client: Client,
}

/// The controller, with its informers from this manager: it reconciles Services, and looks again when an Ingress of one changes.
pub fn controller(manager: &Manager, client: Client) -> Controller {
    let (services, ingresses) = (manager.informer::<Service>(), manager.informer::<Ingress>());
    let reconciler = IngressManager { services: services.lister(), ingresses: ingresses.lister(), client };
    Controller::for_(Watched::new(&services).when(Predicate::version_changed()))
        .named("ingress-manager")
        // By name and not by owner: one that stands in the way matters too, when it goes.
        .watches(Watched::new(&ingresses).when(Predicate::version_changed()), Object::key)
        .workers(4)
        .build(reconciler)
}

impl Reconciler<ObjectKey> for IngressManager {
    type Error = ReconcileError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, ReconcileError> {
        let service = self.services.get(key).ok();
        let ingress = self.ingresses.get(key).ok();
        let api = Api::<Ingress>::namespaced(self.client.clone(), key.namespace().unwrap_or_default());
        match decide(service.as_deref(), ingress.as_deref()) {
            Step::Nothing => {}
            Step::Create(wanted) => {
                context.wrote(&api.create(&WriteParams::default(), &wanted).await?);
                info!(service = %key, "made its ingress");
            }
            Step::Replace(wanted) => {
                // Somebody else may have changed it: then this fails, and the queue brings the key back.
                context.wrote(&api.replace(key.name(), &WriteParams::default(), &wanted).await?);
                info!(service = %key, "put its ingress right");
            }
            Step::Delete(found) => match api.delete(key.name(), &only(&found)).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => info!(service = %key, "removed its ingress"),
            },
            Step::Taken => {
                warn!(service = %key, "an ingress of that name belongs to somebody else; it stays as it is")
            }
        }
        Ok(Action::Done)
    }
}

/// Deletes this very object, as it is now.
fn only(found: &Ingress) -> DeleteParams {
    let preconditions = Preconditions {
        uid: found.metadata.uid.clone(),
        resource_version: found.metadata.resource_version.clone(),
    };
    let mut params = DeleteParams::background();
    params.preconditions = Some(preconditions);
    params
}
