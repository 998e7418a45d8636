//! Keeps a Deployment for each __Kind__, and reports its state in the status and in Events.

use std::sync::Arc;

use dogwatch::api::{DeleteParams, PatchParams, Resource, WriteParams};
use dogwatch::controller::conditions::Conditions;
use dogwatch::controller::finalizer::Phase;
use dogwatch::controller::{EventRecorder, Finalizer, LeaderElector, NewEvent, Owner};
use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::kube_core::ResourceExt;
use dogwatch::{Action, Api, Client, Context, Manager};
use serde_json::{Value, json};

use crate::resource::__Kind__;

const NAME: &str = "__name__";

/// Returns a manager that runs the controller while it holds the Lease of the operator.
pub fn manager(client: Client) -> anyhow::Result<Manager> {
    let manager = Manager::new(client.clone());
    let elector = LeaderElector::builder(client.clone(), NAME).build()?;
    let operator = Operator {
        finalizer: Finalizer::new(Api::all(client.clone()), "__group__/__name__")?,
        events: manager.events(NAME)?,
        client,
    };
    let controller = manager.controller_for::<__Kind__>().owns::<Deployment>();
    let controller = controller.configure(|it| it.named(NAME).workers(4));
    let controller = controller.reconcile_with(operator, |object, context, operator| async move {
        operator.reconcile(object, &context).await
    });
    Ok(manager.controller(controller).leader_election(elector))
}

struct Operator {
    client: Client,
    finalizer: Finalizer<__Kind__>,
    events: EventRecorder,
}

impl Operator {
    async fn reconcile(&self, object: Arc<__Kind__>, context: &Context) -> anyhow::Result<Action> {
        match self.finalizer.phase(object, context).await? {
            Phase::Live(object) => self.update(&object, context).await?,
            Phase::CleanUp(object) => self.clean_up(&object, context).await?,
            _ => {}
        }
        Ok(Action::Done)
    }

    /// Applies the Deployment, and writes the status if it changed.
    async fn update(&self, object: &__Kind__, context: &Context) -> anyhow::Result<()> {
        let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
        let deployments = Api::<Deployment>::namespaced(self.client.clone(), &namespace);
        let params = PatchParams::apply(NAME).force();
        let applied = deployments.apply(&name, &params, &desired(object)).await;
        let deployment = applied.inspect_err(|error| {
            let event = NewEvent::warning("ApplyFailed", "Apply");
            self.events.record(object, event.message(error.to_string()));
        })?;
        // The next reconcile of this object waits until the cache shows the write.
        context.wrote(&deployment);

        let ready = deployment.status.and_then(|it| it.ready_replicas).unwrap_or_default();
        let mut status = object.status.clone().unwrap_or_default();
        status.ready_replicas = ready;
        let mut conditions = Conditions::new(&mut status.conditions, object.metadata.generation);
        let message = format!("{ready} of {} pods are ready", object.spec.replicas);
        let event = if ready == object.spec.replicas {
            conditions.set_true("Ready", "Available", message.as_str());
            NewEvent::normal("Available", "Reconcile")
        } else {
            conditions.set_false("Ready", "Progressing", message.as_str());
            NewEvent::normal("Progressing", "Reconcile")
        };
        if object.status.as_ref() != Some(&status) {
            let objects = Api::<__Kind__>::namespaced(self.client.clone(), &namespace);
            let next = __Kind__ { status: Some(status), ..object.clone() };
            context.wrote(&objects.replace_status(&name, &WriteParams::default(), &next).await?);
            self.events.record(object, event.message(message));
        }
        Ok(())
    }

    /// Deletes the Deployment with its pods, and only then lets the object go.
    async fn clean_up(&self, object: &__Kind__, context: &Context) -> anyhow::Result<()> {
        let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
        let deployments = Api::<Deployment>::namespaced(self.client.clone(), &namespace);
        let owner = Owner::of(object)?;
        if let Some(found) = deployments.get_opt(&name).await?.filter(|it| owner.controls(it)) {
            if found.metadata.deletion_timestamp.is_none() {
                deployments.delete(&name, &DeleteParams::foreground()).await?;
            }
            // Its end is a change of an owned object, which leads to the next reconcile.
            return Ok(());
        }
        self.finalizer.done(object, context).await?;
        let event = NewEvent::normal("CleanedUp", "Delete");
        self.events.record(object, event.message("no pod is left"));
        Ok(())
    }
}

/// Returns the fields of the Deployment that the operator sets.
fn desired(object: &__Kind__) -> Value {
    let labels = json!({ "__group__/__singular__": object.name_any() });
    json!({
        "metadata": { "ownerReferences": object.controller_owner_ref(&()).as_slice() },
        "spec": {
            "replicas": object.spec.replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "main", "image": object.spec.image }] },
            },
        },
    })
}
