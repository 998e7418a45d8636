//! The workload of the demo: a service is deployed, scaled, rolled out and loses a pod, repeatedly.

use std::time::Duration;

use dogwatch::api::{DeleteParams, ListParams, Patch, PatchParams};
use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use dogwatch::k8s_openapi::api::networking::v1::Ingress;
use dogwatch::{Api, Client};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ingress_manager::ANNOTATION;
use serde_json::{Value, json};

use super::task::{DemoContext, DemoTask, counted};

/// The namespace of the workload.
pub(super) const NAMESPACE: &str = "demo";
const MANAGER: &str = "dogwatch-demo";
/// The pause between two steps, so that a person can follow.
const STEP_PAUSE: Duration = Duration::from_millis(1500);

/// Writes to the cluster.
pub(super) struct Workload {
    client: Client,
    done: Done,
}

/// The number of actions so far.
#[derive(Debug, Default)]
struct Done {
    rolled: u32,
    scaled: u32,
    deleted: u32,
}

impl Workload {
    pub(super) fn new(context: &DemoContext) -> Self {
        Self { client: context.client.clone(), done: Done::default() }
    }

    async fn work(&mut self) -> anyhow::Result<()> {
        let apply = PatchParams::apply(MANAGER).force();
        Api::<Namespace>::all(self.client.clone()).apply(NAMESPACE, &apply, &json!({})).await?;
        let services = Api::<Service>::namespaced(self.client.clone(), NAMESPACE);
        services.apply("web", &apply, &service()).await?;
        let deployments = Api::<Deployment>::namespaced(self.client.clone(), NAMESPACE);
        let ingresses = Api::<Ingress>::namespaced(self.client.clone(), NAMESPACE);
        let pods = Api::<Pod>::namespaced(self.client.clone(), NAMESPACE);
        loop {
            self.done.rolled += 1;
            deployments.apply("web", &apply, &deployment(self.done.rolled)).await?;
            tokio::time::sleep(STEP_PAUSE).await;
            for replicas in [5, 2, 3] {
                let scale = json!({ "spec": { "replicas": replicas } });
                let params = PatchParams::default().manager(MANAGER);
                deployments.patch("web", &params, Patch::Merge(&scale)).await?;
                self.done.scaled += 1;
                tokio::time::sleep(STEP_PAUSE).await;
            }
            let running = pods.list(&ListParams::default()).await?;
            if let Some(name) = running.items.into_iter().find_map(|it| it.metadata.name) {
                pods.delete(&name, &DeleteParams::default()).await?;
                self.done.deleted += 1;
            }
            // The ingress manager has to create it again.
            match ingresses.delete("web", &DeleteParams::default()).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
            tokio::time::sleep(STEP_PAUSE).await;
        }
    }
}

impl DemoTask for Workload {
    fn run(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        self.work().boxed()
    }

    fn summary(&self) -> Vec<(&'static str, String)> {
        let Done { rolled, scaled, deleted } = self.done;
        let text = [
            counted(rolled.into(), "rollout"),
            counted(scaled.into(), "scale change"),
            format!("{} deleted", counted(deleted.into(), "pod")),
        ];
        vec![("workload", text.join(", "))]
    }
}

fn service() -> Value {
    json!({ "metadata": { "annotations": { ANNOTATION: "shop.example" } }, "spec": { "selector": { "app": "web" }, "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] } })
}

/// Returns a deployment with a new image for each round. It does not set the replicas, which are
/// scaled separately.
fn deployment(round: u32) -> Value {
    json!({ "spec": {
        "selector": { "matchLabels": { "app": "web" } },
        "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "web", "image": format!("example.com/web:{round}"), "ports": [{ "containerPort": 8080 }] }] },
        },
    } })
}
