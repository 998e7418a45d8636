//! Calls in flight are counted exactly, and busy pods are avoided.

use std::time::Duration;

use dogwatch_grpc::{KubeChannel, LeastRequest, PeakEwma, Policy};
use tonic::{Code, Request};

use crate::echo::{EchoClient, message};
use crate::manual_clock::yield_briefly;
use crate::pods::{Pod, Service, connected, until};
use crate::traffic::Traffic;

/// A stuck pod keeps the call it has, and gets no other while another pod has none.
async fn avoids_a_stuck_pod(policy: impl Into<Policy>) {
    let pods = Pod::start_many(4).await;
    let channel = KubeChannel::builder(Service::of(&pods).receiver()).policy(policy).build().unwrap();
    let client = EchoClient::new(&channel);
    connected(&channel, 4).await;
    let mut held = Vec::new();
    // The first pod to get a waiting call is the stuck one.
    held.push(tokio::spawn({
        let client = client.clone();
        async move { client.one("wait").await }
    }));
    until(&channel, |it| it.endpoints().iter().any(|it| it.in_flight == 1)).await;
    for _ in 0..200 {
        client.one("hello").await.unwrap();
    }
    let stuck = channel.endpoints().into_iter().find(|it| it.in_flight == 1).unwrap();
    // Choices are random, and once in a million calls it is compared only with itself.
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
async fn least_request_avoids_a_stuck_pod() {
    avoids_a_stuck_pod(LeastRequest::of(10)).await;
}

#[tokio::test]
async fn two_choices_avoid_a_stuck_pod() {
    avoids_a_stuck_pod(LeastRequest::default()).await;
}

/// Time is counted in ticks: a fast pod answers the calls of a tick within it, the slow one takes
/// ten. The number of calls in flight is constant, so that pods selected by their calls in flight
/// are called as often as they answer.
#[tokio::test]
async fn a_pod_that_is_ten_times_slower_gets_a_tenth_of_the_calls() {
    const IN_FLIGHT: usize = 40;
    let pods = Pod::start_many(5).await;
    let builder = KubeChannel::builder(Service::of(&pods).receiver());
    let channel = builder.policy(LeastRequest::default()).build().unwrap();
    connected(&channel, 5).await;
    let traffic = Traffic::new(EchoClient::new(&channel), "wait");
    let mut answered = [0; 5];
    // The number of calls of the slow pod by the end of each tick.
    let mut came_by = Vec::new();
    for tick in 0..60 {
        traffic.issue(IN_FLIGHT - traffic.pending());
        while pods.iter().map(|it| it.seen.calls()).sum::<usize>() < traffic.issued() {
            yield_briefly().await;
        }
        came_by.push(pods[0].seen.calls());
        let ended = traffic.ended();
        let mut due = 0;
        for (pod, answered) in pods.iter().zip(&mut answered) {
            let slow = std::ptr::eq(pod, &pods[0]);
            let now = match tick {
                0..10 if slow => 0,
                _ if slow => came_by[tick - 10],
                _ => pod.seen.calls(),
            };
            pod.seen.gate.add_permits(now - *answered);
            due += now - *answered;
            *answered = now;
        }
        traffic.reaches(ended + due).await;
    }
    let quick = answered[1..].iter().sum::<usize>() as f64 / 4.0;
    let share = answered[0] as f64 / quick;
    // The slow pod gets nothing in the first ten ticks, and a tenth in the rest.
    assert!((0.05..0.15).contains(&share), "{share}: {answered:?}");
    for pod in &pods {
        pod.seen.gate.add_permits(IN_FLIGHT);
    }
    traffic.settled().await;
    assert!(traffic.failures().is_empty());
    assert!(channel.endpoints().iter().all(|it| it.in_flight == 0));
}

#[tokio::test]
async fn peak_ewma_uses_measured_latencies() {
    let pods = Pod::start_many(3).await;
    let channel =
        KubeChannel::builder(Service::of(&pods).receiver()).policy(PeakEwma::default()).build().unwrap();
    let client = EchoClient::new(&channel);
    connected(&channel, 3).await;
    for _ in 0..60 {
        client.one("hello").await.unwrap();
    }
    let measured = channel.endpoints().into_iter().filter(|it| it.latency.as_nanos() != 1_000_000).count();
    assert!(measured >= 2, "{:?}", channel.endpoints());
}

/// However a call ends, it is no longer counted: answered, cancelled before the response, dropped
/// within the stream.
#[tokio::test]
async fn no_call_in_flight_leaks() {
    let pods = Pod::start_many(2).await;
    let channel = Service::of(&pods).channel();
    let client = EchoClient::new(&channel);
    connected(&channel, 2).await;
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
    assert_eq!(in_flight(&channel), 20, "a stream should count until its end");
    for pod in &pods {
        pod.seen.gate.add_permits(5);
    }
    // Some are read to the end, some are dropped.
    for (number, mut stream) in streams.into_iter().enumerate() {
        if number < 10 {
            assert!(stream.message().await.unwrap().is_some());
            assert!(stream.message().await.unwrap().is_none());
        }
    }
    assert_eq!(in_flight(&channel), 0);
}

/// The same for calls that fail: refused by the server, past the deadline, or lost with their pod;
/// and for bidirectional streams.
#[tokio::test]
async fn no_call_in_flight_leaks_when_calls_fail() {
    let mut pods = Pod::start_many(2).await;
    let channel = Service::of(&pods).channel();
    let client = EchoClient::new(&channel);
    connected(&channel, 2).await;
    let in_flight = |it: &KubeChannel| it.endpoints().iter().map(|it| it.in_flight).sum::<u32>();
    pods.iter().for_each(|it| it.seen.fail(5, Code::Internal));
    for _ in 0..10 {
        assert_eq!(client.one("hello").await.unwrap_err().code(), Code::Internal);
    }
    assert_eq!(in_flight(&channel), 0);
    for _ in 0..10 {
        let mut request = Request::new(message("wait", 0));
        request.set_timeout(Duration::from_millis(1));
        assert_eq!(client.ask(request).await.unwrap_err().code(), Code::DeadlineExceeded);
    }
    assert_eq!(in_flight(&channel), 0);
    let mut streams = Vec::new();
    for _ in 0..6 {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        sender.send(message("first", 0)).await.unwrap();
        let receiver = tokio_stream::wrappers::ReceiverStream::new(receiver);
        let mut answers = client.both(receiver).await.unwrap();
        assert!(answers.message().await.unwrap().is_some());
        streams.push((sender, answers));
    }
    assert_eq!(in_flight(&channel), 6);
    // One side ends, and the stream still counts; then the other side is dropped, or read to the
    // end.
    let (sender, answers) = streams.pop().unwrap();
    drop(sender);
    assert_eq!(in_flight(&channel), 6);
    drop(answers);
    let (sender, mut answers) = streams.pop().unwrap();
    drop(sender);
    assert!(answers.message().await.unwrap().is_none());
    assert_eq!(in_flight(&channel), 4);
    pods[0].kill().await;
    pods[1].kill().await;
    for (_sender, mut answers) in streams {
        assert_eq!(answers.message().await.unwrap_err().code(), Code::Unavailable);
    }
    until(&channel, |it| in_flight(it) == 0).await;
}
