//! What a channel does while nobody calls.

use std::sync::atomic::Ordering;

use dogwatch_grpc::{KubeChannel, State};

use crate::echo::EchoClient;
use crate::pods::{Pod, Service, endpoints, until};

#[tokio::test]
async fn connections_are_made_and_changes_applied_without_a_call() {
    let pods = Pod::start_many(8).await;
    let service = Service::of(&pods[..6]);
    let channel = KubeChannel::builder(service.receiver()).connecting(2).build().unwrap();
    channel.connected(6).await;
    assert!(pods[..6].iter().all(|it| it.seen.connections.load(Ordering::SeqCst) == 1));
    service.set(endpoints(&pods[4..]));
    until(&channel, |it| it.ready_endpoints() == 4 && it.endpoints().len() == 4).await;
    assert!(pods.iter().all(|it| it.seen.connections.load(Ordering::SeqCst) == 1));
    assert!(pods.iter().all(|it| it.seen.calls() == 0));
}

#[tokio::test]
async fn a_lazy_channel_connects_with_the_first_call() {
    let pods = Pod::start_many(2).await;
    let service = Service::of(&pods);
    let channel = KubeChannel::builder(service.receiver()).lazy().build().unwrap();
    until(&channel, |it| it.endpoints().len() == 2).await;
    assert!(channel.endpoints().iter().all(|it| it.state == State::Idle));
    EchoClient::new(&channel).one("hello").await.unwrap();
    channel.connected(2).await;
}

#[tokio::test]
async fn a_subset_is_all_that_is_connected() {
    let pods = Pod::start_many(6).await;
    let service = Service::of(&pods);
    let channel = KubeChannel::builder(service.receiver()).subset(2).build().unwrap();
    let client = EchoClient::new(&channel);
    channel.connected(2).await;
    for _ in 0..20 {
        client.one("hello").await.unwrap();
    }
    let mut shares: Vec<_> = pods.iter().map(|it| it.seen.calls()).collect();
    shares.sort_unstable();
    assert_eq!(shares, [0, 0, 0, 0, 10, 10]);
}

/// Whoever reads a stream need not keep the channel.
#[tokio::test]
async fn a_stream_outlives_the_channel_and_then_the_connection_closes() {
    let pods = Pod::start_many(1).await;
    let channel = Service::of(&pods).channel();
    let mut stream = EchoClient::new(&channel).many("wait", 3).await.unwrap();
    assert!(stream.message().await.unwrap().is_some());
    drop(channel);
    pods[0].seen.gate.add_permits(2);
    assert_eq!(stream.message().await.unwrap().unwrap().count, 1);
    assert_eq!(stream.message().await.unwrap().unwrap().count, 2);
    assert_eq!(stream.message().await.unwrap(), None);
    drop(stream);
    while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
        tokio::task::yield_now().await;
    }
}
