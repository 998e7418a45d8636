//! Serves a live page of a controller and its informer, while config maps change and one fails.
//!
//! ```text
//! cargo run --features diagnostics,testing --example 12_live_page      # needs no cluster; until Ctrl-C
//! cargo run --features diagnostics,testing --example 12_live_page 60   # for a minute
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

use std::sync::Arc;
use std::time::Duration;

use dogwatch::api::PatchParams;
use dogwatch::diagnostics::Diagnostics;
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Action, Api, Client, Context, Manager, testing};
use serde_json::json;

async fn reconcile(map: Arc<ConfigMap>, _: Context) -> anyhow::Result<Action> {
    anyhow::ensure!(map.metadata.name.as_deref() != Some("map-7"), "seven is not supported");
    Ok(Action::RequeueAfter(Duration::from_secs(30)))
}

/// Changes ten config maps in turn.
async fn write(client: Client) -> anyhow::Result<()> {
    let maps = Api::<ConfigMap>::default_namespaced(client);
    for number in 0u32.. {
        let map = json!({ "data": { "number": number.to_string() } });
        maps.apply(&format!("map-{}", number % 10), &PatchParams::apply("example").force(), &map).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cluster = testing::cluster().await?;
    let client = cluster.client();
    let manager = Manager::new(client.clone());
    let controller = manager.controller_for::<ConfigMap>().reconcile(reconcile);
    let manager = manager.controller(controller);
    let page = Diagnostics::new();
    page.add_manager(&manager);
    tokio::spawn(write(client));
    page.add_action("Expire the history", move || {
        cluster.server().expire_history();
        std::future::ready(())
    });
    let served = page.serve("127.0.0.1:0").await?;
    println!("open {}", served.url());
    match std::env::args().nth(1) {
        Some(seconds) => manager.run_until(tokio::time::sleep(Duration::from_secs(seconds.parse()?))).await?,
        None => manager.run().await?,
    }
    Ok(())
}
