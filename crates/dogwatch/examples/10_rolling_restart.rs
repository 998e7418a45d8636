//! Replaces three gRPC servers one after another under load, and prints the calls of each.
//!
//! ```text
//! cargo run --example 10_rolling_restart      # needs no cluster
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

use dogwatch::api::{DeleteParams, PatchParams};
use dogwatch::grpc::Resolver;
use dogwatch::k8s_openapi::api::discovery::v1::EndpointSlice;
use dogwatch::{Api, Client};
use dogwatch_apiserver::ApiServer;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// Starts a server that runs until it is aborted, and adds it to the endpoints of the service
/// `echo`.
async fn start(slices: &Api<EndpointSlice>, name: &str) -> anyhow::Result<tokio::task::AbortHandle> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let slice = json!({
        "metadata": { "labels": { "kubernetes.io/service-name": "echo" } }, "addressType": "IPv4",
        "ports": [{ "name": "grpc", "port": port }],
        "endpoints": [{ "addresses": ["127.0.0.1"], "targetRef": { "kind": "Pod", "name": name, "uid": name } }],
    });
    let server = Server::builder().add_service(tonic_health::server::health_reporter().1);
    let serving = tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    slices.apply(name, &PatchParams::apply("example").force(), &slice).await?;
    Ok(serving.abort_handle())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = ApiServer::builder().in_process().start().await?;
    let client = Client::from_service(server.url().parse()?, "default", server.service());
    let slices = Api::<EndpointSlice>::default_namespaced(client.clone());
    let mut pods = Vec::new();
    for name in ["a-1", "b-1", "c-1"] {
        pods.push((name, start(&slices, name).await?));
    }
    let channel = Resolver::new(client).channel(&"kubernetes:///echo:grpc".parse()?).build()?;
    channel.connected(3).await;
    for ((old, serving), new) in pods.into_iter().zip(["a-2", "b-2", "c-2"]) {
        start(&slices, new).await?;
        slices.delete(old, &DeleteParams::default()).await?;
        serving.abort();
        for _ in 0..30 {
            HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await?;
        }
        let share = |it: &dogwatch::grpc::EndpointStatus| format!("{} took {}", it.endpoint.id, it.calls);
        println!("without {old}: {}", channel.endpoints().iter().map(share).collect::<Vec<_>>().join(", "));
    }
    println!("90 calls, none failed");
    Ok(())
}
