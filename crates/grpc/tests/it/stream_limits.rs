//! Pods that allow few concurrent streams: further calls are queued on the connection, and are not
//! affected by its end.

use std::time::Duration;

use dogwatch_grpc::KubeChannel;
use tonic::{Code, Request};

use crate::echo::{EchoClient, message};
use crate::manual_clock::ManualClock;
use crate::pods::{Pod, Service, calls_begun, connected, endpoint, until};
use crate::traffic::Traffic;

async fn pod_with_stream_limit(streams: u32) -> Pod {
    Pod::with(|it| it.max_concurrent_streams(streams), |it| it).await
}

fn in_flight(channel: &KubeChannel) -> u32 {
    channel.endpoints().iter().map(|it| it.in_flight).sum()
}

/// Returns a channel to a pod that has started the first of six calls; the others are queued behind
/// it.
async fn six_queued_calls(service: &Service, pod: &Pod) -> (KubeChannel, Traffic<EchoClient>) {
    let channel = service.channel();
    connected(&channel, 1).await;
    let traffic = Traffic::new(EchoClient::new(&channel), "wait");
    traffic.issue(6);
    until(&channel, |it| in_flight(it) == 6).await;
    calls_begun(std::slice::from_ref(pod), 1).await;
    (channel, traffic)
}

/// The pod has one call when it dies, which may have been executed. Those behind it were never
/// sent.
#[tokio::test]
async fn queued_calls_on_a_connection_that_breaks_go_elsewhere() {
    let (mut pods, other) = ([pod_with_stream_limit(1).await], Pod::start().await);
    let service = Service::of(&pods);
    let (channel, traffic) = six_queued_calls(&service, &pods[0]).await;
    // One call ends, and the bytes of the next one are sent: the connection has been written to
    // since the others were queued.
    pods[0].seen.gate.add_permits(1);
    traffic.reaches(1).await;
    calls_begun(std::slice::from_ref(&pods[0]), 2).await;
    service.add(endpoint("other", other.address));
    connected(&channel, 2).await;
    other.seen.gate.add_permits(4);
    pods[0].kill().await;
    traffic.settled().await;
    let failures = traffic.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!((pods[0].seen.calls(), other.seen.calls()), (2, 4));
    until(&channel, |it| in_flight(it) == 0).await;
}

/// A terminating pod finishes its open call, and announces that it will not process those behind
/// it.
#[tokio::test]
async fn queued_calls_go_elsewhere_when_the_pod_sends_go_away() {
    let (mut pods, other) = ([pod_with_stream_limit(1).await], Pod::start().await);
    let service = Service::of(&pods);
    let (channel, traffic) = six_queued_calls(&service, &pods[0]).await;
    service.add(endpoint("other", other.address));
    connected(&channel, 2).await;
    other.seen.gate.add_permits(5);
    pods[0].terminate();
    traffic.reaches(5).await;
    pods[0].seen.gate.add_permits(1);
    traffic.settled().await;
    assert!(traffic.failures().is_empty(), "{:?}", traffic.failures());
    assert_eq!((pods[0].seen.calls(), other.seen.calls()), (1, 5));
}

/// No call is queued forever: neither on a peer that allows no streams, nor on one whose only
/// stream is used by the health watch.
#[tokio::test]
async fn a_pod_that_allows_no_calls_is_not_called() {
    let clock = ManualClock::begin();
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("shop", tonic_health::ServingStatus::Serving).await;
    let watched = Pod::with(|it| it.max_concurrent_streams(1), |it| it.add_service(health)).await;
    for (pod, watch) in [(pod_with_stream_limit(0).await, false), (watched, true)] {
        let (pods, other) = ([pod], Pod::start().await);
        let service = Service::of(&pods);
        let mut builder = KubeChannel::builder(service.receiver()).no_keep_alive().panic_threshold(0.0);
        if watch {
            builder = builder.health("shop");
        }
        let channel = builder.build().unwrap();
        until(&channel, |it| it.endpoints().first().is_some_and(|it| it.peer.is_some() && it.healthy)).await;
        let traffic = Traffic::new(EchoClient::new(&channel), "hello");
        traffic.issue(1);
        clock.until(|| traffic.pending() == 0).await;
        let failure = traffic.failures()[0].failure.clone().unwrap();
        assert!(failure.message().ends_with("unhealthy, ejected, or accept no calls"), "{failure:?}");
        service.add(endpoint("other", other.address));
        connected(&channel, 1).await;
        EchoClient::new(&channel).one("hello").await.unwrap();
    }
}

/// Round robin skips a pod on which calls would be queued while another one has room.
#[tokio::test]
async fn a_pod_at_its_stream_limit_is_skipped_while_another_has_room() {
    let pods =
        [pod_with_stream_limit(2).await, pod_with_stream_limit(2).await, pod_with_stream_limit(1_000).await];
    let channel = Service::of(&pods).channel();
    let client = EchoClient::new(&channel);
    connected(&channel, 3).await;
    let streams = Traffic::new(client.clone(), "wait");
    streams.issue(9);
    until(&channel, |it| in_flight(it) == 9).await;
    calls_begun(std::slice::from_ref(&pods[0]), 2).await;
    calls_begun(std::slice::from_ref(&pods[1]), 2).await;
    calls_begun(std::slice::from_ref(&pods[2]), 5).await;
    for _ in 0..30 {
        client.one("hello").await.unwrap();
    }
    assert_eq!(pods[2].seen.calls(), 35);
    pods.iter().for_each(|it| it.seen.gate.add_permits(9));
    streams.settled().await;
    assert!(streams.failures().is_empty());
    // When there is room again, every pod gets its share.
    for _ in 0..30 {
        client.one("hello").await.unwrap();
    }
    assert!(pods.iter().all(|it| it.seen.begun("hello") >= 10));
}

#[tokio::test]
async fn the_deadline_of_a_queued_call_holds_and_those_behind_it_move_up() {
    let pods = [pod_with_stream_limit(1).await];
    let channel = Service::of(&pods).channel();
    let client = EchoClient::new(&channel);
    connected(&channel, 1).await;
    let traffic = Traffic::new(client.clone(), "wait");
    traffic.issue(1);
    calls_begun(std::slice::from_ref(&pods[0]), 1).await;
    let mut request = Request::new(message("hello", 0));
    request.set_timeout(Duration::from_millis(10));
    assert_eq!(client.ask(request).await.unwrap_err().code(), Code::DeadlineExceeded);
    let behind = tokio::spawn(async move { client.one("behind").await });
    until(&channel, |it| in_flight(it) == 2).await;
    pods[0].seen.gate.add_permits(1);
    traffic.settled().await;
    behind.await.unwrap().unwrap();
    assert_eq!((pods[0].seen.begun("hello"), in_flight(&channel)), (0, 0));
}
