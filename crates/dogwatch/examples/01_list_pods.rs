//! Lists the pods of one namespace, or of all, in pages, and prints the node of each.
//!
//! ```text
//! cargo run --example 01_list_pods -- --namespace kube-system --selector app=web
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

use clap::Parser;
use dogwatch::api::{LabelSelector, ListEvent, ListParams};
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Client, Object};
use futures_util::TryStreamExt;

#[derive(Parser)]
struct Arguments {
    /// List only this namespace.
    #[arg(short, long)]
    namespace: Option<String>,
    /// List only pods with these labels.
    #[arg(short = 'l', long, default_value = "")]
    selector: LabelSelector,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let client = Client::from_env().await?;
    let pods = match &arguments.namespace {
        Some(namespace) => Api::<Pod>::namespaced(client, namespace),
        None => Api::all(client),
    };

    // Items are yielded while the response arrives: the whole list is never in memory.
    let mut list = pods.list_pages(&ListParams::default().labels(arguments.selector));
    let mut count = 0;
    while let Some(event) = list.try_next().await? {
        match event {
            ListEvent::Item(pod) => {
                count += 1;
                let header = pod.header();
                let name = format!("{}/{}", header.namespace.unwrap_or("-"), header.name);
                let node = pod.spec.as_ref().and_then(|it| it.node_name.as_deref()).unwrap_or("-");
                let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref()).unwrap_or("Unknown");
                println!("{name:60} {phase:10} {node}");
            }
            ListEvent::Bad(bad) => println!("{bad}"),
            ListEvent::Restarted => {
                count = 0;
                println!("the list expired on the server: starting again");
            }
            ListEvent::End { version, .. } => println!("{count} pods at version {version}"),
            _ => {}
        }
    }
    Ok(())
}
