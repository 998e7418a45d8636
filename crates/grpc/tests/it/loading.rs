//! What is in flight is known to the last call, and busy pods are spared.

use dogwatch_grpc::{KubeChannel, LeastRequest, PeakEwma, Policy};

use crate::echo::EchoClient;
use crate::pods::{Pod, Service, until};

/// A pod that is stuck keeps the call it has, and gets no other while anybody else has none.
async fn spares_a_stuck_pod(policy: impl Into<Policy>) {
    let pods = Pod::start_many(4).await;
    let channel = KubeChannel::builder(Service::of(&pods).receiver()).policy(policy).build().unwrap();
    let client = EchoClient::new(&channel);
    channel.connected(4).await;
    let mut held = Vec::new();
    // The first pod to get a call that waits is the one that is stuck.
    held.push(tokio::spawn({
        let client = client.clone();
        async move { client.one("wait").await }
    }));
    until(&channel, |it| it.endpoints().iter().any(|it| it.in_flight == 1)).await;
    for _ in 0..200 {
        client.one("hello").await.unwrap();
    }
    let stuck = channel.endpoints().into_iter().find(|it| it.in_flight == 1).unwrap();
    // Choices are made by chance, and once in a million calls it is chosen against nobody but itself.
    assert!(stuck.calls <= 2, "{stuck:?}");
    for pod in &pods {
        pod.seen.gate.add_permits(1);
    }
    for call in held {
        call.await.unwrap().unwrap();
    }
    assert!(channel.endpoints().iter().all(|it| it.in_flight == 0));
}

#[tokio::test]
async fn least_request_spares_a_stuck_pod() {
    spares_a_stuck_pod(LeastRequest::of(10)).await;
}

#[tokio::test]
async fn two_choices_spare_a_stuck_pod() {
    spares_a_stuck_pod(LeastRequest::default()).await;
}

#[tokio::test]
async fn peak_ewma_takes_measured_latencies() {
    let pods = Pod::start_many(3).await;
    let channel =
        KubeChannel::builder(Service::of(&pods).receiver()).policy(PeakEwma::default()).build().unwrap();
    let client = EchoClient::new(&channel);
    channel.connected(3).await;
    for _ in 0..60 {
        client.one("hello").await.unwrap();
    }
    let measured = channel.endpoints().into_iter().filter(|it| it.latency.as_nanos() != 1_000_000).count();
    assert!(measured >= 2, "{:?}", channel.endpoints());
}

/// However a call ends, its place is free again: answered, cancelled before the answer, dropped within the stream.
#[tokio::test]
async fn nothing_in_flight_is_ever_lost() {
    let pods = Pod::start_many(2).await;
    let channel = Service::of(&pods).channel();
    let client = EchoClient::new(&channel);
    channel.connected(2).await;
    let in_flight = |it: &KubeChannel| it.endpoints().iter().map(|it| it.in_flight).sum::<u32>();
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.one("wait").await })
        })
        .collect();
    until(&channel, |it| in_flight(it) == 20).await;
    for call in &waiting {
        call.abort();
    }
    until(&channel, |it| in_flight(it) == 0).await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = client.many("wait", 2).await.unwrap();
        assert!(stream.message().await.unwrap().is_some());
        streams.push(stream);
    }
    assert_eq!(in_flight(&channel), 20, "a stream counts until its end");
    for pod in &pods {
        pod.seen.gate.add_permits(5);
    }
    // Some read to their end, some are dropped.
    for (number, mut stream) in streams.into_iter().enumerate() {
        if number < 10 {
            assert!(stream.message().await.unwrap().is_some());
            assert!(stream.message().await.unwrap().is_none());
        }
    }
    assert_eq!(in_flight(&channel), 0);
}
