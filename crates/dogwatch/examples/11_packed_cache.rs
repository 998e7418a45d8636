//! Holds every pod of the cluster in the encoding of the server, in a fraction of the memory of
//! typed pods, and decodes only what is read.
//!
//! ```text
//! cargo run --example 11_packed_cache -- web-0      # default: no pod is printed
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

use dogwatch::api::Packed;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Client, Object, SharedInformer};
use serde::Deserialize;

/// The fields of a pod that are read: the others stay encoded.
#[derive(Deserialize)]
struct Placed {
    spec: Placement,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Placement {
    node_name: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let pods = SharedInformer::new(Api::<Packed<Pod>>::all(Client::from_env().await?));
    pods.start();
    pods.synced().await?;
    let store = pods.store();
    println!("{} pods in {} bytes", store.len(), store.memory().unwrap_or_default());
    let wanted: Vec<_> = std::env::args().skip(1).collect();
    for pod in store.snapshot().iter() {
        // Name, version and labels are read without decoding.
        let name = pod.header().name;
        if wanted.iter().any(|it| it == name) {
            let placed: Placed = pod.view()?;
            let containers = pod.get()?.spec.map_or(0, |spec| spec.containers.len());
            println!("{name}: {containers} containers on {:?}", placed.spec.node_name);
        }
    }
    pods.stop().await;
    Ok(())
}
