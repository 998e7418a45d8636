//! Calls of every kind, and the pods that get them.

use std::time::Duration;

use dogwatch_grpc::{KubeChannel, Policy, RingHash, ZoneAware};
use futures_util::StreamExt;
use http::HeaderName;
use tonic::{Code, Request};

use crate::echo::{EchoClient, message};
use crate::pods::{Pod, Service, connected, endpoints, until};

fn calls(pods: &[Pod]) -> Vec<usize> {
    pods.iter().map(|it| it.seen.calls()).collect()
}

#[tokio::test]
async fn every_pod_gets_the_same_share() {
    let pods = Pod::start_many(6).await;
    let channel = Service::of(&pods).channel();
    let client = EchoClient::new(&channel);
    connected(&channel, 6).await;
    for _ in 0..120 {
        assert_eq!(client.one("hello").await.unwrap().text, "hello");
    }
    assert_eq!(calls(&pods), [20; 6]);
    assert!(channel.endpoints().iter().all(|it| it.calls == 20 && it.in_flight == 0 && it.failures == 0));
}

/// A pod that moved to another slice is the same pod: it keeps its connection, and no call fails.
#[tokio::test]
async fn a_change_of_other_endpoints_does_not_affect_a_pods_connection() {
    let pods = Pod::start_many(4).await;
    let service = Service::of(&pods[..3]);
    let channel = service.channel();
    let client = EchoClient::new(&channel);
    connected(&channel, 3).await;
    service.set(endpoints(&pods[1..]));
    let newest = pods[3].address;
    until(&channel, |it| it.endpoints().iter().any(|it| it.peer == Some(newest))).await;
    until(&channel, |it| it.endpoints().len() == 3 && it.ready_endpoints() == 3).await;
    for _ in 0..30 {
        client.one("hello").await.unwrap();
    }
    assert_eq!(calls(&pods), [0, 10, 10, 10]);
    assert!(pods.iter().all(|it| it.connections() == 1));
}

#[tokio::test]
async fn streams_work_in_both_directions_and_large_messages_arrive() {
    let pods = Pod::start_many(2).await;
    let channel = KubeChannel::builder(Service::of(&pods).receiver()).authority("echo.test").build().unwrap();
    let client = EchoClient::new(&channel);
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    sender.send(message("first", 0)).await.unwrap();
    let mut answers = client.both(tokio_stream::wrappers::ReceiverStream::new(receiver)).await.unwrap();
    assert_eq!(answers.message().await.unwrap(), Some(message("first", 0)));
    for count in 1..10 {
        sender.send(message("more", count)).await.unwrap();
        assert_eq!(answers.message().await.unwrap(), Some(message("more", count)));
    }
    drop(sender);
    assert_eq!(answers.message().await.unwrap(), None);
    // More than the windows of HTTP/2, and more than is kept for a retry.
    let large = "x".repeat(3 << 20);
    assert_eq!(client.one(&large).await.unwrap().text, large);
    let sent = futures_util::stream::iter((0..50).map(|it| message(&"y".repeat(100_000), it)));
    let answers: Vec<_> = client.both(sent).await.unwrap().collect().await;
    assert!(answers.len() == 50 && answers.iter().all(Result::is_ok));
    assert!(pods.iter().any(|it| *it.seen.authority.lock().unwrap() == "echo.test"));
}

#[tokio::test]
async fn a_deadline_ends_a_call_in_every_state() {
    let pods = Pod::start_many(1).await;
    let channel = Service::of(&pods).channel();
    let client = EchoClient::new(&channel);
    let mut request = Request::new(message("wait", 0));
    request.set_timeout(Duration::from_millis(20));
    let status = client.ask(request).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    until(&channel, |it| it.endpoints().iter().all(|it| it.in_flight == 0)).await;
}

#[tokio::test]
async fn a_ring_key_stays_with_its_pod_and_calls_stay_in_their_zone() {
    let pods = Pod::start_many(4).await;
    let by_user = RingHash::by_header(HeaderName::from_static("user"));
    let channel = KubeChannel::builder(Service::of(&pods).receiver()).policy(by_user).build().unwrap();
    let client = EchoClient::new(&channel);
    connected(&channel, 4).await;
    for _ in 0..20 {
        let mut request = Request::new(message("hello", 0));
        request.metadata_mut().insert("user", "alice".parse().unwrap());
        client.ask(request).await.unwrap();
    }
    assert_eq!(calls(&pods).into_iter().filter(|it| *it > 0).collect::<Vec<_>>(), [20]);

    let service = Service::of(&pods);
    for pod in &pods[..2] {
        service.modify(&pod.address.to_string(), |it| it.zone = Some("here".into()));
    }
    let near = KubeChannel::builder(service.receiver()).zone_aware(ZoneAware::new("here")).build().unwrap();
    connected(&near, 4).await;
    let before = calls(&pods);
    for _ in 0..20 {
        EchoClient::new(&near).one("hello").await.unwrap();
    }
    let shares: Vec<_> = calls(&pods).iter().zip(before).map(|(now, before)| now - before).collect();
    assert_eq!(shares, [10, 10, 0, 0]);
}

/// Only the pod in use is connected; when it dies, the next one is.
#[tokio::test]
async fn pick_first_uses_one_pod_until_it_dies() {
    let mut pods = Pod::start_many(3).await;
    let service = Service::of(&pods);
    let channel = KubeChannel::builder(service.receiver()).policy(Policy::PickFirst).build().unwrap();
    let client = EchoClient::new(&channel);
    for _ in 0..10 {
        client.one("hello").await.unwrap();
    }
    let used = pods.iter().position(|it| it.seen.calls() == 10).expect("one pod has all calls");
    let connected = pods.iter().filter(|it| it.connections() > 0).count();
    assert_eq!(connected, 1);
    let gone = pods[used].address;
    pods[used].kill().await;
    // A call that is sent before the death is noticed is lost with the pod.
    until(&channel, |it| it.endpoints().iter().all(|it| it.peer != Some(gone))).await;
    for _ in 0..10 {
        client.one("hello").await.unwrap();
    }
    assert_eq!(calls(&pods).iter().sum::<usize>(), 20);
}
