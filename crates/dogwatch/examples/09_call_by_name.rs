//! Calls the health service of a gRPC server by its service name in the cluster.
//!
//! ```text
//! cargo run --example 09_call_by_name -- kubernetes:///greeter.shop:grpc
//! ```

#![allow(clippy::print_stdout, reason = "a program that prints")]

use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let target = std::env::args().nth(1).unwrap_or_else(|| "kubernetes:///greeter:grpc".to_owned());

    let channel = dogwatch::grpc::channel(&target).await?;
    let mut client = HealthClient::new(channel);
    let response = client.check(HealthCheckRequest::default()).await;

    match response {
        Ok(response) => println!("{target} is {:?}", response.into_inner().status()),
        Err(status) => println!("{target} cannot be called: {}", status.message()),
    }
    Ok(())
}
