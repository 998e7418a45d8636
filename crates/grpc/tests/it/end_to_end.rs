//! End-to-end tests from a name to a call: slices on an API server, the resolver that follows them,
//! and the channel that calls the endpoints.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dogwatch_grpc::{KubeChannel, Target};
use tokio::runtime::Handle;
use tonic::Code;

use crate::cluster::TestCluster;
use crate::echo::EchoClient;
use crate::manual_clock::yield_briefly;
use crate::pods::{Pod, pods_on_one_port, until};
use crate::traffic::Traffic;

fn target() -> Target {
    "kubernetes:///echo:grpc".parse().expect("a target")
}

/// Writes a slice of pods with one port: each with its name and conditions there.
async fn list(cluster: &TestCluster, slice: &str, pods: &[(&Pod, &str)]) {
    let port = format!("grpc={}", pods[0].0.address.port());
    let listed: Vec<String> =
        pods.iter().map(|(pod, listed)| format!("{} {listed}", pod.address.ip())).collect();
    let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
    cluster.slice("echo", slice, &[&port], &listed).await;
}

/// Starts six pods in two slices of three.
async fn six_pods() -> (TestCluster, Vec<Pod>) {
    let (cluster, pods) = (TestCluster::start().await, pods_on_one_port(6).await);
    list(&cluster, "one", &[(&pods[0], "a"), (&pods[1], "b"), (&pods[2], "c")]).await;
    list(&cluster, "other", &[(&pods[3], "d"), (&pods[4], "e"), (&pods[5], "f")]).await;
    (cluster, pods)
}

fn calls(pods: &[Pod]) -> Vec<usize> {
    pods.iter().map(|it| it.seen.calls()).collect()
}

#[tokio::test]
async fn all_slices_of_a_service_are_called_evenly_and_with_its_authority() {
    let (cluster, pods) = six_pods().await;
    let channel = cluster.resolver.channel(&target()).build().unwrap();
    let client = EchoClient::new(&channel);
    channel.connected(6).await;
    for _ in 0..60 {
        client.one("hello").await.unwrap();
    }
    assert_eq!(calls(&pods), [10; 6]);
    assert_eq!(*pods[0].seen.authority.lock().unwrap(), "echo.default");
}

/// kuberesolver #66, during calls: an update of a slice, a pod that moves between slices, and a
/// deleted slice.
#[tokio::test]
async fn a_changed_or_deleted_slice_affects_only_its_own_pods() {
    let (cluster, pods) = six_pods().await;
    let [a, b, c, d, e, f] = &pods[..] else { panic!("expected six pods") };
    let channel = cluster.resolver.channel(&target()).build().unwrap();
    channel.connected(6).await;
    let traffic = Traffic::new(EchoClient::new(&channel), "hello");
    let flow = traffic.flow(500);
    traffic.more(30).await;
    list(&cluster, "other", &[(d, "d"), (e, "e"), (f, "f !")]).await;
    until(&channel, |it| it.ready_endpoints() == 5).await;
    traffic.settled().await;
    let before = calls(&pods);
    traffic.more(100).await;
    let gained: Vec<_> = calls(&pods).iter().zip(&before).map(|(now, before)| now - before).collect();
    assert!(gained[..5].iter().all(|it| *it >= 15) && gained[5] == 0, "{gained:?}");

    // It is in both for a moment, as with the controller: the same pod, the same connection.
    list(&cluster, "other", &[(d, "d"), (e, "e"), (f, "f"), (c, "c")]).await;
    list(&cluster, "one", &[(a, "a"), (b, "b")]).await;
    until(&channel, |it| it.ready_endpoints() == 6).await;
    traffic.more(60).await;
    cluster.delete_slice("one").await;
    until(&channel, |it| it.endpoints().len() == 4).await;
    traffic.settled().await;
    let before = calls(&pods);
    traffic.more(60).await;
    drop(flow);
    traffic.settled().await;
    assert_eq!(calls(&pods)[..2], before[..2], "pods of the deleted slice should get no calls");
    assert!(traffic.failures().is_empty(), "{:?}", traffic.failures());
    assert!(pods.iter().all(|it| it.connections() == 1));
}

/// Waits until a channel calls exactly these pods, makes calls, and checks which pods got them.
async fn only(channel: &KubeChannel, pods: &[&Pod], expected: &[&Pod]) {
    let addresses: BTreeSet<SocketAddr> = expected.iter().map(|it| it.address).collect();
    let called = |it: &KubeChannel| -> BTreeSet<SocketAddr> {
        it.endpoints().iter().filter(|it| it.endpoint.usable).filter_map(|it| it.peer).collect()
    };
    until(channel, |it| it.ready_endpoints() == addresses.len() && called(it) == addresses).await;
    let before: Vec<_> = pods.iter().map(|it| it.seen.calls()).collect();
    for _ in 0..4 * expected.len() {
        EchoClient::new(channel).one("hello").await.unwrap();
    }
    for (pod, before) in pods.iter().zip(before) {
        let gained = pod.seen.calls() - before;
        assert_eq!(gained, if addresses.contains(&pod.address) { 4 } else { 0 }, "{}", pod.address);
    }
}

/// The rules of kube-proxy, tested by the pods that are called.
#[tokio::test]
async fn conditions_of_pods_decide_which_are_called() {
    let (cluster, three) = (TestCluster::start().await, pods_on_one_port(3).await);
    let [a, b, c] = &three[..] else { panic!("expected three pods") };
    let elsewhere = Pod::start().await;
    let pods = [a, b, c, &elsewhere];
    let channel = cluster.resolver.channel(&target()).build().unwrap();
    // An absent condition means ready, a pod that is not ready is not called, and a published one
    // is ready in any case.
    list(&cluster, "one", &[(a, "a ?"), (b, "b !"), (c, "c published")]).await;
    only(&channel, &pods, &[a, c]).await;
    // A pod that serves while terminating is called only if none is ready anywhere.
    list(&cluster, "one", &[(a, "a !"), (b, "b ~"), (c, "c x")]).await;
    only(&channel, &pods, &[b]).await;
    list(&cluster, "one", &[(a, "a"), (b, "b ~"), (c, "c x")]).await;
    only(&channel, &pods, &[a]).await;
    // Another port in another slice; the placeholder of a service without pods; a slice without the
    // requested port.
    list(&cluster, "two", &[(&elsewhere, "z")]).await;
    cluster.slice("echo", "placeholder", &[], &[]).await;
    let other = format!("other={}", b.address.port());
    cluster.slice("echo", "portless", &[&other], &[&format!("{} y", b.address.ip())]).await;
    only(&channel, &pods, &[a, &elsewhere]).await;
    cluster.delete_slice("two").await;
    cluster.delete_slice("portless").await;
    // An address that moved from one pod to another: it belongs to the living one.
    list(&cluster, "one", &[(a, "a x")]).await;
    list(&cluster, "three", &[(a, "new")]).await;
    only(&channel, &pods, &[a]).await;
    until(&channel, |it| it.endpoints().iter().all(|it| it.endpoint.id.as_str() == "new")).await;
}

#[tokio::test]
async fn a_call_without_endpoints_has_the_reason_and_works_once_there_is_one() {
    let cluster = TestCluster::start().await;
    // Before the server has answered, a call would report that instead.
    let mut watch = cluster.resolver.watch(&target());
    crate::cluster::until(&mut watch, "(there is no such service)").await;
    let builder = cluster.resolver.channel(&target()).ready_timeout(Duration::from_millis(200));
    let channel = builder.build().unwrap();
    let client = EchoClient::new(&channel);
    let refused = client.one("hello").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("there is no such service"), "{refused}");
    let pod = Pod::start().await;
    list(&cluster, "one", &[(&pod, "a")]).await;
    channel.connected(1).await;
    client.one("hello").await.unwrap();
}

#[tokio::test]
async fn channels_of_a_service_share_one_watch_which_ends_with_the_last() {
    let (cluster, _pods) = six_pods().await;
    let alive = || Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let first = cluster.resolver.channel(&target()).build().unwrap();
    let second = cluster.resolver.channel(&"kubernetes:///echo:9".parse().unwrap()).build().unwrap();
    let third = cluster.resolver.channel(&target()).build().unwrap();
    first.connected(6).await;
    assert_eq!(cluster.requests("watch", "endpointslices"), 1);
    drop((second, third));
    let clone = first.clone();
    drop(first);
    EchoClient::new(&clone).one("hello").await.unwrap();
    drop(clone);
    // The informers, the balancer and every connection's task.
    while alive() > before {
        yield_briefly().await;
    }
    cluster.server.faults().cut_watches();
    for _ in 0..50 {
        yield_briefly().await;
    }
    assert_eq!(cluster.requests("watch", "endpointslices"), 1, "the watch should have ended");
}

/// The function was what kept the watch of the endpoints alive: a caller that set its own ended the
/// discovery, and the channel kept its first endpoints for ever.
#[tokio::test]
async fn a_channel_with_its_own_resolving_function_still_follows_its_endpoints() {
    let (cluster, pods) = (TestCluster::start().await, pods_on_one_port(2).await);
    list(&cluster, "one", &[(&pods[0], "a")]).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let resolving = move || {
        counter.fetch_add(1, Ordering::Relaxed);
    };
    let builder = cluster.resolver.channel(&target()).resolving(resolving);
    let channel = builder.holding("one value").holding("another").build().unwrap();
    channel.connected(1).await;
    list(&cluster, "one", &[(&pods[0], "a"), (&pods[1], "b")]).await;
    until(&channel, |it| it.ready_endpoints() == 2).await;
    let before = asked.load(Ordering::Relaxed);
    channel.resolve_now();
    assert_eq!(asked.load(Ordering::Relaxed), before + 1);
}
