//! Calls a service through tonic-lb-k8s and tonic's balanced channel, as it is told line by line; see ../../README.md.

#[path = "../../../src/grpc/caller/mod.rs"]
mod caller;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_lb_k8s::{DiscoveryConfig, discover};

/// As its documentation shows it. Where the API server is, only the kubeconfig can say.
#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [_url, service, policy] = arguments.as_slice() else { anyhow::bail!("expected URL SERVICE POLICY") };
    ensure!(policy == "turns", "there is no other policy");
    let (channel, changes) = Channel::balance_channel::<SocketAddr>(1024);
    discover(DiscoveryConfig::new(service.as_str(), "grpc"), changes, |address| {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address and a port are a URI");
        endpoint.connect_timeout(Duration::from_secs(5))
    });
    caller::serve(vec![Grpc::new(channel)]).await
}
