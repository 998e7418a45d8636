//! Callers, connections and the balancer on several threads, as in production: pods die, leave and
//! reach their limits, and every call is accounted for.

use dogwatch_grpc::{KubeChannel, LeastRequest, Policy, Retry, WaitForReady};
use tonic::{Code, Request};

use crate::echo::{EchoClient, message};
use crate::manual_clock::in_time;
use crate::pods::{Pod, Service, connected, endpoint, refused, until};
use crate::traffic::Traffic;

fn in_flight(channel: &KubeChannel) -> u32 {
    channel.endpoints().iter().map(|it| it.in_flight).sum()
}

/// Returns how often a call was started, over all pods.
fn begun(pods: &[Pod], text: &str) -> usize {
    pods.iter().map(|it| it.seen.begun(text)).sum()
}

/// Without a policy no call is executed twice, and failed calls belonged to the killed pod.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_killed_pods_fail_only_their_own_calls_and_no_call_is_executed_twice() {
    for policy in [Policy::RoundRobin, LeastRequest::default().into()] {
        let mut pods = Pod::start_many(5).await;
        let channel = KubeChannel::builder(Service::of(&pods).receiver()).policy(policy).build().unwrap();
        connected(&channel, 5).await;
        let traffic = Traffic::new(EchoClient::new(&channel), "hello");
        let mut dead = Vec::new();
        for victim in pods.iter_mut().take(3) {
            let flow = traffic.flow(4_000);
            traffic.more(300).await;
            dead.push(victim.address.to_string());
            victim.kill().await;
            traffic.more(300).await;
            drop(flow);
            traffic.settled().await;
        }
        for outcome in traffic.outcomes() {
            let count = begun(&pods, &outcome.text);
            match outcome.failure {
                None => assert_eq!(count, 1, "{}", outcome.text),
                Some(status) => {
                    assert!(count <= 1, "{}: {count}", outcome.text);
                    assert!(dead.iter().any(|it| status.message().contains(it)), "{status:?}");
                }
            }
        }
        until(&channel, |it| in_flight(it) == 0 && it.ready_endpoints() == 2).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_replaced_pods_fail_no_call() {
    let mut pods = Pod::start_many(3).await;
    let service = Service::of(&pods);
    let builder = KubeChannel::builder(service.receiver());
    let channel = builder.retry(Retry::default()).build().unwrap();
    connected(&channel, 3).await;
    let traffic = Traffic::new(EchoClient::new(&channel), "hello");
    let flow = traffic.flow(2_000);
    for number in 0..6 {
        let next = Pod::start().await;
        service.add(endpoint(&next.address.to_string(), next.address));
        let newest = next.address;
        pods.push(next);
        until(&channel, |it| it.endpoints().iter().any(|it| it.peer == Some(newest))).await;
        let leaving = pods[number].address.to_string();
        service.terminating(&leaving);
        traffic.more(100).await;
        pods[number].terminate();
        traffic.more(100).await;
        service.remove(&leaving);
        until(&channel, |it| it.endpoints().iter().all(|it| it.endpoint.id.as_str() != leaving)).await;
    }
    drop(flow);
    traffic.settled().await;
    assert!(traffic.failures().is_empty(), "{:?}", traffic.failures());
    until(&channel, |it| in_flight(it) == 0).await;
}

/// Calls queued behind a pod's stream limit, callers that give up, and streams that are dropped
/// half-way.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_no_call_in_flight_leaks_with_full_pods_and_impatient_callers() {
    let pod_with_stream_limit = || Pod::with(|it| it.max_concurrent_streams(4), |it| it);
    let pods = [pod_with_stream_limit().await, pod_with_stream_limit().await];
    let channel = Service::of(&pods).channel();
    connected(&channel, 2).await;
    let tasks: Vec<_> = (0..64)
        .map(|number| {
            let client = EchoClient::new(&channel);
            tokio::spawn(async move {
                for round in 0..30 {
                    match (number + round) % 4 {
                        0 => drop(client.one("hello").await.unwrap()),
                        1 => {
                            let mut stream = client.many(&"x".repeat(20_000), 20).await.unwrap();
                            assert!(stream.message().await.unwrap().is_some());
                        }
                        2 => {
                            let giving_up = std::time::Duration::from_micros(200 * round);
                            let _ = tokio::time::timeout(giving_up, client.one("hello")).await;
                        }
                        _ => {
                            let mut stream = client.many("hello", 10).await.unwrap();
                            for count in 0..10 {
                                assert_eq!(stream.message().await.unwrap().unwrap().count, count);
                            }
                            assert_eq!(stream.message().await.unwrap(), None);
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    until(&channel, |it| in_flight(it) == 0).await;
    assert!(channel.endpoints().iter().all(|it| it.failures == 0), "{:?}", channel.endpoints());
}

/// A channel in a static of a test binary, or in a program that starts a runtime for each job: the
/// tasks of a channel end with the runtime that it was built on, and its calls would hang forever.
#[tokio::test]
async fn calls_of_a_channel_whose_runtime_has_ended_fail_at_once() {
    let pods = Pod::start_many(2).await;
    let service = Service::of(&pods);
    let receiver = service.receiver();
    let other = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let channel = runtime.block_on(async {
            let channel = KubeChannel::from_endpoints(receiver);
            channel.connected(2).await;
            EchoClient::new(&channel).one("hello").await.unwrap();
            channel
        });
        runtime.shutdown_background();
        channel
    });
    let channel = tokio::task::spawn_blocking(|| other.join().unwrap()).await.unwrap();
    let client = EchoClient::new(&channel);
    let mut patient = Request::new(message("hello", 0));
    patient.extensions_mut().insert(WaitForReady);
    for request in [Request::new(message("hello", 0)), patient] {
        let call = in_time(client.ask(request), || format!("{:#?}", channel.endpoints()));
        let status = call.await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("runtime"), "{status}");
    }
}

/// A runtime that shuts down drops tasks that were never polled.
#[tokio::test]
async fn a_channel_whose_runtime_ended_before_its_first_poll_has_stopped() {
    let service = Service::of(&Pod::start_many(1).await);
    let receiver = service.receiver();
    let other = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { KubeChannel::from_endpoints(receiver) })
    });
    let channel = tokio::task::spawn_blocking(|| other.join().unwrap()).await.unwrap();
    let mut patient = Request::new(message("hello", 0));
    patient.extensions_mut().insert(WaitForReady);
    let client = EchoClient::new(&channel);
    let call = in_time(client.ask(patient), || format!("{:#?}", channel.endpoints()));
    assert_eq!(call.await.unwrap_err().code(), Code::Unavailable);
    assert!(!in_time(channel.connected(1), || "the channel should have stopped".to_owned()).await);
}

/// The resolve callback is user code, and runs in the balancer's task.
#[tokio::test]
async fn a_panic_of_the_resolve_callback_does_not_end_the_channel() {
    let (_held, dead) = refused();
    let (pods, service) = (Pod::start_many(1).await, Service::new());
    service.set(vec![endpoint("dead", dead)]);
    let (asked, asks) = std::sync::mpsc::channel();
    let builder = KubeChannel::builder(service.receiver()).resolving(move || {
        let _ = asked.send(());
        panic!("a panic in user code");
    });
    let channel = builder.build().unwrap();
    in_time(
        async {
            while asks.try_recv().is_err() {
                tokio::task::yield_now().await
            }
        },
        String::new,
    )
    .await;
    service.set(vec![endpoint("alive", pods[0].address)]);
    in_time(EchoClient::new(&channel).one("hello"), || format!("{:#?}", channel.endpoints())).await.unwrap();
}
