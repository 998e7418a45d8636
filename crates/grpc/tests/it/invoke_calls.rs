//! Calls of every kind by a client of the `grpc` crate, over our own channel.

use std::time::Duration;

use dogwatch_grpc::KubeChannel;
use dogwatch_grpc::invoke::KubeInvoke;
use grpc::StatusCodeError;
use grpc::client::interceptor::InvokeExt;
use grpc::client::metadata_utils::{
    AttachHeadersInterceptor, CaptureHeadersInterceptor, CaptureTrailersInterceptor,
};
use grpc::client::{CallOptions, DynInvoke, Invoke, RecvStream, ResponseStreamItem, SendOptions};
use grpc::metadata::MetadataMap;
use grpc_protobuf::CallBuilder;

use crate::cluster::TestCluster;
use crate::invoke_client::{EchoClient, Raw, all, enum_value, request, text_and_number};
use crate::invoke_test_server::{raw_pod, silent_server};
use crate::pods::{Pod, Service, connected, endpoint, until};

fn in_flight(channel: &KubeChannel) -> u32 {
    channel.endpoints().iter().map(|it| it.in_flight).sum()
}

/// Returns a channel for the `grpc` crate that is connected to all of these pods.
async fn invoke_over(pods: &[Pod]) -> KubeInvoke {
    let channel = Service::of(pods).channel();
    connected(&channel, pods.len()).await;
    KubeInvoke::new(channel)
}

#[tokio::test]
async fn every_pod_gets_the_same_share_of_a_generated_clients_calls() {
    let pods = Pod::start_many(3).await;
    let invoke = invoke_over(&pods).await;
    let client = EchoClient::new(invoke.clone());
    for count in 0..30 {
        let message = enum_value("hello", count);
        assert_eq!(
            text_and_number(&client.one(message.as_view()).await.unwrap()),
            ("hello".to_owned(), count)
        );
    }
    assert!(pods.iter().all(|it| it.seen.calls() == 10));
    assert!(pods.iter().all(|it| it.connections() == 1));
    let endpoints = invoke.channel().endpoints();
    assert!(endpoints.iter().all(|it| it.calls == 10 && it.in_flight == 0 && it.failures == 0));
}

/// From a name to a call, as in a program: the slice is on an API server.
#[tokio::test]
async fn a_target_name_suffices_for_a_generated_client() {
    let (cluster, pod) = (TestCluster::start().await, Pod::start().await);
    let port = format!("grpc={}", pod.address.port());
    cluster.slice("echo", "echo-0", &[&port], &["127.0.0.1 pod-0"]).await;
    let channel = cluster.resolver.channel(&"kubernetes:///echo:grpc".parse().unwrap()).build().unwrap();
    let client = EchoClient::new(KubeInvoke::new(channel));
    assert_eq!(text_and_number(&client.one(enum_value("hello", 1)).await.unwrap()), ("hello".to_owned(), 1));
    assert_eq!(*pod.seen.authority.lock().unwrap(), "echo.default");
}

#[tokio::test]
async fn a_response_may_be_decoded_into_an_existing_message() {
    let pods = Pod::start_many(1).await;
    let client = EchoClient::new(invoke_over(&pods).await);
    let mut reply = enum_value("before", 7);
    client.one(enum_value("after", 0)).with_response_message(&mut reply).await.unwrap();
    assert_eq!(text_and_number(&reply), ("after".to_owned(), 0));
}

/// More than the windows of HTTP/2, and more than is kept for a retry: the sender waits for the
/// server.
#[tokio::test]
async fn a_client_stream_is_answered_at_its_end() {
    let pods = Pod::start_many(2).await;
    let client = EchoClient::new(invoke_over(&pods).await);
    let mut call = client.gather().await;
    let large = enum_value(&"x".repeat(100_000), 0);
    for _ in 0..60 {
        call.send(&large).await.unwrap();
    }
    assert_eq!(text_and_number(&call.close_and_recv().await.unwrap()), ("6000000".to_owned(), 60));
    let nothing = client.gather().await.close_and_recv().await.unwrap();
    assert_eq!(text_and_number(&nothing), ("0".to_owned(), 0));
    assert_eq!(pods.iter().map(|it| it.seen.calls()).sum::<usize>(), 2);
}

#[tokio::test]
async fn a_server_stream_is_read_to_its_status() {
    let pods = Pod::start_many(1).await;
    let invoke = invoke_over(&pods).await;
    let client = EchoClient::new(invoke.clone());
    let mut answers = client.many(enum_value("tick", 5)).await;
    for count in 0..5 {
        assert_eq!(text_and_number(&answers.recv().await.unwrap()), ("tick".to_owned(), count));
    }
    assert_eq!(in_flight(invoke.channel()), 1, "a stream should count until its end");
    assert!(answers.recv().await.is_none());
    assert_eq!(in_flight(invoke.channel()), 0);
    answers.status().await.unwrap();
    client.many(enum_value("tick", 1_000)).await.status().await.unwrap();
}

#[tokio::test]
async fn bidirectional_streams_work_concurrently() {
    let pods = Pod::start_many(1).await;
    let client = EchoClient::new(invoke_over(&pods).await);
    let (mut requests, mut answers) = client.both().await;
    for count in 0..10 {
        requests.send(enum_value("ping", count)).await.unwrap();
        assert_eq!(text_and_number(&answers.recv().await.unwrap()), ("ping".to_owned(), count));
    }
    requests.close();
    assert!(answers.recv().await.is_none());
    answers.status().await.unwrap();
}

/// If the caller receives first, that starts the call, and later messages are still sent.
#[tokio::test]
async fn a_response_may_be_awaited_before_anything_is_sent() {
    let pods = Pod::start_many(1).await;
    let invoke = invoke_over(&pods).await;
    let client = EchoClient::new(invoke.clone());
    let (mut requests, mut answers) = client.both().await;
    assert_eq!(in_flight(invoke.channel()), 0);
    let listening = tokio::spawn(async move {
        let first = answers.recv().await.map(|it| text_and_number(&it));
        (first, answers.recv().await.is_none(), answers.status().await)
    });
    until(invoke.channel(), |it| in_flight(it) == 1).await;
    requests.send(enum_value("late", 3)).await.unwrap();
    requests.close();
    let (first, ended, status) = listening.await.unwrap();
    assert_eq!((first, ended, status.is_ok()), (Some(("late".to_owned(), 3)), true, true));
    // The same with a message that is marked as the last.
    let headers = request("/test.Echo/One", MetadataMap::new());
    let (mut sending, receiving) = invoke.invoke(headers, CallOptions::new()).await;
    let listening = tokio::spawn(all(receiving));
    until(invoke.channel(), |it| in_flight(it) == 1).await;
    let last = SendOptions::new().with_final_msg(true);
    grpc::client::SendStream::send(&mut sending, &Raw::text("\n\x01x"), last.clone()).await.unwrap();
    assert!(grpc::client::SendStream::send(&mut sending, &Raw::text(""), last).await.is_err());
    assert_eq!(listening.await.unwrap().messages, ["\n\x01x"]);
}

/// A caller that starts a stream and then does something else must not miss messages meanwhile.
#[tokio::test]
async fn a_server_stream_begins_before_it_is_read() {
    let pods = Pod::start_many(1).await;
    let lazy = KubeChannel::builder(Service::of(&pods).receiver()).lazy().build().unwrap();
    let ready = invoke_over(&pods).await;
    for (number, invoke) in [KubeInvoke::from(lazy), ready].into_iter().enumerate() {
        let client = EchoClient::new(invoke);
        let mut answers = client.many(enum_value("hello", 1)).await;
        while pods[0].seen.calls() == number {
            tokio::task::yield_now().await;
        }
        assert!(answers.recv().await.is_some());
    }
}

#[tokio::test]
async fn a_deadline_of_a_generated_client_ends_a_call_in_every_state() {
    let service = Service::new();
    service.add(endpoint("silent", silent_server().await));
    let invoke = KubeInvoke::new(service.channel());
    connected(invoke.channel(), 1).await;
    let client = EchoClient::new(invoke.clone());
    let short = Duration::from_millis(20);
    let late = StatusCodeError::DeadlineExceeded;
    assert_eq!(client.one(enum_value("hello", 0)).with_timeout(short).await.unwrap_err().code(), late);
    let begun = client.many(enum_value("hello", 0)).with_timeout(short).await;
    assert_eq!(begun.status().await.unwrap_err().code(), late);
    let mut call = client.gather().with_timeout(short).await;
    let _ = call.send(&enum_value("some", 0)).await;
    assert_eq!(call.close_and_recv().await.unwrap_err().code(), late);
    // The request has not ended; continuing it reports that the call has.
    let (mut requests, mut answers) = client.both().with_timeout(short).await;
    let _ = requests.send(enum_value("some", 0)).await;
    assert!(answers.recv().await.is_none());
    assert!(requests.send(enum_value("more", 0)).await.is_err());
    assert_eq!(answers.status().await.unwrap_err().code(), late);
    until(invoke.channel(), |it| in_flight(it) == 0).await;
}

#[tokio::test]
async fn a_call_past_its_deadline_is_not_sent_and_others_carry_the_remaining_time() {
    let pods = [raw_pod().await];
    let invoke = invoke_over(&pods).await;
    let client = EchoClient::new(invoke.clone());
    let late = client.one(enum_value("hello", 0)).with_timeout(Duration::ZERO).await.unwrap_err();
    assert_eq!(late.code(), StatusCodeError::DeadlineExceeded);
    assert_eq!(pods[0].seen.calls(), 0);
    let (capture, headers) = CaptureHeadersInterceptor::new();
    let mirror = grpc_protobuf::UnaryCallBuilder::<_, _, protobuf_well_known_types::EnumValue>::new(
        &invoke,
        "/test.Odd/Mirror",
        enum_value("", 0),
    );
    // The response is not a message of that kind, and only the headers are checked.
    let _ = mirror.with_timeout(Duration::from_secs(3_600)).with_once_interceptor(capture).await;
    let headers = headers.await.unwrap();
    let seen = headers.get("x-seen-timeout").unwrap().to_str();
    assert!(seen.ends_with('m') && seen.len() == 8 && seen <= "3600000m", "{seen}");
}

/// Other code for `Invoke` works with it: interceptors, and the dyn-compatible version.
#[tokio::test]
async fn interceptors_and_trait_objects_accept_it_as_a_channel() {
    let pods = [raw_pod().await];
    let invoke = invoke_over(&pods).await;
    let mut metadata = MetadataMap::new();
    metadata.insert("x-word", "hello".parse().unwrap());
    let attached = invoke.clone().with_interceptor(AttachHeadersInterceptor::new(metadata));
    let (capture, trailers) = CaptureTrailersInterceptor::new();
    let once = attached.with_once_interceptor(capture);
    let headers = request("/test.Odd/Mirror", MetadataMap::new());
    let (sending, receiving) =
        grpc::client::InvokeOnce::invoke_once(once, headers.clone(), CallOptions::new()).await;
    drop(sending);
    assert_eq!(all(receiving).await.messages, ["hello"]);
    assert_eq!(trailers.await.unwrap().get("x-word").unwrap(), "hello");
    let object: Box<dyn DynInvoke> = Box::new(invoke);
    let (sending, mut receiving) = object.dyn_invoke(headers, CallOptions::new()).await;
    drop(sending);
    let first = receiving.recv(&mut Raw::text("")).await;
    assert!(matches!(first, ResponseStreamItem::Headers(_)));
}
