//! Prints which pods run on which node, from a cache with an index: a lookup by node touches only that node's
//! pods, however many there are in the cluster. The cache holds only the fields of a pod that are named here.
//!
//! ```text
//! cargo run --example 07_pods_by_node -- node-1      # or all nodes that have pods
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

use clap::Parser;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Client, Index, Meta, SharedInformer, View};
use serde::Deserialize;

#[derive(Parser)]
struct Arguments {
    /// Only these nodes.
    nodes: Vec<String>,
}

/// The fields of a pod that this program reads. Everything else is skipped on the wire.
#[derive(View, Deserialize)]
#[view(of = Pod)]
struct Placed {
    metadata: Meta,
    spec: Place,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    node_name: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let by_node = Index::new("node", |pod: &Placed| pod.spec.node_name.clone());
    let pods = SharedInformer::builder(Api::<Placed>::all(Client::from_env().await?)).index(by_node).build();
    pods.start();
    pods.synced().await?;
    // One snapshot, so that all lines show the same moment while the informer goes on.
    let now = pods.store().snapshot();
    let asked = Arguments::parse().nodes;
    for node in if asked.is_empty() { now.index_values("node")? } else { asked } {
        let names: Vec<_> = now.by_index("node", &node)?.iter().map(|it| it.metadata.name.clone()).collect();
        println!("{node}: {}", names.join(", "));
    }
    pods.stop().await;
    Ok(())
}
