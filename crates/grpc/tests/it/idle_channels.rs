//! Channels without calls.

use std::collections::BTreeSet;

use dogwatch_grpc::{ConnectionState, KubeChannel};

use crate::echo::EchoClient;
use crate::pods::{Pod, Service, connected, endpoint, endpoints, until};
use crate::traffic::Traffic;

#[tokio::test]
async fn connections_are_opened_and_changes_applied_without_a_call() {
    let pods = Pod::start_many(8).await;
    let service = Service::of(&pods[..6]);
    let channel = KubeChannel::builder(service.receiver()).connecting(2).build().unwrap();
    connected(&channel, 6).await;
    assert!(pods[..6].iter().all(|it| it.connections() == 1));
    service.set(endpoints(&pods[4..]));
    until(&channel, |it| it.ready_endpoints() == 4 && it.endpoints().len() == 4).await;
    assert!(pods.iter().all(|it| it.connections() == 1));
    assert!(pods.iter().all(|it| it.seen.calls() == 0));
}

#[tokio::test]
async fn a_lazy_channel_connects_with_the_first_call() {
    let pods = Pod::start_many(2).await;
    let service = Service::of(&pods);
    let channel = KubeChannel::builder(service.receiver()).lazy().build().unwrap();
    until(&channel, |it| it.endpoints().len() == 2).await;
    assert!(channel.endpoints().iter().all(|it| it.state == ConnectionState::Idle));
    EchoClient::new(&channel).one("hello").await.unwrap();
    connected(&channel, 2).await;
}

#[tokio::test]
async fn only_the_endpoints_of_a_subset_are_connected() {
    let pods = Pod::start_many(6).await;
    let service = Service::of(&pods);
    let channel = KubeChannel::builder(service.receiver()).subset(2).build().unwrap();
    let client = EchoClient::new(&channel);
    connected(&channel, 2).await;
    for _ in 0..20 {
        client.one("hello").await.unwrap();
    }
    let mut shares: Vec<_> = pods.iter().map(|it| it.seen.calls()).collect();
    shares.sort_unstable();
    assert_eq!(shares, [0, 0, 0, 0, 10, 10]);
}

/// When a service grows, a subset changes by at most one member per new pod, and no call fails.
#[tokio::test]
async fn a_subset_is_stable_when_a_service_grows() {
    let pods = Pod::start_many(12).await;
    let service = Service::of(&pods[..8]);
    let channel = KubeChannel::builder(service.receiver()).subset(4).build().unwrap();
    connected(&channel, 4).await;
    let chosen = || -> BTreeSet<String> {
        let all = channel.endpoints().into_iter().filter(|it| it.state == ConnectionState::Ready);
        all.map(|it| it.endpoint.id.to_string()).collect()
    };
    let traffic = Traffic::new(EchoClient::new(&channel), "hello");
    let flow = traffic.flow(500);
    let mut before = chosen();
    for pod in &pods[8..] {
        let id = pod.address.to_string();
        service.add(endpoint(&id, pod.address));
        until(&channel, |it| it.endpoints().iter().any(|it| it.endpoint.id.as_str() == id)).await;
        until(&channel, |it| it.ready_endpoints() == 4 && chosen().len() == 4).await;
        let after = chosen();
        assert!(before.difference(&after).count() <= 1, "{before:?} {after:?}");
        assert!(after.difference(&before).all(|it| *it == id), "{before:?} {after:?}");
        before = after;
        traffic.more(20).await;
    }
    drop(flow);
    traffic.settled().await;
    assert!(traffic.failures().is_empty(), "{:?}", traffic.failures());
    let made: usize = pods.iter().map(|it| it.connections()).sum();
    assert!(made <= 8, "expected four, and at most one per new pod: {made}");
}

/// The reader of a stream need not keep the channel.
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
