//! Lists the pods of the cluster, then prints every change, resuming when connections break.
//!
//! ```text
//! cargo run --example 02_watch_pods -- --events 10      # or until Ctrl-C
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]
use clap::Parser;
use dogwatch::api::{Header, ListParams, Meta, WatchEvent, WatchParams};
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Client, Object, View};
use futures_util::{StreamExt, TryStreamExt};

#[derive(Parser)]
struct Arguments {
    /// Exit after this many changes.
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    events: usize,
}

/// The fields of a pod that we read. Everything else is skipped while decoding.
#[derive(serde::Deserialize)]
struct PodMeta {
    metadata: Meta,
}

impl Object for PodMeta {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

impl View for PodMeta {
    type Of = Pod;
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let pods = Api::<PodMeta>::all(Client::from_env().await?);
    tokio::select! {
        done = follow(&pods, Arguments::parse().events) => done,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn follow(pods: &Api<PodMeta>, count: usize) -> anyhow::Result<()> {
    let list = pods.list_all(&ListParams::default()).await?;
    println!("{} pods at version {}", list.items.len(), list.metadata.version);
    let mut watch = pods.watch_from(WatchParams::after(list.metadata.version))?.take(count);
    while let Some(event) = watch.try_next().await? {
        match &event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => {
                println!("{:8} {}/{}", event.kind().as_str(), pod.metadata.namespace, pod.metadata.name);
            }
            WatchEvent::Error(status) => anyhow::bail!("the watch cannot be resumed: {status}"),
            _ => {}
        }
    }
    Ok(())
}
