//! The shares of endpoints: by weight, age, zone and key, and the fallback to all when too few are
//! available.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dogwatch_grpc::{
    FailurePercentage, KubeChannel, OutlierDetection, Policy, Retry, RingHash, SlowStart, ZoneAware,
};
use http::{HeaderName, Response};
use tonic::Code;
use tonic_health::ServingStatus;

use crate::echo::EchoClient;
use crate::manual_clock::{ManualClock, STEP};
use crate::pods::{Pod, Service, endpoint, refused, until};
use crate::traffic::Traffic;

async fn shares(channel: &KubeChannel, pods: &[Pod], calls: usize) -> Vec<usize> {
    let before: Vec<_> = pods.iter().map(|it| it.seen.calls()).collect();
    let client = EchoClient::new(channel);
    for _ in 0..calls {
        client.one("hello").await.unwrap();
    }
    pods.iter().zip(before).map(|(pod, before)| pod.seen.calls() - before).collect()
}

#[tokio::test]
async fn shares_follow_the_weights_and_their_changes() {
    let pods = Pod::start_many(3).await;
    let service = Service::of(&pods);
    let heavy = pods[0].address.to_string();
    service.modify(&heavy, |it| it.weight = 3);
    let channel = KubeChannel::builder(service.receiver()).policy(Policy::Weighted).build().unwrap();
    channel.connected(3).await;
    let weighted = shares(&channel, &pods, 100).await;
    assert!(weighted[0].abs_diff(60) <= 3 && weighted[1].abs_diff(20) <= 3, "{weighted:?}");
    let mut changed = channel.subscribe();
    changed.mark_unchanged();
    service.modify(&heavy, |it| it.weight = 1);
    changed.changed().await.unwrap();
    let equal = shares(&channel, &pods, 99).await;
    assert!(equal.iter().all(|it| it.abs_diff(33) <= 2), "{equal:?}");
}

#[tokio::test]
async fn a_new_pod_ramps_up_its_share_unless_it_is_alone() {
    let clock = ManualClock::begin();
    let pods = Pod::start_many(3).await;
    let service = Service::of(&pods[..1]);
    let builder = KubeChannel::builder(service.receiver()).no_keep_alive();
    let channel = builder.slow_start(SlowStart::default()).build().unwrap();
    channel.connected(1).await;
    assert_eq!(shares(&channel, &pods, 20).await, [20, 0, 0], "a single pod should get all calls");
    clock.advance(40 * STEP).await;
    service.add(endpoint(&pods[1].address.to_string(), pods[1].address));
    service.add(endpoint(&pods[2].address.to_string(), pods[2].address));
    channel.connected(3).await;
    let young = shares(&channel, &pods, 300).await;
    // A tenth of a third each, and the declined calls are picked again among all three.
    assert!(young[1] + young[2] < 70 && young[0] > 230, "{young:?}");
    clock.advance(40 * STEP).await;
    assert_eq!(shares(&channel, &pods, 300).await, [100; 3]);
}

#[tokio::test]
async fn calls_leave_a_zone_with_failures_or_at_capacity_and_come_back() {
    let pods = Pod::start_many(4).await;
    let ((_one, dead), (_other, dead_too)) = (refused(), refused());
    let service = Service::of(&pods);
    let near = pods[0].address.to_string();
    service.modify(&near, |it| it.zone = Some("here".into()));
    for address in [dead, dead_too] {
        let mut endpoint = endpoint(&address.to_string(), address);
        endpoint.zone = Some("here".into());
        service.add(endpoint);
    }
    let zone = ZoneAware::new("here").capacity(2);
    let channel = KubeChannel::builder(service.receiver()).zone_aware(zone).build().unwrap();
    channel.connected(4).await;
    // One of three is ready: 1.4 thirds of the calls stay.
    let hurt = shares(&channel, &pods, 600).await;
    assert!((180..380).contains(&hurt[0]) && hurt[1..].iter().all(|it| *it > 40), "{hurt:?}");
    service.remove(&dead.to_string());
    service.remove(&dead_too.to_string());
    until(&channel, |it| it.endpoints().len() == 4).await;
    assert_eq!(shares(&channel, &pods, 20).await, [20, 0, 0, 0]);
    let long = Traffic::new(EchoClient::new(&channel), "wait");
    long.issue(2);
    until(&channel, |it| it.endpoints().iter().any(|it| it.in_flight == 2)).await;
    assert_eq!(shares(&channel, &pods, 30).await[1..], [10; 3], "the capacity is two calls per endpoint");
    pods[0].seen.gate.add_permits(2);
    long.settled().await;
    assert_eq!(shares(&channel, &pods, 20).await, [20, 0, 0, 0]);
}

#[tokio::test]
async fn ring_calls_without_the_header_go_anywhere_and_a_subset_may_be_larger_than_the_service() {
    let pods = Pod::start_many(3).await;
    let by_user = RingHash::by_header(HeaderName::from_static("user"));
    let builder = KubeChannel::builder(Service::of(&pods).receiver()).policy(by_user);
    let channel = builder.subset(10).build().unwrap();
    channel.connected(3).await;
    // The probability that one of three is missed in 200 random calls is negligible.
    assert!(shares(&channel, &pods, 200).await.iter().all(|it| *it > 0));
}

/// If all endpoints are unhealthy, the health check is more likely wrong: calls go to all of them.
#[tokio::test]
async fn if_too_many_are_unhealthy_or_ejected_all_are_used() {
    let mut pods = Vec::new();
    for _ in 0..2 {
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_service_status("shop", ServingStatus::NotServing).await;
        pods.push(Pod::with(|it| it, |it| it.add_service(health)).await);
    }
    let channel = KubeChannel::builder(Service::of(&pods).receiver()).health("shop").build().unwrap();
    channel.connected(2).await;
    assert_eq!(shares(&channel, &pods, 20).await, [10, 10]);
    assert!(channel.endpoints().iter().all(|it| !it.healthy));

    let clock = ManualClock::begin();
    let pods = Pod::start_many(6).await;
    let failure_percentage = Some(FailurePercentage { request_volume: 5, ..FailurePercentage::default() });
    let outlier =
        OutlierDetection { failure_percentage, max_ejection_percent: 100, ..OutlierDetection::default() };
    let builder = KubeChannel::builder(Service::of(&pods).receiver()).no_keep_alive();
    let channel = builder.outlier(outlier).build().unwrap();
    channel.connected(6).await;
    pods.iter().for_each(|it| it.seen.fail(10, Code::Internal));
    for _ in 0..60 {
        assert_eq!(EchoClient::new(&channel).one("hello").await.unwrap_err().code(), Code::Internal);
    }
    clock.until(|| channel.endpoints().iter().all(|it| it.ejected)).await;
    until(&channel, |it| it.ready_endpoints() == 6).await;
    assert_eq!(shares(&channel, &pods, 12).await, [2; 6]);
}

/// Starts a server that fails every call as unavailable, with a retry pushback.
async fn pushback_server(milliseconds: &'static str) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(socket).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let head = Response::builder().header("content-type", "application/grpc");
                    let head =
                        head.header("grpc-status", "14").header("grpc-retry-pushback-ms", milliseconds);
                    respond.send_response(head.body(()).unwrap(), true).unwrap();
                }
            });
        }
    });
    (address, asked)
}

#[tokio::test]
async fn a_server_may_forbid_or_delay_a_retry() {
    let clock = ManualClock::begin();
    for (pushback, attempts, least) in [("-1", 1, 0), ("soon", 1, 0), ("5000", 3, 10)] {
        let (address, asked) = pushback_server(pushback).await;
        let service = Service::new();
        service.set(vec![endpoint("busy", address)]);
        let builder = KubeChannel::builder(service.receiver()).no_keep_alive();
        let channel = builder.retry(Retry::default()).build().unwrap();
        channel.connected(1).await;
        let traffic = Traffic::new(EchoClient::new(&channel), "hello");
        traffic.issue(1);
        let took = clock.until(|| traffic.pending() == 0).await;
        assert_eq!(traffic.failures().len(), 1);
        assert_eq!(asked.load(Ordering::SeqCst), attempts, "{pushback}");
        let range = Duration::from_secs(least)..=Duration::from_secs(least + 30);
        assert!(range.contains(&took), "{pushback}: {took:?}");
    }
}
