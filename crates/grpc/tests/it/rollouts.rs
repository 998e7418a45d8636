//! Rollouts during calls: no call fails.

use std::net::SocketAddr;
use std::time::Duration;

use dogwatch_grpc::{ConnectionState, KubeChannel};
use grpc_testkit::{addresses, listeners_on_one_port};
use tonic::Code;

use crate::cluster::TestCluster;
use crate::echo::EchoClient;
use crate::manual_clock::{ManualClock, STEP};
use crate::pods::{Pod, Service, connected, endpoint, until};
use crate::traffic::Traffic;

/// The number of calls per second during the rollout; on a machine that is too slow, as many as
/// possible.
const RATE: usize = 1_000;

/// A deployment of ten pods, listed in two slices of one service: their addresses and conditions.
struct Deployment {
    cluster: TestCluster,
    port: String,
    listed: Vec<(SocketAddr, &'static str)>,
}

impl Deployment {
    /// Writes the current state: every other pod in one slice, the rest in the other.
    async fn list(&self) {
        for slice in 0..2 {
            let here = self.listed.iter().enumerate().filter(|(index, _)| index % 2 == slice);
            let listed = here.map(|(_, (at, state))| format!("{} pod-{} {state}", at.ip(), at.ip()));
            let listed: Vec<String> = listed.map(|it| it.trim_end().to_owned()).collect();
            let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
            self.cluster.slice("echo", &format!("echo-{slice}"), &[&self.port], &listed).await;
        }
    }

    async fn say(&mut self, pod: SocketAddr, state: &'static str) {
        self.listed.iter_mut().filter(|it| it.0 == pod).for_each(|it| it.1 = state);
        self.list().await;
    }
}

/// Replaces ten pods one by one while calls are sent at a rate, whatever the outcome of earlier
/// ones.
async fn roll(terminating_first: bool) {
    let mut listeners = listeners_on_one_port(&addresses(20)).unwrap().into_iter();
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for listener in listeners.by_ref().take(10) {
        old.push(Pod::at(listener).await);
    }
    let port = format!("grpc={}", old[0].address.port());
    let listed = old.iter().map(|it| (it.address, "")).collect();
    let mut deployment = Deployment { cluster: TestCluster::start().await, port, listed };
    deployment.list().await;
    let channel = deployment.cluster.resolver.channel(&"kubernetes:///echo:grpc".parse().unwrap());
    let channel = channel.build().unwrap();
    connected(&channel, 10).await;
    let traffic = Traffic::new(EchoClient::new(&channel), "hello");
    let flow = traffic.flow(RATE);
    traffic.more(100).await;
    for (pod, listener) in old.iter_mut().zip(listeners) {
        let next = Pod::at(listener).await;
        deployment.listed.push((next.address, ""));
        deployment.list().await;
        if terminating_first {
            deployment.say(pod.address, "~").await;
            traffic.more(40).await;
            pod.terminate();
        } else {
            pod.terminate();
            traffic.more(40).await;
            deployment.say(pod.address, "~").await;
        }
        traffic.more(40).await;
        deployment.listed.retain(|it| it.0 != pod.address);
        deployment.list().await;
        new.push(next);
    }
    let replaced = |it: &KubeChannel| {
        let known = |pod: &Pod| it.endpoints().iter().any(|it| it.peer == Some(pod.address));
        it.ready_endpoints() == 10 && it.endpoints().len() == 10 && new.iter().all(known)
    };
    until(&channel, replaced).await;
    traffic.more(200).await;
    drop(flow);
    traffic.settled().await;
    let failures = traffic.failures();
    assert!(failures.is_empty(), "{} of {}: {:?}", failures.len(), traffic.ended(), failures[0]);
    assert!(traffic.ended() >= 1_100);
    assert!(new.iter().all(|it| it.seen.calls() > 0));
    assert!(channel.endpoints().iter().all(|it| it.failures == 0 && it.in_flight == 0));
    let total: usize = old.iter().chain(&new).map(|it| it.seen.calls()).sum();
    assert_eq!(total, traffic.ended(), "every call should be executed once");
}

#[tokio::test]
async fn a_rollout_that_announces_each_pod_fails_no_call() {
    roll(true).await;
}

/// The kubelet stops a pod at about the same time as the endpoints change; often the pod is faster.
#[tokio::test]
async fn a_rollout_in_which_pods_stop_before_the_endpoints_change_fails_no_call() {
    roll(false).await;
}

/// A stream of thirty seconds with one message per second. Its pod is terminating from the start,
/// gets SIGTERM after five seconds, and is removed from the set after ten.
#[tokio::test]
async fn a_long_stream_on_a_terminating_pod_completes() {
    let clock = ManualClock::begin();
    let mut pods = Pod::start_many(2).await;
    let service = Service::of(&pods[..1]);
    let channel = service.channel();
    let client = EchoClient::new(&channel);
    let mut stream = client.many("wait", 31).await.unwrap();
    assert_eq!(stream.message().await.unwrap().unwrap().count, 0);
    let leaving = pods[0].address.to_string();
    service.add(endpoint(&pods[1].address.to_string(), pods[1].address));
    service.terminating(&leaving);
    until(&channel, |it| it.endpoints().iter().any(|it| it.state == ConnectionState::Draining)).await;
    connected(&channel, 1).await;
    for second in 1..31 {
        clock.advance(STEP).await;
        match second {
            5 => pods[0].terminate(),
            10 => service.remove(&leaving),
            _ => {}
        }
        pods[0].seen.gate.add_permits(1);
        assert_eq!(stream.message().await.unwrap().unwrap().count, second);
        client.one("hello").await.unwrap();
    }
    assert_eq!(stream.message().await.unwrap(), None);
    assert_eq!((pods[0].seen.calls(), pods[1].seen.calls()), (1, 30), "new calls go elsewhere");
    until(&channel, |it| it.endpoints().len() == 1).await;
}

#[tokio::test]
async fn a_stream_on_a_terminating_pod_completes_while_new_calls_go_elsewhere() {
    let pods = Pod::start_many(2).await;
    let service = Service::of(&pods[..1]);
    let channel = service.channel();
    let client = EchoClient::new(&channel);
    let mut stream = client.many("wait", 10).await.unwrap();
    assert_eq!(stream.message().await.unwrap().unwrap().count, 0);
    let leaving = pods[0].address.to_string();
    service.add(endpoint(&pods[1].address.to_string(), pods[1].address));
    service.terminating(&leaving);
    until(&channel, |it| {
        it.ready_endpoints() == 1 && it.endpoints().iter().any(|it| it.state == ConnectionState::Draining)
    })
    .await;
    for _ in 0..10 {
        client.one("hello").await.unwrap();
    }
    assert_eq!((pods[0].seen.calls(), pods[1].seen.calls()), (1, 10));
    service.remove(&leaving);
    pods[0].seen.gate.add_permits(9);
    for count in 1..10 {
        assert_eq!(stream.message().await.unwrap().unwrap().count, count);
    }
    assert_eq!(stream.message().await.unwrap(), None);
    // Nothing holds it any more, and its connection is closed.
    until(&channel, |it| it.endpoints().len() == 1).await;
}

#[tokio::test]
async fn a_removed_pod_that_does_not_finish_is_cut_off_at_the_deadline() {
    let pods = Pod::start_many(1).await;
    let service = Service::of(&pods);
    let channel = KubeChannel::builder(service.receiver()).drain(Duration::from_millis(20)).build().unwrap();
    let mut stream = EchoClient::new(&channel).many("wait", 10).await.unwrap();
    assert!(stream.message().await.unwrap().is_some());
    service.set(Vec::new());
    let status = stream.message().await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert_eq!(status.metadata().get("dogwatch-endpoint").unwrap(), pods[0].address.to_string().as_str());
    until(&channel, |it| it.endpoints().is_empty()).await;
}

/// A Service whose selector changes removes healthy pods: their streams continue. A terminating pod
/// is cut off after a while.
#[tokio::test]
async fn by_default_only_removed_pods_that_were_terminating_are_cut_off() {
    let clock = ManualClock::begin();
    let pods = Pod::start_many(2).await;
    let service = Service::of(&pods);
    let channel = KubeChannel::builder(service.receiver()).no_keep_alive().build().unwrap();
    connected(&channel, 2).await;
    let client = EchoClient::new(&channel);
    let (mut one, mut other) =
        (client.many("wait", 10).await.unwrap(), client.many("wait", 10).await.unwrap());
    assert!(one.message().await.unwrap().is_some() && other.message().await.unwrap().is_some());
    let ids = pods.iter().map(|it| it.address.to_string()).collect::<Vec<_>>();
    service.terminating(&ids[0]);
    until(&channel, |it| it.endpoints().iter().any(|it| it.state == ConnectionState::Draining)).await;
    service.set(Vec::new());
    until(&channel, |it| it.endpoints().iter().all(|it| it.state == ConnectionState::Draining)).await;
    clock.advance(29 * STEP).await;
    assert_eq!(channel.endpoints().len(), 2);
    clock.advance(3_600 * STEP).await;
    until(&channel, |it| it.endpoints().len() == 1).await;
    assert_eq!(channel.endpoints()[0].endpoint.id.as_str(), ids[1]);
    pods.iter().for_each(|it| it.seen.gate.add_permits(20));
    let ends = [&mut one, &mut other];
    let mut cut = 0;
    for stream in ends {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(status) => {
                    assert_eq!(status.metadata().get("dogwatch-endpoint").unwrap(), ids[0].as_str());
                    cut += 1;
                    break;
                }
            }
        }
    }
    assert_eq!(cut, 1);
}

/// Flapping readiness is no reason to reconnect.
#[tokio::test]
async fn a_pod_that_is_briefly_unready_keeps_its_connection() {
    let pods = Pod::start_many(2).await;
    let service = Service::of(&pods);
    let channel = service.channel();
    let client = EchoClient::new(&channel);
    connected(&channel, 2).await;
    let id = pods[0].address.to_string();
    service.modify(&id, |it| (it.usable, it.ready) = (false, false));
    until(&channel, |it| it.ready_endpoints() == 1).await;
    for _ in 0..10 {
        client.one("hello").await.unwrap();
    }
    assert_eq!(pods[0].seen.calls(), 0);
    service.modify(&id, |it| (it.usable, it.ready) = (true, true));
    connected(&channel, 2).await;
    for _ in 0..10 {
        client.one("hello").await.unwrap();
    }
    assert_eq!((pods[0].seen.calls(), pods[0].connections()), (5, 1));
}
