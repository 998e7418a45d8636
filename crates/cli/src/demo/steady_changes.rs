//! After the story: one Service after another gets another host, so that the live page shows
//! changes on their way from the server through caches and queues to the reconciler.

use std::convert::Infallible;
use std::time::Duration;

use dogwatch::api::{ListParams, Patch, PatchParams};
use dogwatch::k8s_openapi::api::core::v1::Service;
use dogwatch::{Api, Error};
use ingress_manager::{ANNOTATION, host_of};
use serde_json::json;

use super::connect::{FIELD_MANAGER, NAMESPACE};
use super::scene::Scene;
use super::workload;

/// The pause between two changes.
const PAUSE: Duration = Duration::from_millis(500);

/// Changes the Services of the demo in turn until it is dropped. What a user has deleted stays
/// deleted.
pub(super) async fn run(scene: &Scene) -> Infallible {
    let services = Api::<Service>::namespaced(scene.client.clone(), NAMESPACE);
    let mut round = 0u64;
    loop {
        round = round.wrapping_add(1);
        let names: Vec<String> = match services.list_all(&ListParams::default()).await {
            Ok(list) => list.items.iter().map(|it| workload::name_of(it).to_owned()).collect(),
            Err(_) => Vec::new(),
        };
        // Also if there is no Service.
        tokio::time::sleep(PAUSE).await;
        for name in names {
            // A request that fails, because of a user's change for example, is followed by others.
            if let Ok(true) = change(&services, &name, round).await {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Gives a Service another host. Returns false if it asks for none, or not any more.
async fn change(services: &Api<Service>, name: &str, round: u64) -> Result<bool, Error> {
    let service = services.get(name).await?;
    if host_of(&service).is_none() {
        return Ok(false);
    }
    let params = PatchParams::default().manager(FIELD_MANAGER);
    let host = json!({ "metadata": { "annotations": { ANNOTATION: format!("{name}-{round}.example") } } });
    services.patch(name, &params, Patch::Merge(&host)).await?;
    Ok(true)
}
