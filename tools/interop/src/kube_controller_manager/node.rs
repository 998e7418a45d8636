//! Simulates the scheduler and the kubelet of one node: pods get a node, an address and readiness
//! immediately, and end immediately when they are deleted.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::objects::Objects;

/// The name of the node.
pub(super) const NODE: &str = "node-1";
/// The interval at which it reads its pods.
const POLL: Duration = Duration::from_millis(100);

/// Creates the node and serves its pods forever. Returns only if it cannot create the node.
pub(super) async fn run(objects: &Objects) -> Result<()> {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE } });
    objects.create("/api/v1/nodes", &node).await?;
    let mut addresses = 0;
    loop {
        for pod in objects.list("/api/v1/pods").await.unwrap_or_default() {
            // A failure is retried in the next round: controllers write to the same pods.
            let _ = serve(objects, &pod, &mut addresses).await;
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Takes the next step that a pod needs, if it needs one.
async fn serve(objects: &Objects, pod: &Value, addresses: &mut u32) -> Result<()> {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        objects.delete_now(&path).await?;
    } else if pod["spec"]["nodeName"].is_null() {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name, "namespace": namespace },
            "target": { "apiVersion": "v1", "kind": "Node", "name": NODE },
        });
        objects.create(&format!("{path}/binding"), &binding).await?;
    } else if pod["status"]["podIP"].is_null() {
        *addresses += 1;
        let address = format!("10.1.{}.{}", *addresses / 250, *addresses % 250 + 1);
        objects.merge(&format!("{path}/status"), &running(&address)).await?;
    }
    Ok(())
}

fn running(address: &str) -> Value {
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
        .map(|it| json!({ "type": it, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }));
    json!({ "status": {
        "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }], "hostIP": "10.0.0.1",
        "startTime": "2026-01-01T00:00:00Z", "conditions": conditions,
    }})
}
