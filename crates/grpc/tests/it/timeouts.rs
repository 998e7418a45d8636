//! Timeouts: waiting for an endpoint, for the next of several, and forever.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use dogwatch_grpc::{Backoff, KubeChannel, OutlierDetection, PeakEwma, Policy, Unavailable};
use http_body_util::{BodyExt, Full};
use tonic::Code;
use tonic_health::ServingStatus;
use tower_service::Service as _;

use crate::echo::EchoClient;
use crate::manual_clock::{ManualClock, STEP, yield_briefly};
use crate::pods::{Pod, Service, black_hole, connected, endpoint, endpoints, refused, until};

/// A service that alternates between no endpoint and an unreachable one: the limit of a call is one
/// for all reasons.
#[tokio::test]
async fn a_call_waits_no_longer_than_the_timeout_however_often_the_reason_changes() {
    let clock = ManualClock::begin();
    let (_held, dead) = refused();
    let service = Service::new();
    service.unavailable(Unavailable::NoEndpoints);
    let channel = KubeChannel::builder(service.receiver()).build().unwrap();
    let client = EchoClient::new(&channel);
    until(&channel, |it| *it.subscribe().borrow() > 0).await;
    let waiting = tokio::spawn(async move { client.one("hello").await });
    for turn in 0..3 {
        clock.advance(4 * STEP).await;
        match turn % 2 {
            0 => service.set(vec![endpoint("dead", dead)]),
            _ => service.unavailable(Unavailable::NoEndpoints),
        }
        for _ in 0..20 {
            yield_briefly().await;
        }
    }
    assert!(waiting.is_finished(), "the call should have failed after its timeout");
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), Code::Unavailable);
}

/// The largest possible duration means forever.
#[tokio::test]
async fn infinite_timeouts_are_accepted() {
    let clock = ManualClock::begin();
    let pods = Pod::start_many(1).await;
    let (_held, dead) = refused();
    let ever = Duration::MAX;
    let service = Service::new();
    service.set(vec![endpoint("dead", dead)]);
    let outlier = OutlierDetection {
        interval: STEP,
        base_ejection: ever,
        longest_ejection: ever,
        ..OutlierDetection::default()
    };
    let backoff = Backoff { initial: ever, longest: ever, factor: -1.0, jitter: 7.0 };
    let channel = KubeChannel::builder(service.receiver())
        .ready_timeout(ever)
        .connect_timeout(ever)
        .drain(ever)
        .hold_when_emptied(ever)
        .keep_alive(ever, ever)
        .outlier(outlier)
        .backoff(backoff)
        .build()
        .unwrap();
    let client = EchoClient::new(&channel);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.one("hello").await }
    });
    until(&channel, |it| it.endpoints().first().is_some_and(|it| it.error.is_some())).await;
    clock.advance(20 * STEP).await;
    service.set(endpoints(&pods));
    waiting.await.unwrap().unwrap();
    service.unavailable(Unavailable::NoEndpoints);
    clock.advance(20 * STEP).await;
    client.one("hello").await.unwrap();
}

/// No call waits for an address that does not answer while there are others.
#[tokio::test]
async fn pick_first_tries_the_next_pod_when_one_is_silent() {
    let clock = ManualClock::begin();
    let pods = Pod::start_many(1).await;
    let holes: Vec<_> = (0..7).map(|_| black_hole()).collect();
    let service = Service::of(&pods);
    for (_listener, address) in &holes {
        service.add(endpoint(&address.to_string(), *address));
    }
    let builder = KubeChannel::builder(service.receiver()).policy(Policy::PickFirst).no_keep_alive();
    let channel = builder.build().unwrap();
    for _ in 0..8 {
        clock.advance(STEP).await;
        for _ in 0..20 {
            yield_briefly().await;
        }
    }
    // By now every endpoint was tried; the response of the pod may need more time than its turn.
    connected(&channel, 1).await;
    EchoClient::new(&channel).one("hello").await.unwrap();
    let left = |it: &KubeChannel| {
        it.endpoints().iter().filter(|it| it.state != dogwatch_grpc::ConnectionState::Idle).count()
    };
    until(&channel, |it| left(it) == 1).await;
}

/// A pod whose callers give up is slow.
#[tokio::test]
async fn an_abandoned_call_counts_as_slow() {
    let clock = ManualClock::begin();
    let pods = Pod::start_many(1).await;
    let builder = KubeChannel::builder(Service::of(&pods).receiver()).policy(PeakEwma::default());
    let channel = builder.no_keep_alive().build().unwrap();
    let client = EchoClient::new(&channel);
    connected(&channel, 1).await;
    let waiting = tokio::spawn(async move { client.one("wait").await });
    until(&channel, |it| it.endpoints()[0].in_flight == 1).await;
    clock.advance(5 * STEP).await;
    waiting.abort();
    until(&channel, |it| it.endpoints()[0].in_flight == 0).await;
    assert!(channel.endpoints()[0].latency >= 4 * STEP, "{:?}", channel.endpoints());
}

/// The caller need not keep the channel: a call that waits for its first connection keeps it.
#[tokio::test]
async fn a_call_outlives_the_handle_that_made_it() {
    let pods = Pod::start_many(1).await;
    let service = Service::of(&pods);
    let mut channel = KubeChannel::builder(service.receiver()).lazy().build().unwrap();
    let request = http::Request::post("/test.Echo/One").header("content-type", "application/grpc");
    let request =
        request.header("te", "trailers").body(Full::new(Bytes::from_static(b"\0\0\0\0\0"))).unwrap();
    let answer = channel.call(request);
    drop(channel);
    let Ok(answer) = answer.await;
    assert!(answer.headers().get("grpc-status").is_none(), "{:?}", answer.headers());
    let trailers = pin!(answer.into_body()).collect().await.unwrap().trailers().cloned().unwrap();
    assert_eq!(trailers["grpc-status"], "0");
}

/// "Not connected" would be a misleading error.
#[tokio::test]
async fn if_all_connected_endpoints_are_unhealthy_calls_report_it() {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("shop", ServingStatus::Serving).await;
    let pods = [Pod::with(|it| it, |it| it.add_service(health)).await];
    let builder = KubeChannel::builder(Service::of(&pods).receiver()).health("shop").panic_threshold(0.0);
    let channel = builder.ready_timeout(Duration::ZERO).build().unwrap();
    connected(&channel, 1).await;
    reporter.set_service_status("shop", ServingStatus::NotServing).await;
    until(&channel, |it| it.ready_endpoints() == 0).await;
    let status = EchoClient::new(&channel).one("hello").await.unwrap_err();
    assert!(
        status
            .message()
            .ends_with("its 1 connected endpoints are all unhealthy, ejected, or accept no calls"),
        "{status:?}"
    );
}
