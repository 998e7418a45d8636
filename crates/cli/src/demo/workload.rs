//! What goes on in the demo: a service is deployed, scaled, rolled and robbed of a pod, again and again.

use std::time::Duration;

use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use dogwatch::k8s_openapi::api::networking::v1::Ingress;
use dogwatch::{Api, Client, DeleteParams, ListParams, Patch, PatchParams};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ingress_manager::ANNOTATION;
use serde_json::{Value, json};

use super::part::{Part, Stage, counted};

/// Where it all happens.
pub(super) const NAMESPACE: &str = "demo";
const MANAGER: &str = "dogwatch-demo";
/// How long a person may look at each step.
const PACE: Duration = Duration::from_millis(1500);

/// Writes to the cluster.
pub(super) struct Workload {
    client: Client,
    done: Done,
}

/// What it did so far.
#[derive(Debug, Default)]
struct Done {
    rolled: u32,
    scaled: u32,
    robbed: u32,
}

impl Workload {
    pub(super) fn new(stage: &Stage) -> Self {
        Self { client: stage.client.clone(), done: Done::default() }
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
            tokio::time::sleep(PACE).await;
            for replicas in [5, 2, 3] {
                let scale = json!({ "spec": { "replicas": replicas } });
                let params = PatchParams::default().manager(MANAGER);
                deployments.patch("web", &params, Patch::Merge(&scale)).await?;
                self.done.scaled += 1;
                tokio::time::sleep(PACE).await;
            }
            let running = pods.list(&ListParams::default()).await?;
            if let Some(name) = running.items.into_iter().find_map(|it| it.metadata.name) {
                pods.delete(&name, &DeleteParams::default()).await?;
                self.done.robbed += 1;
            }
            // Whoever manages ingresses is to make it again.
            match ingresses.delete("web", &DeleteParams::default()).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
            tokio::time::sleep(PACE).await;
        }
    }
}

impl Part for Workload {
    fn run(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        self.work().boxed()
    }

    fn summary(&self) -> Vec<(&'static str, String)> {
        let Done { rolled, scaled, robbed } = self.done;
        let told = [
            counted(rolled.into(), "roll-out"),
            counted(scaled.into(), "scaling"),
            format!("{} deleted", counted(robbed.into(), "pod")),
        ];
        vec![("workload", told.join(", "))]
    }
}

fn service() -> Value {
    json!({ "metadata": { "annotations": { ANNOTATION: "shop.example" } }, "spec": { "selector": { "app": "web" }, "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] } })
}

/// Every round rolls out another image. How many there are is not for it to say after the first time.
fn deployment(round: u32) -> Value {
    json!({ "spec": {
        "selector": { "matchLabels": { "app": "web" } },
        "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "web", "image": format!("example.com/web:{round}"), "ports": [{ "containerPort": 8080 }] }] },
        },
    } })
}
