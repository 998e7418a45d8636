//! Followers in bad weather: `cargo xtask follow`.
//!
//! ```text
//!            ┌── kube-rs, by pages and by WatchList (bench/peers/kube-rs)
//! our server ├── client-go, where Go is installed (bench/peers/client-go)
//!  + faults  ├── our own client
//!            └── writers
//! ```
//!
//! All followers keep a copy of the same few thousand objects while the server refuses, delays, cuts and forgets, and while
//! writers change, delete and create. When the writers stop, every copy must be what the server has. Only what the followers
//! say is compared: the digest of names and versions that bench/README.md describes.
//!
//! The `mod` lines below are in layer order.

mod followed;
mod copy;
mod weather;
mod writers;
mod ours;
mod peers;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use hyper::body::Bytes;
use serde_json::Value;

use copy::{Copy, Outcome};
use followed::{NAMESPACE, PATIENCE};
use peers::Peer;
use testbed::link::Link;
use testbed::server::Ours;
use weather::Weather;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    ours: Ours,
    /// How many objects there are.
    #[arg(long, value_name = "COUNT", default_value_t = 5_000)]
    objects: usize,
    /// How long the objects change.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    seconds: u64,
}

/// Prints what became of each follower; fails if a copy is not what the server has.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let programs = peers::build()?;
    let server = options.ours.start(&["--admin"]).await?;
    writers::fill(&server.link, options.objects).await?;
    println!("{} objects; the weather turns bad", options.objects);
    let weather = Weather::begin(&server.link).await?;

    let mut peers = Vec::new();
    for program in &programs {
        peers.push(Peer::start(program, &server)?);
    }
    let (synced, when_synced) = tokio::sync::oneshot::channel();
    let ours = tokio::spawn(ours::follow(server.client()?, synced));
    for peer in &mut peers {
        peer.wait_until_synced().await?;
    }
    when_synced.await.context("our own client gave up")?;
    println!(
        "all {} followers have their first copy; the objects change for {} s",
        peers.len() + 1,
        options.seconds
    );

    let changing = Duration::from_secs(options.seconds);
    let changes = writers::change(&server.link, options.objects, changing);
    let changes = tokio::select! {
        changes = changes => changes?,
        broken = weather.change() => broken?,
    };
    weather.settle().await?;
    writers::end(&server.link).await?;

    let mut outcomes = Vec::new();
    for peer in peers {
        outcomes.push(peer.outcome().await?);
    }
    outcomes.push(tokio::time::timeout(PATIENCE, ours).await.context("our own client does not end")???);
    let tally = weather.end().await?;
    let truth = copy_of(&server.link).await?;
    println!("{changes} changes; what the weather did: {tally}");
    ensure!(print(&outcomes, &truth), "a follower went astray");
    Ok(())
}

/// What the server has.
async fn copy_of(link: &Link) -> Result<Copy> {
    let target = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let (_, list) = link.lane().await?.send(Method::GET, &target, Bytes::new()).await?;
    let list: Value = serde_json::from_slice(&list)?;
    let items = list["items"].as_array().context("the server gives no list")?;
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    Ok(items
        .iter()
        .map(|it| (text(&it["metadata"]["name"]), text(&it["metadata"]["resourceVersion"])))
        .collect())
}

/// Prints the followers. Whether each has what the server has, and was told of changes.
fn print(outcomes: &[Outcome], truth: &Copy) -> bool {
    println!("{:24} {:>8} {:>8} {:>6}  copy", "follower", "objects", "events", "lists");
    let mut good = true;
    for it in outcomes {
        let same = it.objects == truth.len() && it.digest == truth.digest();
        good &= same && it.events > 0;
        let verdict = if same { "is what the server has" } else { "IS NOT WHAT THE SERVER HAS" };
        println!("{:24} {:>8} {:>8} {:>6}  {verdict}", it.peer, it.objects, it.events, it.lists);
    }
    println!("{:24} {:>8}", "the server", truth.len());
    good
}
