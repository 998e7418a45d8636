//! Pods that are killed while they have calls.
//!
//! A call that no server has started to process never fails because of that. One that a server may
//! have started is sent again only if the user allows it: otherwise it fails once, with the address
//! of the pod, and is executed at most once.

use std::net::SocketAddr;
use std::time::Duration;

use dogwatch_grpc::{KubeChannel, Retry};
use tokio::sync::{mpsc, oneshot};
use tonic::Code;

use crate::echo::EchoClient;
use crate::manual_clock::{ManualClock, STEP, yield_briefly};
use crate::pods::{Pod, Service, calls_begun, connected, endpoint, until};
use crate::traffic::{CallOutcome, Traffic};

/// Returns the texts of the failed calls, which must all be calls of one pod.
fn failed_at(outcomes: &[CallOutcome], pod: SocketAddr) -> Vec<String> {
    let address = pod.to_string();
    for outcome in outcomes {
        let status = outcome.failure.as_ref().unwrap();
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert_eq!(status.metadata().get("dogwatch-endpoint").unwrap(), address.as_str());
    }
    outcomes.iter().map(|it| it.text.clone()).collect()
}

/// Returns how often a call was started, over all pods.
fn begun(pods: &[Pod], text: &str) -> usize {
    pods.iter().map(|it| it.seen.begun(text)).sum()
}

#[tokio::test]
async fn calls_started_by_a_killed_pod_fail_and_are_executed_once() {
    let mut pods = Pod::start_many(5).await;
    let channel = Service::of(&pods).channel();
    connected(&channel, 5).await;
    let traffic = Traffic::new(EchoClient::new(&channel), "wait");
    traffic.issue(20);
    calls_begun(&pods, 20).await;
    let dead = pods[0].address;
    pods[0].kill().await;
    traffic.reaches(4).await;
    let failed = failed_at(&traffic.failures(), dead);
    assert_eq!(
        (failed.len(), traffic.ended()),
        (4, 4),
        "only the calls that the pod had started should fail"
    );
    assert!(failed.iter().all(|it| pods[0].seen.begun(it) == 1 && begun(&pods, it) == 1));
    for pod in &pods[1..] {
        pod.seen.gate.add_permits(4);
    }
    traffic.settled().await;
    assert_eq!(traffic.failures().len(), 4);
}

#[tokio::test]
async fn with_retries_a_killed_pod_fails_no_call() {
    let clock = ManualClock::begin();
    let mut pods = Pod::start_many(5).await;
    let builder = KubeChannel::builder(Service::of(&pods).receiver()).no_keep_alive();
    let channel = builder.retry(Retry::default()).build().unwrap();
    connected(&channel, 5).await;
    let traffic = Traffic::new(EchoClient::new(&channel), "wait");
    traffic.issue(20);
    calls_begun(&pods, 20).await;
    pods[0].kill().await;
    for pod in &pods[1..] {
        pod.seen.gate.add_permits(20);
    }
    let in_flight = |it: &KubeChannel| it.endpoints().iter().map(|it| it.in_flight).sum::<u32>();
    // The calls of the other pods are answered, and four wait a moment before they are sent again.
    until(&channel, |it| traffic.ended() == 16 && in_flight(it) == 0).await;
    clock.advance(STEP).await;
    traffic.settled().await;
    assert!(traffic.failures().is_empty(), "{:?}", traffic.failures());
    assert!(traffic.outcomes().iter().all(|it| it.took <= STEP));
    let twice: Vec<_> = traffic.outcomes().into_iter().filter(|it| begun(&pods, &it.text) == 2).collect();
    assert_eq!(twice.len(), 4);
    assert!(twice.iter().all(|it| pods[0].seen.begun(&it.text) == 1));
}

/// Sends calls 0 to 199 before, 200 to 399 while one of five pods is killed, and 400 to 799 once
/// that is known. The clock is stopped, so that a call that had to wait for it would never end.
async fn kill_under_load(traffic: &Traffic<EchoClient>, pods: &mut [Pod], known: impl AsyncFn()) {
    for _ in 0..5 {
        traffic.issue(40);
        traffic.settled().await;
    }
    assert!(traffic.failures().is_empty());
    traffic.issue(200);
    tokio::join!(pods[0].kill(), traffic.settled());
    known().await;
    for _ in 0..10 {
        traffic.issue(40);
        traffic.settled().await;
    }
}

#[tokio::test]
async fn a_pod_killed_under_load_fails_only_its_own_calls_and_delays_none() {
    let clock = ManualClock::begin();
    let mut pods = Pod::start_many(5).await;
    let channel = KubeChannel::builder(Service::of(&pods).receiver()).no_keep_alive().build().unwrap();
    connected(&channel, 5).await;
    let dead = pods[0].address;
    let traffic = Traffic::new(EchoClient::new(&channel), "hello");
    let known = async || until(&channel, |it| it.endpoints().iter().all(|it| it.peer != Some(dead))).await;
    kill_under_load(&traffic, &mut pods, known).await;
    let failed = failed_at(&traffic.failures(), dead);
    // At most a fifth of the calls during the kill; none of those sent before and after.
    assert!(failed.len() <= 40, "{}", failed.len());
    let (crowd, first) = (200..400, failed.iter().map(|it| it.split(' ').nth(1).unwrap()));
    assert!(first.map(|it| it.parse().unwrap()).all(|it: usize| crowd.contains(&it)), "{failed:?}");
    for outcome in traffic.outcomes() {
        let count = begun(&pods, &outcome.text);
        assert!(if outcome.failure.is_some() { count <= 1 } else { count == 1 }, "{outcome:?}: {count}");
        assert_eq!(outcome.took, Duration::ZERO, "{outcome:?}");
    }
    drop(clock);
}

/// Starts a server that accepts only two calls: on a signal it sends GOAWAY with the second as the
/// last stream, and closes.
async fn go_away_server() -> (SocketAddr, mpsc::Receiver<()>, oneshot::Sender<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (taken, takes) = mpsc::channel(2);
    let (leave, left) = oneshot::channel();
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        drop(listener);
        let mut connection = h2::server::handshake(socket).await.unwrap();
        let mut calls = Vec::new();
        for _ in 0..2 {
            calls.push(connection.accept().await.unwrap().unwrap());
            taken.send(()).await.unwrap();
        }
        left.await.unwrap();
        connection.abrupt_shutdown(h2::Reason::NO_ERROR);
        let _ = std::future::poll_fn(|cx| connection.poll_closed(cx)).await;
    });
    (address, takes, leave)
}

/// Calls that a server says it has not processed go elsewhere without any policy; calls that it may
/// have processed do not.
#[tokio::test]
async fn go_away_decides_which_calls_may_go_elsewhere() {
    let (leaving, mut takes, leave) = go_away_server().await;
    let pods = Pod::start_many(1).await;
    let service = Service::new();
    service.set(vec![endpoint("go_away_server", leaving)]);
    let channel = service.channel();
    connected(&channel, 1).await;
    let traffic = Traffic::new(EchoClient::new(&channel), "hello");
    for _ in 0..2 {
        traffic.issue(1);
        takes.recv().await.unwrap();
    }
    // Their bytes are sent, and the server does not read them.
    traffic.issue(3);
    until(&channel, |it| it.endpoints()[0].in_flight == 5).await;
    for _ in 0..10 {
        yield_briefly().await;
    }
    service.add(endpoint("pod", pods[0].address));
    connected(&channel, 2).await;
    leave.send(()).unwrap();
    traffic.settled().await;
    let mut failed = failed_at(&traffic.failures(), leaving);
    failed.sort_unstable();
    assert_eq!(failed, ["hello 0", "hello 1"]);
    assert!((2..5).all(|it| pods[0].seen.begun(&format!("hello {it}")) == 1));
    assert_eq!(pods[0].seen.calls(), 3);
}
