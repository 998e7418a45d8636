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

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dogwatch::config::Overrides;
use dogwatch::{Client, Config};
use hyper::Method;
use hyper::body::Bytes;
use serde_json::Value;

use cache::{Cache, Outcome};
pub(crate) use faults::{Disturbances, Faults};
use objects::TIMEOUT;
use peers::Peer;
use testbed::connector::Connector;
use testbed::server::OwnServer;
use writers::Writers;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    ours: OwnServer,
    #[command(flatten)]
    load: Load,
}

/// The objects and the time of a run.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Load {
    /// The number of objects.
    #[arg(long, value_name = "COUNT", default_value_t = 5_000)]
    objects: usize,
    /// The time during which the objects change.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    seconds: u64,
}

/// The servers of a run.
#[derive(Debug)]
pub(crate) struct Servers<'a> {
    /// The server that stores the objects.
    pub(crate) stored: &'a Connector,
    /// The server that the writers use: the same, or one in front of it.
    pub(crate) written: &'a Connector,
    /// The kubeconfig of the server that is followed.
    pub(crate) followed: &'a Path,
    /// The directory for logs of the followers.
    pub(crate) logs: &'a Path,
}

/// Runs the followers on our own server, and fails if a cache differs from the server's state.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let server = options.ours.start(&["--admin"]).await?;
    let connector = &server.connector;
    let servers = Servers {
        stored: connector,
        written: connector,
        followed: &server.kubeconfig,
        logs: server.folder(),
    };
    follow(&options.load, &servers, Faults::begin(connector)).await
}

/// Prints the result of each follower, and fails if a cache differs from the server's state.
/// `disturb` is polled when the objects are there.
pub(crate) async fn follow<D: Disturbances>(
    load: &Load,
    servers: &Servers<'_>,
    disturb: impl Future<Output = Result<D>>,
) -> Result<()> {
    let programs = peers::build()?;
    // A server that is not our own may have the objects of an earlier run.
    let namespace = &format!("followed-{}", std::process::id());
    let direct = Writers::new(servers.stored, namespace);
    direct.fill(load.objects).await?;
    println!("{} objects created; disturbing the followers", load.objects);
    let mut disturbances = disturb.await?;

    let mut peers = Vec::new();
    for program in &programs {
        peers.push(Peer::start(program, servers.followed, namespace, servers.logs)?);
    }
    let client = Client::new(Config::from_kubeconfig(servers.followed, &Overrides::default())?)?;
    let (synced, when_synced) = tokio::sync::oneshot::channel();
    let ours = tokio::spawn(ours::follow(client, namespace.clone(), synced));
    for peer in &mut peers {
        peer.wait_until_synced().await?;
    }
    when_synced.await.context("our own client failed")?;
    println!("all {} followers have synced; changing the objects for {} s", peers.len() + 1, load.seconds);

    let writers = Writers::new(servers.written, namespace);
    let changes = tokio::select! {
        changes = writers.change(load.objects, Duration::from_secs(load.seconds)) => changes?,
        broken = disturbances.repeat() => match broken? {},
    };
    disturbances.resume().await?;
    writers.end().await?;

    let mut outcomes = Vec::new();
    for peer in peers {
        outcomes.push(peer.outcome().await?);
    }
    outcomes.push(
        tokio::time::timeout(TIMEOUT, ours)
            .await
            .context("our own client did not see the last change in time")???,
    );
    println!("{changes} changes; {}", disturbances.end().await?);
    let truth = server_state(servers.stored, namespace).await?;
    direct.clear().await?;
    ensure!(print(&outcomes, &truth), "the cache of a follower differs from the server's state");
    Ok(())
}

/// Returns the server's state.
async fn server_state(connector: &Connector, namespace: &str) -> Result<Cache> {
    let target = format!("/api/v1/namespaces/{namespace}/configmaps");
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
