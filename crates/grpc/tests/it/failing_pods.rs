//! Pods that are dead, silent or refusing: a call that need not fail does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dogwatch_grpc::{ConnectionState, KubeChannel, Retry};
use tonic::Code;

use crate::echo::EchoClient;
use crate::manual_clock::{ManualClock, STEP};
use crate::pods::{Pod, Service, black_hole, connected, endpoint, endpoints, refused, until};

/// Three pods answer, one refuses connections, and one accepts them and never answers.
#[tokio::test]
async fn with_a_dead_pod_and_a_black_hole_no_call_fails() {
    let pods = Pod::start_many(3).await;
    let ((_held, dead), (_listener, silent)) = (refused(), black_hole());
    let service = Service::of(&pods);
    service.add(endpoint("dead", dead));
    service.add(endpoint("silent", silent));
    let channel = service.channel();
    let client = EchoClient::new(&channel);
    connected(&channel, 3).await;
    for _ in 0..300 {
        client.one("hello").await.unwrap();
    }
    assert!(pods.iter().all(|it| it.seen.calls() == 100));
    let states = channel.endpoints();
    let of = |id: &str| states.iter().find(|it| it.endpoint.id.as_str() == id).unwrap();
    assert!(matches!(of("dead").state, ConnectionState::Backoff | ConnectionState::Connecting));
    assert_eq!(of("silent").state, ConnectionState::Connecting);
    assert!(of("dead").error.as_deref().is_some_and(|it| it.starts_with("cannot connect to 127.0.0.1")));
}

/// There are no calls while the pod dies, so it cannot have processed any: none may fail. Only a
/// call that is written before the client has read the end of the connection may, since the client
/// cannot know then that the pod did not process it.
#[tokio::test]
async fn a_pod_that_dies_while_idle_fails_no_call() {
    let mut pods = Pod::start_many(5).await;
    let channel = Service::of(&pods).channel();
    let client = EchoClient::new(&channel);
    connected(&channel, 5).await;
    for _ in 0..50 {
        client.one("hello").await.unwrap();
    }
    pods[2].kill().await;
    until(&channel, |it| it.ready_endpoints() == 4).await;
    for _ in 0..200 {
        client.one("hello").await.unwrap();
    }
    let total: usize = pods.iter().map(|it| it.seen.calls()).sum();
    assert_eq!(total, 250);
}

#[tokio::test]
async fn a_failure_names_the_endpoint() {
    let mut pods = Pod::start_many(1).await;
    let channel = Service::of(&pods).channel();
    let client = EchoClient::new(&channel);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.one("wait").await }
    });
    until(&channel, |it| it.endpoints().first().is_some_and(|it| it.in_flight == 1)).await;
    while pods[0].seen.calls() == 0 {
        tokio::task::yield_now().await;
    }
    pods[0].kill().await;
    let status = waiting.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let address = pods[0].address.to_string();
    assert!(status.message().contains(&address), "{status:?}");
    assert_eq!(status.metadata().get("dogwatch-endpoint").unwrap(), address.as_str());
}

/// No call waits for an address that the pod no longer has.
#[tokio::test]
async fn a_pod_with_a_new_address_is_dialled_there_at_once() {
    let _clock = ManualClock::begin();
    let pods = Pod::start_many(1).await;
    let ((_listener, silent), (_held, dead)) = (black_hole(), refused());
    for (old, state) in [(silent, ConnectionState::Connecting), (dead, ConnectionState::Backoff)] {
        let service = Service::new();
        service.set(vec![endpoint("pod", old)]);
        let channel = service.channel();
        until(&channel, |it| it.endpoints().first().is_some_and(|it| it.state == state)).await;
        service.modify("pod", |it| it.addresses = vec![pods[0].address]);
        connected(&channel, 1).await;
        EchoClient::new(&channel).one("hello").await.unwrap();
    }
}

/// The set may be outdated if none of its endpoints can be reached, so its source is asked for
/// changes now and then.
#[tokio::test]
async fn if_no_endpoint_can_be_connected_the_source_is_asked_to_resolve_again() {
    let clock = ManualClock::begin();
    let (_held, dead) = refused();
    let service = Service::new();
    service.set(vec![endpoint("dead", dead)]);
    let asked = Arc::<AtomicUsize>::default();
    let count = || asked.load(Ordering::SeqCst);
    let asks = Arc::clone(&asked);
    let channel = KubeChannel::builder(service.receiver())
        .resolving(move || {
            asks.fetch_add(1, Ordering::SeqCst);
        })
        .build()
        .unwrap();
    until(&channel, |_| count() == 1).await;
    clock.advance(25 * STEP).await;
    assert_eq!(count(), 1);
    clock.until(|| count() == 2).await;
    channel.resolve_now();
    assert_eq!(count(), 3);
    // Once an endpoint is connected, the source is not asked.
    let pods = Pod::start_many(1).await;
    service.add(endpoint("alive", pods[0].address));
    connected(&channel, 1).await;
    clock.advance(600 * STEP).await;
    assert_eq!(count(), 3);
}

/// Starts a server that refuses every stream, like one that is full or shutting down.
pub(crate) async fn refusing_server() -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(socket).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    respond.send_reset(h2::Reason::REFUSED_STREAM);
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_refused_stream_goes_to_another_pod() {
    let pods = Pod::start_many(2).await;
    let service = Service::of(&pods);
    service.add(endpoint("refusing_server", refusing_server().await));
    let channel = service.channel();
    let client = EchoClient::new(&channel);
    connected(&channel, 3).await;
    for _ in 0..60 {
        client.one("hello").await.unwrap();
    }
    let refusing_server =
        channel.endpoints().into_iter().find(|it| it.endpoint.id.as_str() == "refusing_server").unwrap();
    assert!(refusing_server.calls >= 15, "the refusing server should have been tried: {refusing_server:?}");
    assert_eq!(pods.iter().map(|it| it.seen.calls()).sum::<usize>(), 60);
}

/// More than is kept of a stream, but all of it is available.
#[tokio::test]
async fn a_large_message_that_is_refused_goes_to_another_pod_too() {
    let pods = Pod::start_many(1).await;
    let service = Service::of(&pods);
    service.add(endpoint("refusing_server", refusing_server().await));
    let channel = service.channel();
    let client = EchoClient::new(&channel);
    connected(&channel, 2).await;
    let large = "x".repeat(1 << 20);
    for _ in 0..10 {
        assert_eq!(client.one(&large).await.unwrap().text.len(), 1 << 20);
    }
    assert_eq!(pods[0].seen.calls(), 10);
}

#[tokio::test]
async fn retryable_codes_are_retried_and_others_are_not() {
    let pods = Pod::start_many(3).await;
    let build = || KubeChannel::builder(Service::of(&pods).receiver());
    let (plain, patient) = (build().build().unwrap(), build().retry(Retry::default()).build().unwrap());
    connected(&plain, 3).await;
    connected(&patient, 3).await;
    pods[0].seen.fail(1, Code::Unavailable);
    for _ in 0..6 {
        EchoClient::new(&patient).one("hello").await.unwrap();
    }
    let fail_next = |code| pods.iter().for_each(|it| it.seen.fail(1, code));
    fail_next(Code::Unavailable);
    assert_eq!(EchoClient::new(&plain).one("hello").await.unwrap_err().code(), Code::Unavailable);
    fail_next(Code::NotFound);
    assert_eq!(EchoClient::new(&patient).one("hello").await.unwrap_err().code(), Code::NotFound);
    // All calls fail for more attempts than the policy allows.
    pods.iter().for_each(|it| it.seen.fail(10, Code::Unavailable));
    let status = EchoClient::new(&patient).one("hello").await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "injected failure"));
    let left: u32 = pods.iter().map(|it| it.seen.failing.load(Ordering::SeqCst)).sum();
    assert_eq!(left, 30 - 3, "expected three attempts");
    assert_eq!(endpoints(&pods).len(), 3);
}
