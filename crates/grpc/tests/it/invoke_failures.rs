//! Failing calls of the `grpc` crate's clients: dropped, refused, lost, too large. They leak
//! nothing.

use std::time::Duration;

use bytes::Bytes;
use dogwatch_grpc::invoke::KubeInvoke;
use dogwatch_grpc::{KubeChannel, Unavailable};
use grpc::StatusCodeError;
use grpc::client::{CallOptions, Invoke, RecvStream, ResponseStreamItem, SendOptions, SendStream};
use grpc::metadata::MetadataMap;
use tonic::Code;

use crate::failing_pods::refusing_server;
use crate::invoke_client::{EchoClient, Raw, all, ask, enum_value, request, text_and_number};
use crate::invoke_test_server::silent_server;
use crate::manual_clock::yield_briefly;
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

fn bare(method: &str) -> grpc::core::RequestHeaders {
    request(method, MetadataMap::new())
}

#[tokio::test]
async fn dropped_calls_are_not_in_flight() {
    let pods = Pod::start_many(2).await;
    let invoke = invoke_over(&pods).await;
    let channel = invoke.channel();
    let client = EchoClient::new(invoke.clone());
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.one(enum_value("wait", 0)).await.is_ok() })
        })
        .collect();
    until(channel, |it| in_flight(it) == 20).await;
    waiting.iter().for_each(|it| it.abort());
    until(channel, |it| in_flight(it) == 0).await;
    // Started and never read; read in part; sent in part; both sides used; one that would continue
    // to send.
    let unread = client.many(enum_value("wait", 2)).await;
    let mut read = client.many(enum_value("wait", 2)).await;
    assert!(read.recv().await.is_some());
    let mut sent = client.gather().await;
    sent.send(&enum_value("some", 0)).await.unwrap();
    let (mut requests, mut answers) = client.both().await;
    requests.send(enum_value("some", 0)).await.unwrap();
    assert!(answers.recv().await.is_some());
    let (mut sending, receiving) = invoke.invoke(bare("/test.Echo/Gather"), CallOptions::new()).await;
    sending.send(&Raw::text(""), SendOptions::new()).await.unwrap();
    until(channel, |it| in_flight(it) == 5).await;
    drop((unread, read, sent, answers, receiving));
    until(channel, |it| in_flight(it) == 0).await;
    // Not started: it was never counted.
    let calls = |it: &KubeChannel| it.endpoints().iter().map(|it| it.calls).sum::<u64>();
    let before = calls(channel);
    drop(client.both().await);
    let (mut requests, answers) = client.both().await;
    drop(answers);
    assert!(requests.send(enum_value("after the end", 0)).await.is_err());
    assert_eq!((calls(channel), in_flight(channel)), (before, 0));
}

#[tokio::test]
async fn sending_fails_once_the_call_is_over() {
    let pods = Pod::start_many(1).await;
    let invoke = invoke_over(&pods).await;
    let client = EchoClient::new(invoke.clone());
    let (mut requests, answers) = client.both().await;
    requests.send(enum_value("hello", 0)).await.unwrap();
    drop(answers);
    while requests.send(enum_value("more", 0)).await.is_ok() {}
    // The server ends this one: it has no such method.
    let (mut sending, receiving) = invoke.invoke(bare("/test.None/Such"), CallOptions::new()).await;
    sending.send(&Raw::text("hello"), SendOptions::new()).await.unwrap();
    assert_eq!(all(receiving).await.status().0, StatusCodeError::Unimplemented as i32);
    while sending.send(&Raw::text("more"), SendOptions::new()).await.is_ok() {}
}

#[tokio::test]
async fn a_request_that_has_ended_still_gets_its_response() {
    let pods = Pod::start_many(1).await;
    let client = EchoClient::new(invoke_over(&pods).await);
    let (mut requests, mut answers) = client.both().await;
    requests.send(enum_value("hello", 1)).await.unwrap();
    drop(requests);
    assert_eq!(text_and_number(&answers.recv().await.unwrap()), ("hello".to_owned(), 1));
    assert!(answers.recv().await.is_none());
    answers.status().await.unwrap();
}

/// Receives, and gives up: the server has nothing to send yet.
async fn give_up(receiving: &mut impl RecvStream) {
    let mut message = Raw::text("");
    for _ in 0..3 {
        tokio::select! {
            biased;
            item = receiving.recv(&mut message) => panic!("unexpected item: {item:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
}

/// A `recv` that lost a `select!` loses no item.
#[tokio::test]
async fn a_cancelled_recv_loses_nothing() {
    let pods = Pod::start_many(1).await;
    let invoke = invoke_over(&pods).await;
    // The head of this response arrives when the request has ended.
    let (sending, mut receiving) = invoke.invoke(bare("/test.Echo/Gather"), CallOptions::new()).await;
    give_up(&mut receiving).await;
    drop(sending);
    let gathered = all(receiving).await;
    assert!(gathered.headers.is_some() && gathered.messages.len() == 1, "{gathered:?}");
    // The second message of this one arrives when the gate is opened: "wait", twice.
    let (mut sending, mut receiving) = invoke.invoke(bare("/test.Echo/Many"), CallOptions::new()).await;
    sending.send(&Raw::text("\n\x04wait\x10\x02"), SendOptions::new().with_final_msg(true)).await.unwrap();
    let mut message = Raw::text("");
    assert!(matches!(receiving.recv(&mut message).await, ResponseStreamItem::Headers(_)));
    assert!(matches!(receiving.recv(&mut message).await, ResponseStreamItem::Message));
    give_up(&mut receiving).await;
    pods[0].seen.gate.add_permits(1);
    assert!(matches!(receiving.recv(&mut message).await, ResponseStreamItem::Message));
    assert!(matches!(receiving.recv(&mut message).await, ResponseStreamItem::Trailers(_)));
}

/// A `send` that lost a `select!` has sent nothing, and has not ended the request: otherwise a
/// server would take it for complete.
#[tokio::test]
async fn a_cancelled_send_does_not_end_the_request() {
    let pods = Pod::start_many(1).await;
    let service = Service::new();
    service.set(vec![endpoint("silent", silent_server().await)]);
    let invoke = KubeInvoke::new(service.channel());
    connected(invoke.channel(), 1).await;
    let (mut sending, _receiving) = invoke.invoke(bare("/test.Echo/Gather"), CallOptions::new()).await;
    // A server that does not read accepts no more than a window.
    let large = Raw::Bytes("x".repeat(1 << 20).into());
    let mut given_up = 0;
    while given_up < 3 {
        tokio::select! {
            biased;
            sent = sending.send(&large, SendOptions::new()) => sent.unwrap(),
            () = async { for _ in 0..50 { yield_briefly().await } } => given_up += 1,
        }
    }
    // Messages that are not cancelled arrive complete.
    let client = EchoClient::new(invoke_over(&pods).await);
    let mut call = client.gather().await;
    call.send(&enum_value("some", 0)).await.unwrap();
    assert_eq!(text_and_number(&call.close_and_recv().await.unwrap()), ("4".to_owned(), 1));
}

#[tokio::test]
async fn a_call_that_no_server_has_processed_goes_to_another_pod() {
    let pods = Pod::start_many(2).await;
    let service = Service::of(&pods);
    service.add(endpoint("refusing_server", refusing_server().await));
    let invoke = KubeInvoke::new(service.channel());
    connected(invoke.channel(), 3).await;
    let client = EchoClient::new(invoke.clone());
    for _ in 0..30 {
        client.one(enum_value("hello", 0)).await.unwrap();
        let (mut requests, mut answers) = client.both().await;
        requests.send(enum_value("hello", 0)).await.unwrap();
        requests.close();
        assert!(answers.recv().await.is_some());
        answers.status().await.unwrap();
    }
    let endpoints = invoke.channel().endpoints();
    let refusing_server = endpoints.iter().find(|it| it.endpoint.id.as_str() == "refusing_server").unwrap();
    assert!(refusing_server.calls >= 15, "the refusing server should have been tried: {refusing_server:?}");
    assert_eq!(pods.iter().map(|it| it.seen.calls()).sum::<usize>(), 60);
    until(invoke.channel(), |it| in_flight(it) == 0).await;
}

#[tokio::test]
async fn a_lost_call_names_its_endpoint_before_and_within_the_response() {
    for within in [false, true] {
        let mut pods = Pod::start_many(1).await;
        let invoke = invoke_over(&pods).await;
        // "wait", twice for a stream: the first message arrives at once, the second never.
        let message = if within { Raw::text("\n\x04wait\x10\x02") } else { Raw::text("\n\x04wait") };
        let method = if within { "/test.Echo/Many" } else { "/test.Echo/One" };
        let (mut sending, mut receiving) = invoke.invoke(bare(method), CallOptions::new()).await;
        sending.send(&message, SendOptions::new().with_final_msg(true)).await.unwrap();
        let mut reply = Raw::text("");
        if within {
            assert!(matches!(receiving.recv(&mut reply).await, ResponseStreamItem::Headers(_)));
            assert!(matches!(receiving.recv(&mut reply).await, ResponseStreamItem::Message));
        }
        while pods[0].seen.calls() == 0 {
            tokio::task::yield_now().await;
        }
        pods[0].kill().await;
        let ResponseStreamItem::Trailers(trailers) = receiving.recv(&mut reply).await else {
            panic!("the pod is dead");
        };
        let address = pods[0].address.to_string();
        assert_eq!(trailers.metadata().get("dogwatch-endpoint").unwrap(), address.as_str());
        let status = trailers.into_status().unwrap_err();
        assert_eq!(status.code(), StatusCodeError::Unavailable);
        assert!(status.message().contains(&address), "{status:?}");
        assert_eq!(in_flight(invoke.channel()), 0);
    }
}

#[tokio::test]
async fn without_an_endpoint_the_status_has_the_reason() {
    let service = Service::new();
    service.unavailable(Unavailable::NothingReady(2));
    let channel =
        KubeChannel::builder(service.receiver()).ready_timeout(Duration::ZERO).authority("echo.test");
    let client = EchoClient::new(KubeInvoke::new(channel.build().unwrap()));
    let status = client.one(enum_value("hello", 0)).await.unwrap_err();
    assert_eq!(status.code(), StatusCodeError::Unavailable);
    assert!(status.message().starts_with("echo.test cannot be called"), "{status:?}");
    let mut call = client.gather().await;
    while call.send(&enum_value("hello", 0)).await.is_ok() {}
    assert_eq!(call.close_and_recv().await.unwrap_err().code(), StatusCodeError::Unavailable);
}

#[tokio::test]
async fn the_client_gets_the_servers_status() {
    let pods = Pod::start_many(1).await;
    let client = EchoClient::new(invoke_over(&pods).await);
    for number in 1..17 {
        pods[0].seen.fail(1, Code::from_i32(number));
        let status = client.one(enum_value("hello", 0)).await.unwrap_err();
        assert_eq!((status.code() as i32, status.message()), (number, "injected failure"));
    }
}

#[tokio::test]
async fn a_message_beyond_the_limit_ends_the_call() {
    let pods = Pod::start_many(1).await;
    let invoke = invoke_over(&pods).await;
    let exhausted = StatusCodeError::ResourceExhausted;
    let (small, large) = (enum_value("hello", 0), enum_value(&"x".repeat(100), 0));
    let receiving = EchoClient::new(invoke.clone().largest_received(50));
    receiving.one(small.as_view()).await.unwrap();
    assert_eq!(receiving.one(large.as_view()).await.unwrap_err().code(), exhausted);
    let sending = EchoClient::new(invoke.clone().largest_sent(50));
    let before = pods[0].seen.calls();
    assert_eq!(sending.one(large.as_view()).await.unwrap_err().code(), exhausted);
    assert_eq!(pods[0].seen.calls(), before, "the message should not be sent");
    let mut call = sending.gather().await;
    call.send(&small).await.unwrap();
    assert!(call.send(&large).await.is_err());
    assert!(call.send(&small).await.is_err());
    assert_eq!(call.close_and_recv().await.unwrap_err().code(), exhausted);
    until(invoke.channel(), |it| in_flight(it) == 0).await;
}

#[tokio::test]
async fn invalid_messages_and_methods_end_the_call_with_the_reason() {
    let pods = Pod::start_many(1).await;
    let invoke = invoke_over(&pods).await;
    let internal = StatusCodeError::Internal as i32;
    let broken = ask(&invoke, bare("/test.Echo/One"), Raw::Broken).await;
    assert_eq!(broken.status(), (internal, "a message could not be encoded: it is broken"));
    // The same when the call has already started, on either side.
    let (mut sending, receiving) = invoke.invoke(bare("/test.Echo/Both"), CallOptions::new()).await;
    let listening = tokio::spawn(all(receiving));
    until(invoke.channel(), |it| in_flight(it) == 1).await;
    assert!(sending.send(&Raw::Broken, SendOptions::new()).await.is_err());
    assert_eq!(listening.await.unwrap().status().0, internal);
    let (mut sending, mut receiving) = invoke.invoke(bare("/test.Echo/Many"), CallOptions::new()).await;
    sending.send(&Raw::text("\x10\x01"), SendOptions::new().with_final_msg(true)).await.unwrap();
    let mut message = Raw::Broken;
    assert!(matches!(receiving.recv(&mut message).await, ResponseStreamItem::Headers(_)));
    let ResponseStreamItem::Trailers(trailers) = receiving.recv(&mut message).await else {
        panic!("decoding should fail");
    };
    let status = trailers.into_status().unwrap_err();
    assert_eq!(status.message(), "a message could not be decoded: it is broken");
    let nowhere = ask(&invoke, bare("no method"), Raw::Bytes(Bytes::new())).await;
    assert_eq!(nowhere.status().0, internal);
    let (_held, receiving) = invoke.invoke(bare("no method"), CallOptions::new()).await;
    assert_eq!(all(receiving).await.status().0, internal, "the call should fail even if nothing is sent");
    until(invoke.channel(), |it| in_flight(it) == 0).await;
}
