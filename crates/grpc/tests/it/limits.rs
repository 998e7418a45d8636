//! What one call may take from the others on its connection: windows, resets, headers and streams.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use dogwatch_grpc::KubeChannel;
use futures_util::FutureExt;
use h2::server::SendResponse;
use http::Response;
use tonic::{Code, Request};

use crate::echo::{EchoClient, message};
use crate::enforcer::Enforcer;
use crate::pods::{Pod, Service, connected, endpoint, until};
use crate::still::{StillTime, breath, eventually, in_time};
use crate::strangers::stranger;

/// A consumer that is slow holds up itself, and nobody else who calls the same pod.
#[tokio::test]
async fn streams_that_are_not_read_do_not_hold_up_other_calls() {
    let pods = Pod::start_many(1).await;
    let channel = Service::of(&pods).channel();
    let client = EchoClient::new(&channel);
    let large = "x".repeat(256 << 10);
    let mut streams = Vec::new();
    for _ in 0..8 {
        let mut stream = client.many(&large, 100).await.unwrap();
        assert!(stream.message().await.unwrap().is_some());
        streams.push(stream);
    }
    for _ in 0..200 {
        // The pod goes on to send as much as it may.
        breath().await;
        in_time(client.one("hello"), || "a call beside streams that are not read".to_owned()).await.unwrap();
    }
    // What was not read is still there to be read.
    for stream in &mut streams {
        for count in 1..100 {
            assert_eq!(stream.message().await.unwrap().unwrap().count, count);
        }
    }
}

/// Where a user sets a window for the whole connection, that is what holds.
#[tokio::test]
async fn windows_can_be_set() {
    let pods = Pod::start_many(1).await;
    let channel = KubeChannel::builder(Service::of(&pods).receiver())
        .stream_window(100_000)
        .connection_window(0)
        .max_header_bytes(16 << 10)
        .build()
        .unwrap();
    let large = "x".repeat(1 << 20);
    assert_eq!(EchoClient::new(&channel).one(&large).await.unwrap().text, large);
}

/// Answers that cross the resets of calls that were given up are nobody's fault; other calls of the connection go on.
#[tokio::test]
async fn late_answers_to_calls_that_were_given_up_do_not_end_the_connection() {
    let clock = StillTime::begin();
    let (server, address) = Enforcer::listen().await;
    let service = Service::new();
    service.set(vec![endpoint("late", address)]);
    let channel = KubeChannel::builder(service.receiver()).no_keep_alive().build().unwrap();
    connected(&channel, 1).await;
    let client = EchoClient::new(&channel);
    let begins = in_time(client.many("quiet", 1), || "the head of a stream".to_owned());
    let mut innocent = begins.await.unwrap();
    // More than the library remembers, and more than it would bear by itself of those that it does not.
    const CALLS: usize = 6_000;
    let calls: Vec<_> = (0..CALLS)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut request = Request::new(message("late", 0));
                request.set_timeout(Duration::from_millis(500));
                client.ask(request).await
            })
        })
        .collect();
    until(&channel, |it| it.endpoints()[0].in_flight == CALLS as u32 + 1).await;
    clock.pass(Duration::from_secs(1)).await;
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap_err().code(), Code::DeadlineExceeded);
    }
    let resets = || server.record.resets.load(Ordering::SeqCst);
    eventually(|| resets() == CALLS, || format!("{} resets", resets())).await;
    server.release();
    for _ in 0..20 {
        breath().await;
        let call = in_time(client.one("hello"), || {
            format!("{} connections, {:#?}", server.connections(), channel.endpoints())
        });
        assert_eq!(call.await.unwrap().text, "hello");
    }
    assert_eq!(server.connections(), 1);
    let ended = innocent.message().now_or_never();
    assert!(ended.is_none(), "the stream of another ended: {ended:?}");
}

/// An answer with a hundred headers of this many bytes.
fn verbose(mut respond: SendResponse<Bytes>, bytes: usize) {
    let mut head = Response::builder().header("content-type", "application/grpc").header("grpc-status", "5");
    for number in 0..100 {
        head = head.header(format!("x-{number}"), "x".repeat(bytes));
    }
    // The caller may have gone by then.
    let _ = respond.send_response(head.body(()).unwrap(), true);
}

/// A pod that says too much costs memory on every call, whatever the caller asked for.
#[tokio::test]
async fn headers_are_taken_up_to_a_limit() {
    for (bytes, limit, taken) in
        [(400, None, true), (1_000, None, false), (1_000, Some(1 << 20), true), (400, Some(10_000), false)]
    {
        let address = match bytes {
            400 => stranger(|it| verbose(it, 400)).await.0,
            _ => stranger(|it| verbose(it, 1_000)).await.0,
        };
        let service = Service::new();
        service.set(vec![endpoint("verbose", address)]);
        let mut builder = KubeChannel::builder(service.receiver());
        if let Some(limit) = limit {
            builder = builder.max_header_bytes(limit);
        }
        let channel = builder.build().unwrap();
        let status = EchoClient::new(&channel).one("hello").await.unwrap_err();
        assert_eq!(status.code() == Code::NotFound, taken, "{bytes} {limit:?} {status:?}");
    }
}

/// A server that has too much to do says so, and takes it back later.
#[tokio::test]
async fn a_pod_that_changes_how_many_calls_it_takes_is_believed_at_once() {
    let ((server, address), pods) = (Enforcer::listen().await, Pod::start_many(1).await);
    let service = Service::of(&pods);
    service.add(endpoint("changing", address));
    let channel = service.channel();
    let client = EchoClient::new(&channel);
    connected(&channel, 2).await;
    let taken = || channel.endpoints().iter().find(|it| it.endpoint.id.as_str() == "changing").unwrap().calls;
    let share = async || {
        let before = taken();
        for _ in 0..20 {
            client.one("hello").await.unwrap();
        }
        taken() - before
    };
    assert_eq!(share().await, 10);
    server.takes(0);
    until(&channel, |it| it.ready_endpoints() == 1).await;
    assert_eq!(share().await, 0);
    server.takes(1);
    until(&channel, |it| it.ready_endpoints() == 2).await;
    assert_eq!(share().await, 10);
    // Its only place is taken, so that others are called.
    let busy = tokio::spawn({
        let client = client.clone();
        async move { while client.one("mute").await.is_ok() {} }
    });
    until(&channel, |it| {
        it.endpoints().iter().any(|it| it.endpoint.id.as_str() == "changing" && it.in_flight == 1)
    })
    .await;
    assert_eq!(share().await, 0);
    busy.abort();
}
