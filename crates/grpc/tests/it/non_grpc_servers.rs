//! Responses that are not gRPC, from a proxy or another kind of server: the status that callers
//! get, and its effect on the pod.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use dogwatch_grpc::{KubeChannel, Retry};
use h2::server::SendResponse;
use http::Response;
use tonic::{Code, Request};

use crate::echo::{EchoClient, message};
use crate::manual_clock::{ManualClock, STEP, yield_briefly};
use crate::pods::{Pod, Service, connected, endpoint, until};

/// The `grpc-timeout` header of each request, if any.
pub(crate) type Timeouts = Arc<Mutex<Vec<Option<String>>>>;

/// Starts an HTTP/2 server that knows nothing of gRPC, and answers every request in this way.
pub(crate) async fn non_grpc_server(
    answer: impl Fn(SendResponse<Bytes>) + Copy + Send + 'static,
) -> (SocketAddr, Timeouts) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Timeouts::default());
    let noted = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let noted = Arc::clone(&noted);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(socket).await.unwrap();
                while let Some(Ok((request, respond))) = connection.accept().await {
                    let timeout = request.headers().get("grpc-timeout");
                    let timeout = timeout.map(|it| it.to_str().unwrap().to_owned());
                    noted.lock().unwrap().push(timeout);
                    answer(respond);
                }
            });
        }
    });
    (address, asked)
}

/// Sends a page of text with this status.
fn html_page(mut respond: SendResponse<Bytes>, status: u16) {
    let head = Response::builder().status(status).header("content-type", "text/html").body(()).unwrap();
    let mut body = respond.send_response(head, false).unwrap();
    body.send_data(Bytes::from_static(b"<html>not found here</html>"), true).unwrap();
}

/// Sends the head of a gRPC response and one message, and then no status.
fn without_status(mut respond: SendResponse<Bytes>, reset: bool) {
    let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    let mut body = respond.send_response(head, false).unwrap();
    body.send_data(Bytes::from_static(b"\0\0\0\0\0"), !reset).unwrap();
    if reset {
        // The message must be sent before the reset.
        tokio::spawn(async move {
            for _ in 0..10 {
                yield_briefly().await;
            }
            body.send_reset(h2::Reason::NO_ERROR);
        });
    }
}

fn channel_to(address: SocketAddr) -> (Service, KubeChannel) {
    let service = Service::new();
    service.set(vec![endpoint("non_grpc_server", address)]);
    let channel = service.channel();
    (service, channel)
}

#[tokio::test]
async fn a_response_that_is_not_grpc_is_a_status_and_a_failure_of_its_pod() {
    let table = [
        (non_grpc_server(|it| html_page(it, 503)).await.0, Code::Unavailable, "the HTTP status 503"),
        (non_grpc_server(|it| html_page(it, 404)).await.0, Code::Unimplemented, "the HTTP status 404"),
        (non_grpc_server(|it| html_page(it, 401)).await.0, Code::Unauthenticated, "the HTTP status 401"),
        (
            non_grpc_server(|it| html_page(it, 200)).await.0,
            Code::Unknown,
            "\"text/html\", not application/grpc",
        ),
        (non_grpc_server(|it| without_status(it, false)).await.0, Code::Internal, "without a status"),
        (non_grpc_server(|it| without_status(it, true)).await.0, Code::Internal, "without a status"),
    ];
    for (address, code, expected) in table {
        let (_service, channel) = channel_to(address);
        let status = EchoClient::new(&channel).one("hello").await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().contains(expected), "{status:?}");
        assert_eq!(status.metadata().get("dogwatch-endpoint").unwrap(), address.to_string().as_str());
        // The message is what ends up in logs.
        assert!(status.message().contains(&address.to_string()), "{status:?}");
        until(&channel, |it| it.endpoints()[0].in_flight == 0).await;
        let failures = channel.endpoints()[0].failures;
        assert_eq!(failures, u64::from(code != Code::Unauthenticated), "{status:?}");
    }
}

/// A proxy in front of the pod answers 503 while the pod is down: calls that may be retried go
/// elsewhere.
#[tokio::test]
async fn a_proxy_that_answers_503_fails_no_call_that_may_be_retried() {
    let pods = Pod::start_many(1).await;
    let (address, asked) = non_grpc_server(|it| html_page(it, 503)).await;
    let service = Service::of(&pods);
    service.add(endpoint("proxy", address));
    let channel = KubeChannel::builder(service.receiver()).retry(Retry::default()).build().unwrap();
    connected(&channel, 2).await;
    for _ in 0..20 {
        EchoClient::new(&channel).one("hello").await.unwrap();
    }
    assert!(!asked.lock().unwrap().is_empty(), "the proxy should have been tried");
    assert_eq!(pods[0].seen.calls(), 20);
}

/// A server that is given more time than there is works for a caller that has gone.
#[tokio::test]
async fn the_server_receives_the_remaining_time_if_the_call_had_to_wait() {
    let clock = ManualClock::begin();
    let (address, asked) = non_grpc_server(|it| html_page(it, 503)).await;
    let service = Service::new();
    let channel = KubeChannel::builder(service.receiver())
        .ready_timeout(Duration::from_secs(600))
        .no_keep_alive()
        .build()
        .unwrap();
    let client = EchoClient::new(&channel);
    let mut request = Request::new(message("hello", 0));
    request.set_timeout(Duration::from_secs(100));
    let waiting = tokio::spawn(async move { client.ask(request).await });
    // The call starts before time advances.
    tokio::task::yield_now().await;
    clock.advance(40 * STEP).await;
    service.set(vec![endpoint("late", address)]);
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), Code::Unavailable);
    assert_eq!(*asked.lock().unwrap(), [Some("60000000u".to_owned())]);
}

/// An HTTP/2 server without the health service, and without gRPC's status for that.
#[tokio::test]
async fn a_server_that_answers_404_to_health_checks_is_healthy() {
    let clock = ManualClock::begin();
    let (address, _) = non_grpc_server(|it| html_page(it, 404)).await;
    let service = Service::new();
    service.set(vec![endpoint("non_grpc_server", address)]);
    let builder = KubeChannel::builder(service.receiver()).health("shop").panic_threshold(0.0);
    let channel = builder.no_keep_alive().build().unwrap();
    clock.until(|| channel.ready_endpoints() == 1).await;
}
