//! The effect of one call on others of its connection: flow-control windows and headers.

use bytes::Bytes;
use dogwatch_grpc::KubeChannel;
use h2::server::SendResponse;
use http::Response;
use tonic::Code;

use crate::echo::EchoClient;
use crate::manual_clock::{in_time, yield_briefly};
use crate::non_grpc_servers::non_grpc_server;
use crate::pods::{Pod, Service, endpoint};

/// A slow consumer delays only itself, not other callers of the same pod.
#[tokio::test]
async fn streams_that_are_not_read_do_not_delay_other_calls() {
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
        // The pod keeps sending as much as it may.
        yield_briefly().await;
        in_time(client.one("hello"), || "a call concurrent with streams that are not read".to_owned())
            .await
            .unwrap();
    }
    // The unread data is still available.
    for stream in &mut streams {
        for count in 1..100 {
            assert_eq!(stream.message().await.unwrap().unwrap().count, count);
        }
    }
}

/// A configured window of the whole connection is respected.
#[tokio::test]
async fn windows_can_be_configured() {
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

/// Sends a response with a hundred headers of this many bytes.
fn verbose(mut respond: SendResponse<Bytes>, bytes: usize) {
    let mut head = Response::builder().header("content-type", "application/grpc").header("grpc-status", "5");
    for number in 0..100 {
        head = head.header(format!("x-{number}"), "x".repeat(bytes));
    }
    // The caller may have gone by then.
    let _ = respond.send_response(head.body(()).unwrap(), true);
}

/// A pod that sends too many headers costs memory on every call, whatever the caller asked for.
#[tokio::test]
async fn headers_are_accepted_up_to_a_limit() {
    for (bytes, limit, taken) in
        [(400, None, true), (1_000, None, false), (1_000, Some(1 << 20), true), (400, Some(10_000), false)]
    {
        let address = match bytes {
            400 => non_grpc_server(|it| verbose(it, 400)).await.0,
            _ => non_grpc_server(|it| verbose(it, 1_000)).await.0,
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
