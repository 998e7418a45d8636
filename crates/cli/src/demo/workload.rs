//! What goes on in the demo: a service is deployed, scaled, rolled and robbed of a pod, again and again.

use std::time::Duration;

use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use dogwatch::{Api, Client, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

/// Where it all happens.
pub(super) const NAMESPACE: &str = "demo";
const MANAGER: &str = "dogwatch-demo";
/// How long a person may look at each step.
const PACE: Duration = Duration::from_millis(1500);

/// Works until it is dropped; gives back only what went wrong.
pub(super) async fn run(client: Client) -> anyhow::Result<()> {
    let apply = PatchParams::apply(MANAGER).force();
    Api::<Namespace>::all(client.clone()).apply(NAMESPACE, &apply, &json!({})).await?;
    let services = Api::<Service>::namespaced(client.clone(), NAMESPACE);
    services.apply("web", &apply, &service()).await?;
    let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    let pods = Api::<Pod>::namespaced(client, NAMESPACE);
    for round in 1.. {
        deployments.apply("web", &apply, &deployment(round)).await?;
        tokio::time::sleep(PACE).await;
        for replicas in [5, 2, 3] {
            let scale = json!({ "spec": { "replicas": replicas } });
            let params = PatchParams::default().manager(MANAGER);
            deployments.patch("web", &params, Patch::Merge(&scale)).await?;
            tokio::time::sleep(PACE).await;
        }
        let running = pods.list(&ListParams::default()).await?;
        if let Some(name) = running.items.into_iter().find_map(|it| it.metadata.name) {
            pods.delete(&name, &DeleteParams::default()).await?;
        }
        tokio::time::sleep(PACE).await;
    }
    Ok(())
}

fn service() -> Value {
    json!({ "spec": { "selector": { "app": "web" }, "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] } })
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
