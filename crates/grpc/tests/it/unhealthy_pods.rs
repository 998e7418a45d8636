//! Pods that answer, but with errors: excluded by their health check, or by outlier detection.

use std::net::SocketAddr;
use std::time::Duration;

use dogwatch_grpc::{FailurePercentage, KubeChannel, OutlierDetection, SuccessRate};
use tonic::Code;
use tonic_health::ServingStatus;

use crate::echo::EchoClient;
use crate::manual_clock::{ManualClock, yield_briefly};
use crate::pods::{Pod, Service, connected, endpoint, until};

#[tokio::test]
async fn an_unhealthy_pod_gets_no_calls_until_it_is_healthy() {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("shop", ServingStatus::NotServing).await;
    let pods = [Pod::with(|it| it, |it| it.add_service(health)).await, Pod::start().await];
    let channel = KubeChannel::builder(Service::of(&pods).receiver())
        .health("shop")
        .panic_threshold(0.0)
        .build()
        .unwrap();
    let client = EchoClient::new(&channel);
    // The second has no health service, which is no reason to exclude it.
    connected(&channel, 1).await;
    until(&channel, |it| it.endpoints().iter().all(|it| it.peer.is_some())).await;
    for _ in 0..10 {
        client.one("hello").await.unwrap();
    }
    assert_eq!((pods[0].seen.calls(), pods[1].seen.calls()), (0, 10));
    reporter.set_service_status("shop", ServingStatus::Serving).await;
    connected(&channel, 2).await;
    for _ in 0..10 {
        client.one("hello").await.unwrap();
    }
    assert_eq!((pods[0].seen.calls(), pods[1].seen.calls()), (5, 15));
}

/// Makes rounds of calls, enough for every pod to be rated.
async fn round(client: &EchoClient) {
    let calls = (0..10 * 12).map(|_| client.one("hello"));
    futures_util::future::join_all(calls).await;
}

/// A50's times, with lower call volumes than its defaults.
fn outlier(max_ejection_percent: u32) -> OutlierDetection {
    let success_rate = Some(SuccessRate { request_volume: 10, ..SuccessRate::default() });
    let failure_percentage = Some(FailurePercentage { request_volume: 10, ..FailurePercentage::default() });
    OutlierDetection { success_rate, failure_percentage, max_ejection_percent, ..OutlierDetection::default() }
}

fn ejected(channel: &KubeChannel) -> Vec<SocketAddr> {
    channel.endpoints().iter().filter(|it| it.ejected).map(|it| it.endpoint.addresses[0]).collect()
}

/// A sweep every ten seconds; ejected for thirty seconds the first time and a minute the second.
#[tokio::test]
async fn a_failing_pod_is_ejected_longer_each_time_and_comes_back() {
    let clock = ManualClock::begin();
    let pods = Pod::start_many(10).await;
    let builder = KubeChannel::builder(Service::of(&pods).receiver()).no_keep_alive();
    let channel = builder.outlier(outlier(10)).build().unwrap();
    let client = EchoClient::new(&channel);
    connected(&channel, 10).await;
    for (least, most) in [(30, 45), (60, 75)] {
        pods[3].seen.fail(u32::MAX, Code::Internal);
        round(&client).await;
        let noticed = clock.until(|| !ejected(&channel).is_empty()).await;
        assert!(noticed <= Duration::from_secs(11), "{noticed:?}");
        assert_eq!((ejected(&channel), channel.ready_endpoints()), (vec![pods[3].address], 9));
        let before = pods[3].seen.calls();
        for _ in 0..20 {
            client.one("hello").await.unwrap();
        }
        assert_eq!(pods[3].seen.calls(), before, "an ejected pod should get no calls");
        pods[3].seen.fail(0, Code::Internal);
        let away = clock.until(|| ejected(&channel).is_empty()).await.as_secs();
        assert!((least..=most).contains(&away), "{away} s");
        until(&channel, |it| it.ready_endpoints() == 10).await;
        for _ in 0..10 {
            client.one("hello").await.unwrap();
        }
        assert_eq!(pods[3].seen.calls(), before + 1, "the pod should get its share again");
    }
}

#[tokio::test]
async fn no_more_pods_are_ejected_than_the_limit_allows() {
    let clock = ManualClock::begin();
    let pods = Pod::start_many(10).await;
    for (percent, expected) in [(0, 1), (10, 1), (20, 2), (50, 4)] {
        let builder = KubeChannel::builder(Service::of(&pods).receiver()).no_keep_alive();
        let channel = builder.outlier(outlier(percent)).build().unwrap();
        connected(&channel, 10).await;
        pods[..4].iter().for_each(|it| it.seen.fail(u32::MAX, Code::Internal));
        for _ in 0..2 {
            round(&EchoClient::new(&channel)).await;
            clock.advance(Duration::from_secs(10)).await;
            yield_briefly().await;
        }
        until(&channel, |it| it.ready_endpoints() == 10 - ejected(it).len()).await;
        assert_eq!(ejected(&channel).len(), expected, "{percent} %");
        assert!(ejected(&channel).iter().all(|it| pods[..4].iter().any(|pod| pod.address == *it)));
    }
}

/// No pod is called before its health is known, even if it is the only one.
#[tokio::test]
async fn a_pod_with_a_pending_health_check_gets_no_calls() {
    let clock = ManualClock::begin();
    let pods = Pod::start_many(1).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(socket).await.unwrap();
        let mut asked = Vec::new();
        while let Some(Ok(it)) = connection.accept().await {
            asked.push(it);
        }
    });
    let service = Service::new();
    service.set(vec![endpoint("silent", silent)]);
    let builder = KubeChannel::builder(service.receiver()).health("shop").no_keep_alive();
    let channel = builder.build().unwrap();
    until(&channel, |it| it.endpoints().first().is_some_and(|it| it.peer.is_some())).await;
    clock.advance(Duration::from_secs(5)).await;
    assert_eq!(channel.ready_endpoints(), 0);
    // A pod without the service answers with UNIMPLEMENTED.
    service.add(endpoint("well", pods[0].address));
    connected(&channel, 1).await;
    for _ in 0..10 {
        EchoClient::new(&channel).one("hello").await.unwrap();
    }
    assert_eq!(pods[0].seen.calls(), 10);
}
