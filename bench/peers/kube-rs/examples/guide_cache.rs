//! A cache of pods, with kube-rs.

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, ResourceExt};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let (store, writer) = reflector::store();
    let changes = watcher(Api::<Pod>::all(client), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .applied_objects();
    // The store is filled only while this stream is polled.
    tokio::spawn(changes.for_each(|change| async move {
        match change {
            Ok(pod) => println!("changed {}", pod.name_any()),
            Err(error) => eprintln!("the watch failed: {error}"),
        }
    }));
    store.wait_until_ready().await?;
    println!("{} pods", store.state().len());
    Ok(())
}
