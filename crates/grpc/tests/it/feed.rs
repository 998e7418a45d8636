//! tonic's own channel, fed with the endpoints of a target.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use dogwatch_grpc::Feed;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::server::health_reporter;

use crate::cluster::{TestCluster, until};

/// Starts a server that has one service name, so that a response identifies the server. It ends
/// with its task.
async fn serve(knows: &'static str) -> (SocketAddr, JoinHandle<()>) {
    let (reporter, service) = health_reporter();
    reporter.set_service_status(knows, tonic_health::ServingStatus::Serving).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("the listener is bound");
    let serving =
        Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener));
    (address, tokio::spawn(async move { serving.await.expect("the server runs") }))
}

/// Calls until each of these servers has answered.
async fn answers(channel: &Channel, of: &[&'static str]) {
    let mut waited_for: BTreeSet<_> = of.iter().copied().collect();
    let mut client = HealthClient::new(channel.clone());
    while !waited_for.is_empty() {
        for name in of {
            let known = client.check(HealthCheckRequest { service: (*name).to_owned() }).await;
            if known.is_ok() {
                waited_for.remove(name);
            }
        }
    }
}

#[tokio::test]
async fn a_tonic_channel_follows_the_endpoints() {
    let cluster = TestCluster::start().await;
    let ((one, _one), (other, _other)) = (serve("one").await, serve("other").await);
    let port = |it: SocketAddr| format!("grpc={}", it.port());
    // Two slices with different ports, since both servers are on one address.
    cluster.slice("web", "web-1", &[&port(one)], &["127.0.0.1 a"]).await;
    cluster.slice("web", "web-2", &[&port(other)], &["127.0.0.1 b"]).await;
    let mut watch = cluster.watch("kubernetes:///web:grpc");
    let (channel, changes) = Channel::balance_channel(8);
    let feeding = tokio::spawn(Feed::new(watch.clone()).send_to(changes, Feed::plain));
    answers(&channel, &["one", "other"]).await;

    cluster.delete_slice("web-1").await;
    until(&mut watch, &format!("127.0.0.1:{}", other.port())).await;
    answers(&channel, &["other"]).await;

    drop(channel);
    feeding.await.expect("the task should end with the channel");
}
