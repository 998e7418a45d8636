//! Tests code that watches: each case gets its own fork of a cluster, and one watch expires.
//!
//! `cargo run --features testing --example 05_test_with_a_fork`, without a cluster.

#![allow(clippy::print_stdout, reason = "a program that prints")]

use std::collections::BTreeSet;

use dogwatch::Api;
use dogwatch::api::{ListParams, WatchEvent, WatchParams, WriteParams};
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::testing::{self, TestCluster};
use futures_util::TryStreamExt;

/// Keeps names by list and watch until `last` is seen. Returns the number of lists and the names.
async fn follow(api: Api<ConfigMap>, last: &str) -> anyhow::Result<(usize, BTreeSet<String>)> {
    for lists in 1.. {
        let list = api.list_all(&ListParams::default()).await?;
        let mut names: BTreeSet<_> = list.items.into_iter().filter_map(|it| it.metadata.name).collect();
        let mut watch = api.watch_from(WatchParams::after(list.metadata.version))?;
        while !names.contains(last) {
            match watch.try_next().await? {
                Some(WatchEvent::Added(it)) => names.extend(it.metadata.name),
                Some(WatchEvent::Error(status)) if status.is_expired() => break,
                other => anyhow::bail!("unexpected event: {other:?}"),
            }
        }
        if names.contains(last) {
            return Ok((lists, names));
        }
    }
    anyhow::bail!("the last object was never seen")
}

async fn case(cluster: TestCluster, expires: bool) -> anyhow::Result<()> {
    let (api, server) = (Api::<ConfigMap>::default_namespaced(cluster.client()), cluster.server());
    server.faults().pause();
    let following = tokio::spawn(follow(api.clone(), "last"));
    let _ = server.request_log().wait_for(|it| it.verb == "watch", 1).await;
    for name in ["first", "last"] {
        let object = serde_json::from_value(serde_json::json!({ "metadata": { "name": name } }))?;
        api.create(&WriteParams::default(), &object).await?;
    }
    if expires {
        server.compact_history();
    }
    server.faults().resume();
    println!("expires: {expires}, (lists, names): {:?}", following.await??);
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let base = testing::cluster().await?;
    case(base.fork().await?, false).await?;
    case(base.fork().await?, true).await
}
