//! Pods that take few calls at a time: the rest wait in line on the connection, and are no worse off for it.

use std::time::Duration;

use dogwatch_grpc::KubeChannel;
use tonic::{Code, Request};

use crate::echo::{EchoClient, message};
use crate::pods::{Pod, Service, calls_begun, connected, endpoint, until};
use crate::still::StillTime;
use crate::traffic::Traffic;

async fn narrow(streams: u32) -> Pod {
    Pod::with(|it| it.max_concurrent_streams(streams), |it| it).await
}

fn in_flight(channel: &KubeChannel) -> u32 {
    channel.endpoints().iter().map(|it| it.in_flight).sum()
}

/// A channel to a pod that has taken the first of six calls; the others wait behind it.
async fn six_in_line(service: &Service, pod: &Pod) -> (KubeChannel, Traffic<EchoClient>) {
    let channel = service.channel();
    connected(&channel, 1).await;
    let traffic = Traffic::new(EchoClient::new(&channel), "wait");
    traffic.issue(6);
    until(&channel, |it| in_flight(it) == 6).await;
    calls_begun(std::slice::from_ref(pod), 1).await;
    (channel, traffic)
}

/// One call is with the pod when it dies, and may have been carried out. Those behind it were never sent.
#[tokio::test]
async fn calls_in_line_on_a_connection_that_dies_go_elsewhere() {
    let (mut pods, other) = ([narrow(1).await], Pod::start().await);
    let service = Service::of(&pods);
    let (channel, traffic) = six_in_line(&service, &pods[0]).await;
    // One leaves, and the next one's bytes leave: the connection has been written to since the others came.
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

/// A pod that ends lets the call that it has finish, and says that it will not take those behind it.
#[tokio::test]
async fn calls_in_line_at_a_pod_that_says_goodbye_go_elsewhere() {
    let (mut pods, other) = ([narrow(1).await], Pod::start().await);
    let service = Service::of(&pods);
    let (channel, traffic) = six_in_line(&service, &pods[0]).await;
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

/// Nobody waits in a line that never moves: a peer that allows no streams, or one whose only place is taken by the watch of its health.
#[tokio::test]
async fn a_pod_that_takes_no_calls_at_all_is_not_called() {
    let clock = StillTime::begin();
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("shop", tonic_health::ServingStatus::Serving).await;
    let watched = Pod::with(|it| it.max_concurrent_streams(1), |it| it.add_service(health)).await;
    for (pod, watch) in [(narrow(0).await, false), (watched, true)] {
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
        assert!(failure.message().ends_with("unwell, left out, or take no calls"), "{failure:?}");
        service.add(endpoint("other", other.address));
        connected(&channel, 1).await;
        EchoClient::new(&channel).one("hello").await.unwrap();
    }
}

/// Calls take turns, but not at a door where everybody waits while there is another.
#[tokio::test]
async fn a_pod_that_takes_no_more_is_passed_over_while_another_has_room() {
    let pods = [narrow(2).await, narrow(2).await, narrow(1_000).await];
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
    // And when there is room again, everybody has a share.
    for _ in 0..30 {
        client.one("hello").await.unwrap();
    }
    assert!(pods.iter().all(|it| it.seen.begun("hello") >= 10));
}

#[tokio::test]
async fn the_deadline_of_a_call_in_line_holds_and_those_behind_it_move_up() {
    let pods = [narrow(1).await];
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
