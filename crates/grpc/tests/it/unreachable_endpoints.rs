//! Unreachable endpoints: a subset replaces them, and on a ring their keys wait or go to the next
//! one.

use std::net::{SocketAddr, TcpListener};

use dogwatch_grpc::{KubeChannel, RingHash};
use http::HeaderName;
use tonic::Request;

use crate::echo::{EchoClient, message};
use crate::manual_clock::{ManualClock, STEP, yield_briefly};
use crate::pods::{Pod, Service, black_hole, endpoint, endpoints, refused, until};

/// A node dies with all pods of a client's subset, while half of the service is alive.
#[tokio::test]
async fn unreachable_pods_of_a_subset_are_replaced() {
    let clock = ManualClock::begin();
    let pods = Pod::start_many(4).await;
    let dead: Vec<_> = (0..4).map(|_| refused()).collect();
    let service = Service::new();
    let mut all = endpoints(&pods);
    all.extend(dead.iter().map(|it| endpoint(&it.1.to_string(), it.1)));
    service.set(all);
    let channel = || KubeChannel::builder(service.receiver()).no_keep_alive().subset(1).build().unwrap();
    let channels: Vec<_> = (0..20).map(|_| channel()).collect();
    let connected = || channels.iter().all(|it| it.ready_endpoints() == 1);
    let took = clock.until(connected).await;
    assert!(took <= 60 * STEP, "after {took:?}");
    for channel in &channels {
        EchoClient::new(channel).one("hello").await.unwrap();
    }
    // Each has one connection, however many it has tried. On a busy machine the test's clock may
    // run ahead of a connection attempt that succeeds, which then is replaced for a moment.
    let connections: usize = pods.iter().map(|it| it.connections()).sum();
    assert!((20..=40).contains(&connections), "{connections}");
}

/// A member of the subset is back: its replacement leaves, so that clients stay spread.
#[tokio::test]
async fn a_replacement_leaves_when_the_original_member_is_back() {
    let clock = ManualClock::begin();
    let mut pods = Pod::start_many(2).await;
    let service = Service::of(&pods);
    let channel = KubeChannel::builder(service.receiver()).no_keep_alive().subset(1).build().unwrap();
    until(&channel, |it| it.ready_endpoints() == 1).await;
    let connected = |at: SocketAddr| {
        let channel = channel.clone();
        move || {
            let peers: Vec<_> = channel.endpoints().iter().filter_map(|it| it.peer).collect();
            channel.ready_endpoints() == 1 && peers == [at]
        }
    };
    let first = usize::from(!connected(pods[0].address)());
    let (own, other) = (pods[first].address, pods[1 - first].address);
    pods[first].kill().await;
    clock.until(connected(other)).await;
    EchoClient::new(&channel).one("hello").await.unwrap();
    let listener = TcpListener::bind(own).unwrap();
    let _back = Pod::at(listener).await;
    clock.until(connected(own)).await;
    EchoClient::new(&channel).one("hello").await.unwrap();
}

fn by_user() -> RingHash {
    RingHash::by_header(HeaderName::from_static("user"))
}

fn of_user(user: usize) -> Request<crate::echo::Message> {
    let mut request = Request::new(message("hello", 0));
    request.metadata_mut().insert("user", format!("user-{user}").parse().unwrap());
    request
}

/// A42: a key whose endpoint is connecting waits for it; here in vain, and then the next one on the
/// ring gets its calls.
#[tokio::test]
async fn ring_keys_wait_for_a_connecting_endpoint_and_then_go_to_the_next() {
    let clock = ManualClock::begin();
    let pods = Pod::start_many(2).await;
    let (_held, silent) = black_hole();
    let service = Service::new();
    let mut all = endpoints(&pods);
    all.push(endpoint("silent", silent));
    service.set(all);
    let channel = KubeChannel::builder(service.receiver()).no_keep_alive().policy(by_user()).build().unwrap();
    until(&channel, |it| it.ready_endpoints() == 2).await;
    let client = EchoClient::new(&channel);
    let call = |user: usize| {
        let client = client.clone();
        tokio::spawn(async move { client.ask(of_user(user)).await })
    };
    let calls: Vec<_> = (0..60).map(call).collect();
    let answered = || calls.iter().filter(|it| it.is_finished()).count();
    let seen = || pods.iter().map(|it| it.seen.calls()).sum::<usize>();
    // Keys of the two reachable pods are answered; the probability that 60 keys all belong to one
    // of three is negligible.
    for _ in 0..20_000 {
        if answered() > 20 && answered() == seen() {
            break;
        }
        yield_briefly().await;
    }
    for _ in 0..200 {
        yield_briefly().await;
    }
    let waiting = 60 - answered();
    assert!((3..40).contains(&waiting), "{waiting} of 60 wait for the silent endpoint");
    clock.until(|| answered() == 60).await;
    for call in calls {
        call.await.unwrap().unwrap();
    }
    // From now on no call waits for it.
    for user in 0..60 {
        client.ask(of_user(user)).await.unwrap();
    }
}

/// Keys whose owner is gone all go to the pod that would own them without it, and not to random
/// ones.
#[tokio::test]
async fn ring_keys_of_a_pod_that_is_gone_all_go_to_the_same_other_pod() {
    let _clock = ManualClock::begin();
    let pods = Pod::start_many(3).await;
    let service = Service::of(&pods);
    let channel = KubeChannel::builder(service.receiver()).no_keep_alive().policy(by_user()).build().unwrap();
    until(&channel, |it| it.ready_endpoints() == 3).await;
    let client = EchoClient::new(&channel);
    let before = pods[0].seen.calls();
    let mut user = 0;
    while pods[0].seen.calls() == before {
        user += 1;
        client.ask(of_user(user)).await.unwrap();
    }
    service.remove(&pods[0].address.to_string());
    until(&channel, |it| it.ready_endpoints() == 2).await;
    let before = pods[1].seen.calls();
    for _ in 0..20 {
        client.ask(of_user(user)).await.unwrap();
    }
    let gained = pods[1].seen.calls() - before;
    assert!(gained == 0 || gained == 20, "{gained} of 20");
}
