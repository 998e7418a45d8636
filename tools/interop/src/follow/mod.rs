//! Followers under fault injection: `cargo xtask follow`.
//!
//! ```text
//!            ┌── kube-rs, paginated and with WatchList (bench/peers/kube-rs)
//! our server ├── client-go, where Go is installed (bench/peers/client-go)
//!  + faults  ├── our own client
//!            └── writers
//! ```
//!
//! All followers cache the same few thousand objects while the server rejects, delays and cuts
//! requests and compacts its history, and while writers change, delete and create objects. When the
//! writers stop, every cache has to equal the server's state. Only the followers' reports are
//! compared: the digest of names and versions that bench/README.md describes.
//!
//! The `mod` lines below are in layer order.

mod objects;
mod cache;
mod faults;
mod writers;
mod ours;
mod peers;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use hyper::body::Bytes;
use serde_json::Value;

use cache::{Cache, Outcome};
use faults::Faults;
use objects::{NAMESPACE, TIMEOUT};
use peers::Peer;
use testbed::connector::Connector;
use testbed::server::OwnServer;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    ours: OwnServer,
    /// The number of objects.
    #[arg(long, value_name = "COUNT", default_value_t = 5_000)]
    objects: usize,
    /// The time during which the objects change.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    seconds: u64,
}

/// Prints the result of each follower, and fails if a cache differs from the server's state.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let programs = peers::build()?;
    let server = options.ours.start(&["--admin"]).await?;
    writers::fill(&server.connector, options.objects).await?;
    println!("{} objects created; injecting faults", options.objects);
    let faults = Faults::begin(&server.connector).await?;

    let mut peers = Vec::new();
    for program in &programs {
        peers.push(Peer::start(program, &server)?);
    }
    let (synced, when_synced) = tokio::sync::oneshot::channel();
    let ours = tokio::spawn(ours::follow(server.client()?, synced));
    for peer in &mut peers {
        peer.wait_until_synced().await?;
    }
    when_synced.await.context("our own client failed")?;
    println!("all {} followers have synced; changing the objects for {} s", peers.len() + 1, options.seconds);

    let changing = Duration::from_secs(options.seconds);
    let changes = writers::change(&server.connector, options.objects, changing);
    let changes = tokio::select! {
        changes = changes => changes?,
        broken = faults.repeat_actions() => broken?,
    };
    faults.resume().await?;
    writers::end(&server.connector).await?;

    let mut outcomes = Vec::new();
    for peer in peers {
        outcomes.push(peer.outcome().await?);
    }
    outcomes.push(
        tokio::time::timeout(TIMEOUT, ours)
            .await
            .context("our own client did not see the last change in time")???,
    );
    let tally = faults.clear().await?;
    let truth = server_state(&server.connector).await?;
    println!("{changes} changes; injected faults: {tally}");
    ensure!(print(&outcomes, &truth), "the cache of a follower differs from the server's state");
    Ok(())
}

/// Returns the server's state.
async fn server_state(connector: &Connector) -> Result<Cache> {
    let target = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let (_, list) = connector.http1().await?.send(Method::GET, &target, Bytes::new()).await?;
    let list: Value = serde_json::from_slice(&list)?;
    let items = list["items"].as_array().context("the server returned no list")?;
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    Ok(items
        .iter()
        .map(|it| (text(&it["metadata"]["name"]), text(&it["metadata"]["resourceVersion"])))
        .collect())
}

/// Prints the followers. Returns true if the cache of each equals the server's state, and each
/// received changes.
fn print(outcomes: &[Outcome], truth: &Cache) -> bool {
    println!("{:24} {:>8} {:>8} {:>6}  cache", "follower", "objects", "events", "lists");
    let mut good = true;
    for it in outcomes {
        let same = it.objects == truth.len() && it.digest == truth.digest();
        good &= same && it.events > 0;
        let verdict = if same { "equals the server" } else { "DIFFERS FROM THE SERVER" };
        println!("{:24} {:>8} {:>8} {:>6}  {verdict}", it.peer, it.objects, it.events, it.lists);
    }
    println!("{:24} {:>8}", "the server", truth.len());
    good
}
