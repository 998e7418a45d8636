//! Writes a config map and reads it back from the local cache. The cache always lags a little;
//! `wait_until` returns as soon as it contains the write.
//!
//! ```text
//! cargo run --example 08_read_your_writes -- greeting hello
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

use std::time::Duration;

use clap::Parser;
use dogwatch::api::PatchParams;
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, Client, Object, ObjectKey, SharedInformer};
use serde_json::json;

#[derive(Parser)]
struct Arguments {
    /// The name of the config map, in the namespace of the context.
    name: String,
    /// The text to write into it.
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
    let key = ObjectKey::from_parts(api.namespace(), &name)?;
    let before = maps.store().get(&key);
    println!("right after the write, the cache has version {:?}", before.map(|it| it.version()));

    // A server restored from an older backup may never reach this version, so there is a timeout.
    tokio::time::timeout(Duration::from_secs(30), maps.wait_until(&written.version())).await??;
    match maps.store().get(&key) {
        Some(read) => println!("now it shows {:?} at version {}", read.data, read.version()),
        None => println!("another client has deleted it since"),
    }
    maps.stop().await;
    Ok(())
}
