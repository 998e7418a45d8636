//! Writes a config map, and reads it back from the local copy: a copy is always a little behind, and `wait_until` waits exactly until it
//! shows what was written.
//!
//! ```text
//! cargo run --example 08_read_your_writes -- greeting hello
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

use std::time::Duration;

use clap::Parser;
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, Client, Object, PatchParams, SharedInformer};
use serde_json::json;

#[derive(Parser)]
struct Arguments {
    /// The name of the config map, in the namespace of the context.
    name: String,
    /// What to write into it.
    text: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { name, text } = Arguments::parse();
    let api = Api::<ConfigMap>::default_namespaced(Client::from_env().await?);
    let maps = SharedInformer::new(api.clone());
    maps.start();
    maps.synced().await?;

    let written = api
        .apply(&name, &PatchParams::apply("example").force(), &json!({ "data": { "text": text } }))
        .await?;
    let before = maps.lister().get(&written.key().expect("it is stored"));
    println!("right after the write the copy shows version {:?}", before.ok().map(|it| it.version()));

    // A server that went back in time would never get there, so there is a limit.
    tokio::time::timeout(Duration::from_secs(30), maps.wait_until(&written.version())).await??;
    let read = maps.store().get(&written.key().expect("it is stored")).expect("the copy is that far");
    println!("now it shows {:?} at version {}", read.data, read.version());
    maps.stop().await;
    Ok(())
}
