//! Callers that this program is itself: our channel, and tonic's own ones with endpoints that our resolver found.
//!
//! `cargo xtask bench grpc call WHO URL SERVICE POLICY` is what the benchmark starts, and `… call-parts PARTS WORKERS URL SERVICE POLICY`
//! for our channel with parts of its connections switched off.

use anyhow::{Context, Result, bail, ensure};
use dogwatch::{Client, Config};
use dogwatch_grpc::{EndpointSet, Feed, PeakEwma, Policy, Resolver, Target};
use tonic::client::Grpc;
use tonic::transport::Channel;

use super::caller;
use super::switches::Switches;

/// Calls as it is told on the standard input, until that ends.
pub(super) async fn call(arguments: &[&str]) -> Result<()> {
    let [who, url, service, policy] = arguments else { bail!("expected WHO URL SERVICE POLICY") };
    let resolver = Resolver::new(Client::new(Config::new(url.parse()?))?);
    let target: Target = format!("kubernetes:///{service}.default:grpc").parse()?;
    let (mut watch, policy) = (resolver.watch(&target), policy_of(policy)?);
    match *who {
        "kube" => {
            let channel = resolver.channel(&target).policy(policy).build()?;
            caller::serve(vec![Grpc::new(channel)]).await
        }
        // What follows has one policy only.
        _ if policy != Policy::RoundRobin => bail!("{who} has no such policy"),
        "balance" => {
            let (channel, changes) = Channel::balance_channel(1_024);
            tokio::spawn(Feed::new(watch).send_to(changes, Feed::plain));
            caller::serve(vec![Grpc::new(channel)]).await
        }
        "single" => caller::serve(connect(&*watch.known().await, 1).await?).await,
        "each" => caller::serve(connect(&*watch.known().await, usize::MAX).await?).await,
        other => bail!("nobody is called {other:?}"),
    }
}

/// As [`call`], through our channel with these parts.
pub(super) async fn call_parts(switches: Switches, arguments: &[&str]) -> Result<()> {
    let [url, service, "turns"] = arguments else { bail!("expected URL SERVICE turns") };
    let Some(parts) = switches.parts() else { return call(&["each", url, service, "turns"]).await };
    let resolver = Resolver::new(Client::new(Config::new(url.parse()?))?);
    let target: Target = format!("kubernetes:///{service}.default:grpc").parse()?;
    // Keep-alive depends on one of the parts.
    let channel = resolver.channel(&target).no_keep_alive().parts(parts).build()?;
    caller::serve(vec![Grpc::new(channel)]).await
}

/// In turn, or by how busy and quick endpoints are.
fn policy_of(name: &str) -> Result<Policy> {
    Ok(match name {
        "turns" => Policy::RoundRobin,
        "load" => PeakEwma::default().into(),
        other => bail!("{other:?} is no policy"),
    })
}

/// A channel to each of the first so many.
async fn connect(set: &EndpointSet, most: usize) -> Result<Vec<Grpc<Channel>>> {
    let mut channels = Vec::new();
    for endpoint in set.usable().take(most) {
        let channel = Feed::plain(endpoint).connect().await;
        channels.push(Grpc::new(channel.with_context(|| format!("cannot connect to {}", endpoint.id))?));
    }
    ensure!(!channels.is_empty(), "nobody can be called: {:?}", set.unavailable);
    Ok(channels)
}
