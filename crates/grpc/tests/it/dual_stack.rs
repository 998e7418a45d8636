//! Dual-stack pods: one endpoint, one share, and the other address family if the first is dead.

use std::net::{Ipv6Addr, TcpListener};

use dogwatch_grpc::{KubeChannel, ResolverOptions};

use crate::cluster::Town;
use crate::echo::EchoClient;
use crate::manual_clock::{STEP, StillTime};
use crate::pods::{Pod, street, until};

/// Binds two IPv4 addresses and the IPv6 loopback address with one port. `None` for the latter if
/// the machine has no IPv6.
fn both_families() -> (Vec<TcpListener>, Option<TcpListener>) {
    let has_ipv6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    for _ in 0..100 {
        let houses = street(2);
        let port = houses[0].local_addr().unwrap().port();
        match TcpListener::bind((Ipv6Addr::LOCALHOST, port)) {
            Ok(sixth) => return (houses, Some(sixth)),
            Err(_) if !has_ipv6 => return (houses, None),
            Err(_) => {}
        }
    }
    panic!("no port is free in both families");
}

/// Writes the slices of a service with two pods, of which the first is dual-stack.
async fn list(town: &Town, port: u16) {
    let port = format!("grpc={port}");
    town.slice("echo", "echo-4", &[&port], &["127.0.0.1 a", "127.0.0.2 b"]).await;
    town.slice("echo", "echo-6", &[&port], &["::1 a"]).await;
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
    let clock = StillTime::begin();
    let (houses, sixth) = both_families();
    let mut houses = houses.into_iter();
    let (fourth, other) = (Pod::at(houses.next().unwrap()).await, Pod::at(houses.next().unwrap()).await);
    let town = Town::with(ResolverOptions::default().prefer_ipv6()).await;
    list(&town, fourth.address.port()).await;
    let builder = town.resolver.channel(&"kubernetes:///echo:grpc".parse().unwrap()).no_keep_alive();
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
        clock.pass(2 * STEP).await;
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
    let (houses, sixth) = both_families();
    drop(sixth);
    let mut houses = houses.into_iter();
    let (fourth, other) = (Pod::at(houses.next().unwrap()).await, Pod::at(houses.next().unwrap()).await);
    let town = Town::with(ResolverOptions::default().prefer_ipv6()).await;
    list(&town, fourth.address.port()).await;
    let channel = town.resolver.channel(&"kubernetes:///echo:grpc".parse().unwrap()).build().unwrap();
    channel.connected(2).await;
    assert_eq!(shares(&channel, &[&fourth, &other]).await, [10, 10]);
}
