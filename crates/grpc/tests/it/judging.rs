//! Pods that answer, but badly: left out by their own word, or by their record.

use std::time::Duration;

use dogwatch_grpc::{FailurePercentage, KubeChannel, Outlier};
use tonic::Code;
use tonic_health::ServingStatus;

use crate::echo::EchoClient;
use crate::pods::{Pod, Service, until};

#[tokio::test]
async fn a_pod_that_says_it_is_not_well_gets_no_calls_until_it_is() {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("shop", ServingStatus::NotServing).await;
    let pods = [Pod::with(|it| it, |it| it.add_service(health)).await, Pod::start().await];
    let channel = KubeChannel::builder(Service::of(&pods).receiver())
        .health("shop")
        .panic_threshold(0.0)
        .build()
        .unwrap();
    let client = EchoClient::new(&channel);
    // The second has no such service, which is no reason to leave it out.
    channel.connected(1).await;
    until(&channel, |it| it.endpoints().iter().all(|it| it.peer.is_some())).await;
    for _ in 0..10 {
        client.one("hello").await.unwrap();
    }
    assert_eq!((pods[0].seen.calls(), pods[1].seen.calls()), (0, 10));
    reporter.set_service_status("shop", ServingStatus::Serving).await;
    channel.connected(2).await;
    for _ in 0..10 {
        client.one("hello").await.unwrap();
    }
    assert_eq!((pods[0].seen.calls(), pods[1].seen.calls()), (5, 15));
}

#[tokio::test]
async fn a_pod_whose_calls_fail_is_left_out_for_a_while() {
    let pods = Pod::start_many(5).await;
    let rule = FailurePercentage { request_volume: 2, ..FailurePercentage::default() };
    let outlier = Outlier {
        interval: Duration::from_millis(500),
        base_ejection: Duration::from_secs(600),
        success_rate: None,
        failure_percentage: Some(rule),
        ..Outlier::default()
    };
    let channel = KubeChannel::builder(Service::of(&pods).receiver()).outlier(outlier).build().unwrap();
    let client = EchoClient::new(&channel);
    channel.connected(5).await;
    pods[3].seen.fail(u32::MAX, Code::Internal);
    // Bursts of calls, so that one sweep finds enough of them whatever else the machine does.
    while channel.endpoints().iter().all(|it| !it.ejected) {
        let calls = (0..200).map(|_| client.one("hello"));
        futures_util::future::join_all(calls).await;
    }
    until(&channel, |it| it.ready_endpoints() == 4).await;
    let ejected = channel.endpoints().into_iter().find(|it| it.ejected).unwrap();
    assert_eq!(ejected.endpoint.addresses, [pods[3].address]);
    for _ in 0..20 {
        client.one("hello").await.unwrap();
    }
}
