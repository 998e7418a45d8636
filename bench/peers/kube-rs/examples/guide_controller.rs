//! A controller of config maps and the secrets that they own, with kube-rs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

struct State {
    client: Client,
}

async fn reconcile(map: Arc<ConfigMap>, state: Arc<State>) -> Result<Action, kube::Error> {
    let namespace = map.namespace().unwrap_or_default();
    let secrets = Api::<Secret>::namespaced(state.client.clone(), &namespace);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "ownerReferences": [map.controller_owner_ref(&())] },
        "stringData": map.data,
    });
    let params = PatchParams::apply("guide").force();
    secrets.patch(&map.name_any(), &params, &Patch::Apply(&secret)).await?;
    Ok(Action::await_change())
}

/// Decides when a failed object is reconciled again.
fn error_policy(_map: Arc<ConfigMap>, error: &kube::Error, _state: Arc<State>) -> Action {
    eprintln!("{error}");
    Action::requeue(Duration::from_secs(5))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let maps = Api::<ConfigMap>::all(client.clone());
    let secrets = Api::<Secret>::all(client.clone());
    Controller::new(maps, watcher::Config::default())
        .owns(secrets, watcher::Config::default())
        .with_config(Config::default().concurrency(4))
        .shutdown_on_signal()
        .run(reconcile, error_policy, Arc::new(State { client }))
        .for_each(|_| async {})
        .await;
    Ok(())
}
