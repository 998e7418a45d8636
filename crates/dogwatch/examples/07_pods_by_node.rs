//! Prints the pods of each node from a cache with an index: a lookup reads only the pods of that
//! node, however large the cluster is. Only the fields declared here are kept in memory.
//!
//! ```text
//! cargo run --example 07_pods_by_node -- node-1      # default: all nodes that have pods
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

use clap::Parser;
use dogwatch::api::Meta;
use dogwatch::informer::Index;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Client, SharedInformer, View};
use serde::Deserialize;

#[derive(Parser)]
struct Arguments {
    /// Print only these nodes.
    nodes: Vec<String>,
}

/// The fields of a pod that are decoded and cached.
#[derive(View, Deserialize)]
#[view(of = Pod)]
struct PodView {
    metadata: Meta,
    spec: PodSpecView,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpecView {
    node_name: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let by_node = Index::new("node", |pod: &PodView| pod.spec.node_name.clone());
    let pods = SharedInformer::builder(Api::<PodView>::all(Client::from_env().await?)).index(by_node).build();
    pods.start();
    pods.synced().await?;
    // One snapshot gives consistent reads while the informer continues to apply changes.
    let now = pods.store().snapshot();
    let wanted = Arguments::parse().nodes;
    for node in if wanted.is_empty() { now.index_values("node")? } else { wanted } {
        let names: Vec<_> = now.by_index("node", &node)?.iter().map(|it| it.metadata.name.clone()).collect();
        println!("{node}: {}", names.join(", "));
    }
    pods.stop().await;
    Ok(())
}
