//! Calls a service through tonic-lb-k8s and tonic's balanced channel, controlled by lines on
//! standard input; see ../../README.md.

#[path = "../../../src/grpc/caller/mod.rs"]
mod caller;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_lb_k8s::{DiscoveryConfig, discover};

/// Follows the example of tonic-lb-k8s's documentation. The API server comes from the kubeconfig:
/// the crate takes no URL.
#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [_url, service, policy] = arguments.as_slice() else { anyhow::bail!("usage: tonic-lb-k8s URL SERVICE POLICY") };
    ensure!(policy == "turns", "unknown policy {policy:?}: only \"turns\" is supported");
    let (channel, changes) = Channel::balance_channel::<SocketAddr>(1024);
    discover(DiscoveryConfig::new(service.as_str(), "grpc"), changes, |address| {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address with a port is a valid authority");
        endpoint.connect_timeout(Duration::from_secs(5))
    });
    caller::serve(vec![Grpc::new(channel)]).await
}
