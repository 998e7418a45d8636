//! From a name to a call: slices on an API server, the resolver that follows them, the channel that calls what they name.

use std::sync::atomic::Ordering;
use std::time::Duration;

use dogwatch_grpc::Target;
use tonic::Code;

use crate::echo::EchoClient;
use crate::pods::{Pod, until};
use crate::town::Town;

fn target() -> Target {
    "kubernetes:///echo:grpc".parse().expect("a target")
}

/// Writes the slice of one pod: pods of this test have ports of their own.
async fn list(town: &Town, slice: &str, pod: &Pod, name: &str) {
    let (ip, port) = (pod.address.ip(), pod.address.port());
    town.slice("echo", slice, &[&format!("grpc={port}")], &[&format!("{ip} {name}")]).await;
}

async fn six() -> (Town, Vec<Pod>) {
    let (town, pods) = (Town::start().await, Pod::start_many(6).await);
    for (index, pod) in pods.iter().enumerate() {
        list(&town, &format!("echo-{index}"), pod, &format!("pod-{index}")).await;
    }
    (town, pods)
}

#[tokio::test]
async fn all_slices_of_a_service_are_called_alike_and_under_its_name() {
    let (town, pods) = six().await;
    let channel = town.resolver.channel(&target()).build().unwrap();
    let client = EchoClient::new(&channel);
    channel.connected(6).await;
    for _ in 0..60 {
        client.one("hello").await.unwrap();
    }
    let calls: Vec<usize> = pods.iter().map(|it| it.seen.calls()).collect();
    assert_eq!(calls, [10; 6]);
    assert_eq!(*pods[0].seen.authority.lock().unwrap(), "echo.default");
}

#[tokio::test]
async fn a_slice_that_changes_or_goes_touches_only_its_own_pods() {
    let (town, pods) = six().await;
    let channel = town.resolver.channel(&target()).build().unwrap();
    let client = EchoClient::new(&channel);
    channel.connected(6).await;
    town.delete_slice("echo-0").await;
    until(&channel, |it| it.endpoints().len() == 5).await;
    // The pod of one slice moves to another: the same pod, the same connection.
    list(&town, "elsewhere", &pods[1], "pod-1").await;
    town.delete_slice("echo-1").await;
    for _ in 0..50 {
        client.one("hello").await.unwrap();
    }
    assert_eq!(pods[0].seen.calls(), 0);
    assert!(pods.iter().all(|it| it.seen.connections.load(Ordering::SeqCst) == 1));
    assert_eq!(channel.ready_endpoints(), 5);
}

#[tokio::test]
async fn a_call_to_nobody_says_why_and_works_once_somebody_is_there() {
    let town = Town::start().await;
    let builder = town.resolver.channel(&target()).ready_timeout(Duration::from_millis(50));
    let client = EchoClient::new(&builder.build().unwrap());
    let refused = client.one("hello").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("there is no such service"), "{refused}");
    let pod = Pod::start().await;
    list(&town, "echo-0", &pod, "pod-0").await;
    let working = async {
        while client.one("hello").await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), working).await.expect("it works in the end");
}

#[tokio::test]
async fn channels_of_a_namespace_share_one_watch() {
    let (town, _pods) = six().await;
    let first = town.resolver.channel(&target()).build().unwrap();
    let second = town.resolver.channel(&"kubernetes:///other".parse().unwrap()).build().unwrap();
    first.connected(6).await;
    assert_eq!(town.requests("watch", "endpointslices"), 1);
    drop(second);
}
