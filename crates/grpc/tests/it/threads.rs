//! Callers, connections and the balancer on several threads, as in production: pods die, leave and are full, and every call is accounted for.

use dogwatch_grpc::{KubeChannel, LeastRequest, Policy, Retry};

use crate::echo::EchoClient;
use crate::pods::{Pod, Service, connected, endpoint, until};
use crate::traffic::Traffic;

fn in_flight(channel: &KubeChannel) -> u32 {
    channel.endpoints().iter().map(|it| it.in_flight).sum()
}

/// How often a call was begun, over all pods.
fn begun(pods: &[Pod], text: &str) -> usize {
    pods.iter().map(|it| it.seen.begun(text)).sum()
}

/// Without a policy nothing is carried out twice, and what fails was with the pod that died.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_pods_that_are_killed_cost_only_their_own_calls_and_nothing_is_carried_out_twice() {
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
        for fate in traffic.fates() {
            let count = begun(&pods, &fate.text);
            match fate.failure {
                None => assert_eq!(count, 1, "{}", fate.text),
                Some(status) => {
                    assert!(count <= 1, "{}: {count}", fate.text);
                    assert!(dead.iter().any(|it| status.message().contains(it)), "{status:?}");
                }
            }
        }
        until(&channel, |it| in_flight(it) == 0 && it.ready_endpoints() == 2).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_pods_that_are_replaced_cost_no_call() {
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

/// Calls in line behind a pod's limit of streams, callers that give up, and streams that are dropped half-way.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_nothing_in_flight_is_lost_where_pods_are_full_and_callers_give_up() {
    let narrow = || Pod::with(|it| it.max_concurrent_streams(4), |it| it);
    let pods = [narrow().await, narrow().await];
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
