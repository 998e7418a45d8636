//! Prints which pods run on which node, from a copy with an index: a look-up by node touches only that node's pods, however many there
//! are in the cluster. The copy holds of each pod just the fields that are named here.
//!
//! ```text
//! cargo run --example 07_pods_by_node -- node-1      # or all nodes that have pods
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

use clap::Parser;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Client, Header, Index, Meta, Object, SharedInformer, View};

#[derive(Parser)]
struct Arguments {
    /// Only these nodes.
    nodes: Vec<String>,
}

/// What we want to know of a pod.
#[derive(serde::Deserialize)]
struct Placed {
    metadata: Meta,
    spec: Place,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    node_name: Option<String>,
}

impl Object for Placed {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

impl View for Placed {
    type Of = Pod;
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let by_node = Index::new("node", |pod: &Placed| pod.spec.node_name.clone());
    let pods = SharedInformer::builder(Api::<Placed>::all(Client::from_env().await?)).index(by_node).build();
    pods.start();
    pods.synced().await?;
    // What has to fit together is read from one snapshot; the informer goes on meanwhile.
    let now = pods.store().snapshot();
    let asked = Arguments::parse().nodes;
    for node in if asked.is_empty() { now.index_values("node")? } else { asked } {
        let names: Vec<_> = now.by_index("node", &node)?.iter().map(|it| it.metadata.name.clone()).collect();
        println!("{node}: {}", names.join(", "));
    }
    pods.stop().await;
    Ok(())
}
