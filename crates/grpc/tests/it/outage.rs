//! Calls while the API server is down, forbids access, has compacted its history or is slow: they
//! use the last known endpoints.

use std::time::Duration;

use dogwatch_apiserver::faults::{Rule, RuleHandle};
use dogwatch_grpc::Target;
use tonic::Code;

use crate::cluster::TestCluster;
use crate::echo::EchoClient;
use crate::manual_clock::{ManualClock, STEP};
use crate::pods::{Pod, pods_on_one_port, until};
use crate::traffic::Traffic;

const MINUTE: Duration = Duration::from_secs(60);

fn target() -> Target {
    "kubernetes:///echo:grpc".parse().expect("a target")
}

async fn list(cluster: &TestCluster, pods: &[&Pod]) {
    let port = format!("grpc={}", pods[0].address.port());
    let listed: Vec<String> = pods.iter().map(|it| format!("{0} pod-{0}", it.address.ip())).collect();
    let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
    cluster.slice("echo", "echo", &[&port], &listed).await;
}

/// Injects a fault, replaces a pod meanwhile, and calls for a minute: every call goes to the
/// endpoints that were known before. The problem is visible, if there is one; and after the fault,
/// missed changes are applied.
async fn call_during(make: impl FnOnce(&TestCluster) -> RuleHandle, problem: Option<&str>) {
    let clock = ManualClock::begin();
    let (cluster, pods) = (TestCluster::start().await, pods_on_one_port(3).await);
    list(&cluster, &[&pods[0], &pods[1]]).await;
    let channel = cluster.resolver.channel(&target()).no_keep_alive().build().unwrap();
    let watch = cluster.resolver.watch(&target());
    channel.connected(2).await;
    assert_eq!(watch.problem(), None);
    let fault = make(&cluster);
    list(&cluster, &[&pods[1], &pods[2]]).await;
    let traffic = Traffic::new(EchoClient::new(&channel), "hello");
    let mut seen = Vec::new();
    for _ in 0..60 {
        traffic.issue(2);
        traffic.settled().await;
        clock.advance(STEP).await;
        seen.extend(watch.problem());
    }
    assert!(fault.fired() > 0, "the fault should have fired");
    assert!(traffic.failures().is_empty(), "{:?}", traffic.failures());
    let calls: Vec<_> = pods.iter().map(|it| it.seen.calls()).collect();
    assert_eq!(calls, [60, 60, 0], "calls should go to the last known endpoints");
    match problem {
        Some(problem) => assert!(seen.last().is_some_and(|it| it.contains(problem)), "{:?}", seen.last()),
        None => assert!(seen.is_empty(), "{seen:?}"),
    }
    fault.remove();
    let newest = |it: &dogwatch_grpc::KubeChannel| {
        it.ready_endpoints() == 2 && it.endpoints().iter().any(|it| it.peer == Some(pods[2].address))
    };
    clock.until(|| newest(&channel)).await;
    until(&channel, |it| it.endpoints().len() == 2).await;
    traffic.issue(20);
    traffic.settled().await;
    assert!(traffic.failures().is_empty());
    assert_eq!((pods[0].seen.calls(), pods[2].seen.calls()), (60, 10));
    clock.advance(MINUTE).await;
    assert_eq!(watch.problem(), None);
}

#[tokio::test]
async fn calls_continue_for_a_minute_without_the_api_server() {
    let down = |cluster: &TestCluster| {
        let rule = cluster.server.faults().rule(Rule::on("list").or("watch").reset_before());
        cluster.server.faults().cut_watches();
        rule
    };
    call_during(down, Some("API server")).await;
}

#[tokio::test]
async fn calls_continue_when_reading_becomes_forbidden() {
    let forbidden = |cluster: &TestCluster| {
        let refusal = Rule::on("list").or("watch").refuse(403).message("no longer allowed");
        let rule = cluster.server.faults().rule(refusal);
        cluster.server.faults().cut_watches();
        rule
    };
    call_during(forbidden, Some("no longer allowed")).await;
}

/// The server has compacted the requested version, and takes longer than a minute to list again.
#[tokio::test]
async fn calls_continue_while_an_expired_history_is_listed_again_slowly() {
    let slow = |cluster: &TestCluster| {
        let slow = Rule::on("list").or("watch").delay(Duration::from_secs(90));
        let rule = cluster.server.faults().rule(slow);
        cluster.server.expire_history();
        rule
    };
    call_during(slow, None).await;
}

/// If no endpoints were ever known, calls report why.
#[tokio::test]
async fn calls_report_why_endpoints_were_never_known() {
    for (rule, expected) in [
        (Rule::on("list").or("watch").reset_before(), "its endpoints could not be read yet"),
        (Rule::on("list").or("watch").refuse(403).message("not you"), "its endpoints may not be read"),
    ] {
        let (cluster, pods) = (TestCluster::start().await, pods_on_one_port(1).await);
        list(&cluster, &[&pods[0]]).await;
        let rule = cluster.server.faults().rule(rule);
        let builder = cluster.resolver.channel(&target()).ready_timeout(Duration::ZERO);
        let channel = builder.build().unwrap();
        cluster.resolver.watch(&target()).known().await;
        let client = EchoClient::new(&channel);
        let mut status = client.one("hello").await.unwrap_err();
        while !status.message().contains(expected) {
            status = client.one("hello").await.unwrap_err();
            tokio::task::yield_now().await;
        }
        assert_eq!(status.code(), Code::Unavailable);
        rule.remove();
        channel.connected(1).await;
        client.one("hello").await.unwrap();
    }
}
