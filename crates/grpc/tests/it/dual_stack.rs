//! Dual-stack pods: one endpoint, one share, and the other address family if the first is dead.

use std::net::{Ipv6Addr, TcpListener};

use dogwatch_grpc::{KubeChannel, ResolverOptions};
use grpc_testkit::{addresses, listeners_on_one_port};

use crate::cluster::TestCluster;
use crate::echo::EchoClient;
use crate::manual_clock::{ManualClock, STEP};
use crate::pods::{Pod, until};

/// Binds two IPv4 addresses and the IPv6 loopback address with one port. `None` for the latter if
/// the machine has no IPv6.
fn both_families() -> (Vec<TcpListener>, Option<TcpListener>) {
    let has_ipv6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    for _ in 0..100 {
        let listeners = listeners_on_one_port(&addresses(2)).unwrap();
        let port = listeners[0].local_addr().unwrap().port();
        match TcpListener::bind((Ipv6Addr::LOCALHOST, port)) {
            Ok(sixth) => return (listeners, Some(sixth)),
            Err(_) if !has_ipv6 => return (listeners, None),
            Err(_) => {}
        }
    }
    panic!("no port is free in both families");
}

/// Writes the slices of a service with two pods, of which the first is dual-stack.
async fn list(cluster: &TestCluster, port: u16) {
    let port = format!("grpc={port}");
    cluster.slice("echo", "echo-4", &[&port], &["127.0.0.2 a", "127.0.0.3 b"]).await;
    cluster.slice("echo", "echo-6", &[&port], &["::1 a"]).await;
}

async fn shares(channel: &KubeChannel, pods: &[&Pod]) -> Vec<usize> {
    let before: Vec<_> = pods.iter().map(|it| it.seen.calls()).collect();
    for _ in 0..20 {
        EchoClient::new(channel).one("hello").await.unwrap();
    }
    pods.iter().zip(before).map(|(pod, before)| pod.seen.calls() - before).collect()
}

#[tokio::test]
async fn a_dual_stack_pod_has_one_share_and_falls_back_to_the_working_family() {
    let clock = ManualClock::begin();
    let (count, sixth) = both_families();
    let mut count = count.into_iter();
    let (fourth, other) = (Pod::at(count.next().unwrap()).await, Pod::at(count.next().unwrap()).await);
    let cluster = TestCluster::with(ResolverOptions::default().prefer_ipv6()).await;
    list(&cluster, fourth.address.port()).await;
    let builder = cluster.resolver.channel(&"kubernetes:///echo:grpc".parse().unwrap()).no_keep_alive();
    if let Some(sixth) = sixth {
        let mut sixth = Pod::at(sixth).await;
        let channel = builder.build().unwrap();
        channel.connected(2).await;
        assert_eq!(channel.endpoints().len(), 2, "a pod should be one endpoint");
        assert_eq!(shares(&channel, &[&sixth, &fourth, &other]).await, [10, 0, 10]);
        let gone = sixth.address;
        sixth.kill().await;
        until(&channel, |it| it.endpoints().iter().all(|it| it.peer != Some(gone))).await;
        // The connection was young, so the next attempt waits for about a second.
        clock.advance(2 * STEP).await;
        channel.connected(2).await;
        assert_eq!(shares(&channel, &[&sixth, &fourth, &other]).await, [0, 10, 10]);
    } else {
        // Without IPv6, that address is dead from the start.
        let channel = builder.build().unwrap();
        channel.connected(2).await;
        assert_eq!(shares(&channel, &[&fourth, &other]).await, [10, 10]);
    }
}

#[tokio::test]
async fn a_pod_with_a_dead_ipv6_address_is_called_at_the_other() {
    let (count, sixth) = both_families();
    drop(sixth);
    let mut count = count.into_iter();
    let (fourth, other) = (Pod::at(count.next().unwrap()).await, Pod::at(count.next().unwrap()).await);
    let cluster = TestCluster::with(ResolverOptions::default().prefer_ipv6()).await;
    list(&cluster, fourth.address.port()).await;
    let channel = cluster.resolver.channel(&"kubernetes:///echo:grpc".parse().unwrap()).build().unwrap();
    channel.connected(2).await;
    assert_eq!(shares(&channel, &[&fourth, &other]).await, [10, 10]);
}
