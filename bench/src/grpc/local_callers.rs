//! The callers in this program: our channel, and tonic's channels with endpoints from our resolver.
//!
//! The benchmark starts them as `cargo xtask bench grpc call CONTENDER URL SERVICE POLICY`, and as
//! `… call-ablated PARTS WORKERS URL SERVICE POLICY` for our channel with parts of its connections
//! disabled.

use anyhow::{Context, Result, bail, ensure};
use dogwatch::{Client, Config};
use dogwatch_grpc::{EndpointSet, Feed, PeakEwma, Policy, Resolver, Target};
use tonic::client::Grpc;
use tonic::transport::Channel;

use super::caller;
use super::switches::Switches;

/// Runs the commands on standard input, until it is closed.
pub(super) async fn call(arguments: &[&str]) -> Result<()> {
    let [name, url, service, policy] = arguments else { bail!("expected CONTENDER URL SERVICE POLICY") };
    let resolver = Resolver::new(Client::new(Config::new(url.parse()?))?);
    let target: Target = format!("kubernetes:///{service}.default:grpc").parse()?;
    let (mut watch, policy) = (resolver.watch(&target), policy_of(policy)?);
    match *name {
        "kube" => {
            let channel = resolver.channel(&target).policy(policy).build()?;
            caller::serve(vec![Grpc::new(channel)]).await
        }
        // The other callers have only one policy.
        _ if policy != Policy::RoundRobin => bail!("{name} supports the policy `turns` only"),
        "balance" => {
            let (channel, changes) = Channel::balance_channel(1_024);
            tokio::spawn(Feed::new(watch).send_to(changes, Feed::plain));
            caller::serve(vec![Grpc::new(channel)]).await
        }
        "single" => caller::serve(connect(&*watch.known().await, 1).await?).await,
        "each" => caller::serve(connect(&*watch.known().await, usize::MAX).await?).await,
        other => bail!("unknown caller {other:?}"),
    }
}

/// Does the same as [`call`] with our channel and these parts of its connections.
pub(super) async fn call_ablated(switches: Switches, arguments: &[&str]) -> Result<()> {
    let [url, service, "turns"] = arguments else { bail!("expected URL SERVICE turns") };
    let Some(parts) = switches.parts() else { return call(&["each", url, service, "turns"]).await };
    let resolver = Resolver::new(Client::new(Config::new(url.parse()?))?);
    let target: Target = format!("kubernetes:///{service}.default:grpc").parse()?;
    // Keep-alive needs one of the parts.
    let channel = resolver.channel(&target).no_keep_alive().parts(parts).build()?;
    caller::serve(vec![Grpc::new(channel)]).await
}

/// Parses a policy: round robin, or by load and latency of the endpoints.
fn policy_of(name: &str) -> Result<Policy> {
    Ok(match name {
        "turns" => Policy::RoundRobin,
        "load" => PeakEwma::default().into(),
        other => bail!("unknown policy {other:?}"),
    })
}

/// Connects a channel to each of the first `most` endpoints.
async fn connect(set: &EndpointSet, most: usize) -> Result<Vec<Grpc<Channel>>> {
    let mut channels = Vec::new();
    for endpoint in set.usable().take(most) {
        let channel = Feed::plain(endpoint).connect().await;
        channels.push(Grpc::new(channel.with_context(|| format!("cannot connect to {}", endpoint.id))?));
    }
    ensure!(!channels.is_empty(), "there are no usable endpoints: {:?}", set.unavailable);
    Ok(channels)
}
