//! Channels without a cluster: by address, by DNS, and by the same function that takes the name of
//! a service.

use std::time::Duration;

use dogwatch_grpc::{DialError, KubeChannel, Policy};

use crate::echo::EchoClient;
use crate::pods::{Pod, until};

async fn assert_call_succeeds(channel: &KubeChannel) {
    let client = EchoClient::new(channel);
    let call = tokio::time::timeout(Duration::from_secs(60), client.one("hello"));
    call.await.expect("a response within a minute").expect("a success");
}

#[tokio::test]
async fn addresses_are_called_without_a_cluster() {
    let pods = Pod::start_many(2).await;
    let channel = KubeChannel::to(pods.iter().map(|it| it.address)).unwrap().build().unwrap();
    until(&channel, |it| it.ready_endpoints() == 2).await;
    for _ in 0..10 {
        assert_call_succeeds(&channel).await;
    }
    assert!(pods.iter().all(|it| it.seen.calls() == 5), "calls should go to each in turn");
    let text = pods[0].address.to_string();
    assert_call_succeeds(&KubeChannel::to([text.as_str()]).unwrap().build().unwrap()).await;
    let wrong = KubeChannel::to(["greeter:80"]).unwrap_err();
    assert!(wrong.to_string().contains("is not an address with a port"), "{wrong}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_function_takes_addresses_hosts_and_services() {
    let pod = Pod::start().await;
    let (address, port) = (pod.address, pod.address.port());
    for target in [
        address.to_string(),
        format!("static:///{address}"),
        format!("dns:///{address}"),
        format!("dns:///localhost:{port}"),
        format!("localhost:{port}"),
    ] {
        let channel =
            dogwatch_grpc::channel(&target).await.unwrap_or_else(|error| panic!("{target}: {error}"));
        assert_call_succeeds(&channel).await;
    }
    assert_eq!(*pod.seen.authority.lock().unwrap(), format!("localhost:{port}"));
    let builder = dogwatch_grpc::channel_builder(&address.to_string()).await.unwrap();
    assert_call_succeeds(&builder.policy(Policy::PickFirst).build().unwrap()).await;
    let wrong = dogwatch_grpc::channel("unix:///greeter.sock").await.unwrap_err();
    assert!(matches!(wrong, DialError::Target(_)), "{wrong:?}");
}

/// The error for a host that cannot be resolved. A DNS label cannot have 70 letters, so no server
/// is asked for it.
#[tokio::test]
async fn an_invalid_host_is_named_in_the_error_of_calls() {
    let name = format!("{}:80", "x".repeat(70));
    let builder = dogwatch_grpc::channel_builder(&format!("dns:///{name}")).await.unwrap();
    let channel = builder.ready_timeout(Duration::ZERO).build().unwrap();
    let expected = format!("{name} cannot be called: its name could not be resolved yet");
    let mut status = EchoClient::new(&channel).one("hello").await.unwrap_err();
    // The system's resolver takes its time to fail.
    for _ in 0..600 {
        if status.message().contains(&expected) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        status = EchoClient::new(&channel).one("hello").await.unwrap_err();
    }
    panic!("after a minute calls still fail with: {status}");
}
