//! Prints the resources a server serves, or what names such as `deploy` resolve to, with counts.
//!
//! ```text
//! cargo run --example 04_discover_resources -- deploy po
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

use clap::Parser;
use dogwatch::api::{ListParams, PartialObjectMeta};
use dogwatch::discovery::ServedResource;
use dogwatch::discovery::{CachedDiscovery, RestMapper};
use dogwatch::{Api, Client};

#[derive(Parser)]
struct Arguments {
    /// Resource names, short names or kinds. All resources if none is given.
    words: Vec<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words = Arguments::parse().words;
    let client = Client::from_env().await?;
    let mapper = RestMapper::new(CachedDiscovery::new(client.clone()));
    if words.is_empty() {
        let served = mapper.discovery().get().await?;
        served.preferred_resources().for_each(print);
        for failure in &served.failures {
            println!("{failure}: {}", failure.reason);
        }
        return Ok(());
    }
    for word in words {
        let found = mapper.resolve(&word).await?.resource;
        print(&found);
        if found.supports("list") {
            // Metadata is enough for counting, at a fraction of the bytes.
            let api = Api::<PartialObjectMeta>::dynamic_metadata(client.clone(), found.resource);
            let list = api.list_all(&ListParams::default()).await?;
            println!("  {} objects at version {}", list.items.len(), list.metadata.version);
        }
    }
    Ok(())
}

fn print(it: &ServedResource) {
    let scope = if it.is_namespaced() { "namespaced" } else { "cluster" };
    let names = it.short_names.join(",");
    println!(
        "{:50} {:12} {scope:11} {:30} {}",
        it.group_resource(),
        names,
        it.resource.gvk.kind,
        it.verbs.join(",")
    );
}
