//! Failures of the network, and their classification by the transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dogwatch_client::BoxError;
use dogwatch_client::transport::TransportErrorKind;
use futures_util::future::join_all;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::support::{Body, Forwarder, Peer, ServerSetup, closed_port, listen, streamed, text};

/// `/watch` sends one line and stays open.
async fn watch_or_get(request: Request<hyper::body::Incoming>, peer: Peer) -> Response<Body> {
    if request.uri().path() != "/watch" {
        return text(peer.connection.to_string());
    }
    let (sender, response) = streamed();
    sender.send(Bytes::from_static(b"first\n")).unwrap();
    tokio::spawn(async move { sender.closed().await });
    response
}

/// Reads the first line of a watch, then calls `then`, then returns the error that the watch ends
/// with.
async fn broken(response: Response<ResponseBody>, then: impl FnOnce()) -> BoxError {
    let mut body = response.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "first\n");
    then();
    body.frame().await.expect("an error, not an end").unwrap_err()
}

#[tokio::test]
async fn a_closed_port_is_refused_and_nothing_was_sent() {
    let authority = Authority::new("cluster");
    for scheme in ["http", "https"] {
        let url = format!("{scheme}://{}", closed_port().await);
        let transport = transport(&trusting(&url, &authority));
        let error = send(&transport, get(&url)).await.unwrap_err();
        assert_eq!(error.kind(), TransportErrorKind::Refused, "{}", chain(&error));
        assert!(error.is_refused() && !error.request_was_sent());
    }
}

#[tokio::test]
async fn a_name_that_cannot_be_resolved_is_a_dns_error() {
    // A label may have at most 63 letters: the resolver fails without a query.
    let url = format!("http://{}.invalid", "x".repeat(70));
    let transport = transport(&Config::new(url.parse().unwrap()));
    let error = send(&transport, get(&url)).await.unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::Dns, "{}", chain(&error));
    assert!(!error.request_was_sent());
}

#[tokio::test]
async fn rq_7_a_body_that_is_cut_is_lost_in_both_protocols() {
    let authority = Authority::new("cluster");
    let leaf = authority.server(&["127.0.0.1"]);
    let setups =
        [ServerSetup::tls(leaf.clone()), ServerSetup::tls(leaf).http1_only(), ServerSetup::default()];
    for setup in setups {
        let server = setup.start(watch_or_get).await;
        let transport = transport(&trusting(&server.url(), &authority));
        let response = send(&transport, get(&format!("{}/watch", server.url()))).await.unwrap();
        let error = broken(response, || server.cut()).await;
        assert_eq!(TransportErrorKind::of(&*error), TransportErrorKind::Lost, "{}", chain(&*error));
        let error = error.downcast_ref::<TransportError>().unwrap();
        assert_eq!(error.to_string(), "the connection was lost in the middle of the response");

        server.wait_for_open(0).await;
        fetch(&transport, &server.url()).await;
    }
}

/// Reads requests, answers `answers` of them, and closes on the next.
async fn answer_then_close(mut stream: TcpStream, answers: usize) {
    for left in (0..=answers).rev() {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        if left == 0 {
            return;
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
    }
}

#[tokio::test]
async fn rq_7_a_server_that_hangs_up_on_a_request_is_lost_and_may_have_acted() {
    let (address, _running) = listen(|stream| answer_then_close(stream, 1)).await;
    let url = format!("http://{address}");
    let transport = transport(&Config::new(url.parse().unwrap()));
    assert_eq!(fetch(&transport, &url).await, "ok");
    let request = Request::post(&url).body(RequestBody::from("create me")).unwrap();
    let error = send(&transport, request).await.unwrap_err();
    assert!(error.is_lost(), "{}", chain(&error));
    assert!(error.request_was_sent(), "a POST must not be repeated blindly");
}

#[tokio::test]
async fn a_body_shorter_than_its_length_is_a_lost_connection() {
    let (address, _running) = listen(|mut stream| async move {
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await.unwrap();
    })
    .await;
    let url = format!("http://{address}");
    let transport = transport(&Config::new(url.parse().unwrap()));
    let response = send(&transport, get(&url)).await.unwrap();
    let error = response.into_body().collect().await.unwrap_err();
    assert_eq!(TransportErrorKind::of(&*error), TransportErrorKind::Lost, "{}", chain(&*error));
}

#[tokio::test]
async fn a_response_that_is_not_http_is_neither_lost_nor_refused() {
    let (address, _running) = listen(|mut stream| async move {
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await;
        stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await.unwrap();
        let _ = stream.read(&mut request).await;
    })
    .await;
    let url = format!("http://{address}");
    let transport = transport(&Config::new(url.parse().unwrap()));
    let error = send(&transport, get(&url)).await.unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::Other, "{}", chain(&error));
}

/// Requests that wait for the same connection fail together; one after the other, fifty of them
/// would take fifty times the timeout.
#[tokio::test]
async fn tr_1_a_handshake_with_a_silent_server_times_out_for_all_waiting_requests() {
    let accepted = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&accepted);
    let (address, _running) = listen(move |stream| {
        counter.fetch_add(1, Ordering::Relaxed);
        async move {
            std::future::pending::<()>().await;
            drop(stream);
        }
    })
    .await;
    let url = format!("https://{address}");
    let mut options = TransportOptions::default();
    options.handshake_timeout = Duration::from_millis(50);
    let config = trusting(&url, &Authority::new("cluster"));
    let transport = Transport::with_options(&config, no_plugin(), options).unwrap();
    for answer in join_all((0..50).map(|_| send(&transport, get(&url)))).await {
        let error = answer.unwrap_err();
        assert!(error.is_timeout() && !error.request_was_sent(), "{}", chain(&error));
    }
    while accepted.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(accepted.load(Ordering::Relaxed), 1);
}

/// client-go's ReconnectBrokenTCP: a connection that goes dark is detected by PING, its watches end
/// with an error, and the next request uses a new connection.
#[tokio::test]
async fn tr_2_a_connection_that_goes_dark_is_detected_by_ping() {
    let (server, authority) = secure_server(watch_or_get).await;
    let network = Forwarder::to(server.address()).await;
    let url = format!("https://{}", network.address());
    let mut options = TransportOptions::default();
    options.ping_interval = Some(Duration::from_secs(5));
    options.ping_timeout = Duration::from_secs(5);
    let transport = Transport::with_options(&trusting(&url, &authority), no_plugin(), options).unwrap();

    let watching = send(&transport, get(&format!("{url}/watch"))).await.unwrap();
    // Nothing arrives any more: from here on only time passes, and it may pass at once.
    let go_dark = || {
        network.go_dark();
        tokio::time::pause();
    };
    let error = broken(watching, go_dark).await;
    tokio::time::resume();
    assert_eq!(TransportErrorKind::of(&*error), TransportErrorKind::Lost, "{}", chain(&*error));
    assert_eq!(fetch(&transport, &url).await, "2");
}

/// The same while a request waits for its response.
#[tokio::test]
async fn tr_2_a_request_on_a_dark_connection_is_lost_and_may_have_been_sent() {
    let (server, authority) = secure_server(watch_or_get).await;
    let network = Forwarder::to(server.address()).await;
    let url = format!("https://{}", network.address());
    let mut options = TransportOptions::default();
    options.ping_interval = Some(Duration::from_secs(5));
    options.ping_timeout = Duration::from_secs(5);
    let transport = Transport::with_options(&trusting(&url, &authority), no_plugin(), options).unwrap();
    assert_eq!(fetch(&transport, &url).await, "1");
    network.go_dark();
    tokio::time::pause();
    let error = send(&transport, get(&url)).await.unwrap_err();
    assert!(error.is_lost() && error.request_was_sent(), "{}", chain(&error));
}

/// client-go's ReconnectBrokenTCP_HTTP1: an idle connection that went dark delays only the request
/// that uses it.
#[tokio::test]
async fn tr_2_a_dark_connection_of_http_1_is_closed_with_the_request_on_it() {
    let authority = Authority::new("cluster");
    let setup = ServerSetup::tls(authority.server(&["127.0.0.1"])).http1_only();
    let server = setup.start(watch_or_get).await;
    let network = Forwarder::to(server.address()).await;
    let url = format!("https://{}", network.address());
    let transport = transport(&trusting(&url, &authority));
    let first = fetch(&transport, &url).await;
    assert_eq!(fetch(&transport, &url).await, first, "the connection is kept");
    network.go_dark();
    let unanswered = send(&transport, get(&url));
    // Time passes at once, but not before the request has been sent as far as possible.
    tokio::time::pause();
    assert!(tokio::time::timeout(Duration::from_secs(10), unanswered).await.is_err());
    tokio::time::resume();
    assert_ne!(fetch(&transport, &url).await, first, "the next request has another");
}

/// client-go's ReconnectBrokenTCPInFlight_HTTP1: a request that hangs on a dark connection does not
/// block others.
#[tokio::test]
async fn tr_2_a_request_in_flight_on_a_dark_connection_of_http_1_blocks_no_other() {
    let authority = Authority::new("cluster");
    let setup = ServerSetup::tls(authority.server(&["127.0.0.1"])).http1_only();
    let server = setup.start(watch_or_get).await;
    let network = Forwarder::to(server.address()).await;
    let url = format!("https://{}", network.address());
    let transport = transport(&trusting(&url, &authority));
    let hanging = send(&transport, get(&format!("{url}/watch"))).await.unwrap();
    let before = server.accepted();
    network.go_dark();
    soon(fetch(&transport, &url)).await;
    assert_eq!(server.accepted(), before + 1);
    drop(hanging);
}

#[tokio::test]
async fn a_request_without_a_host_is_rejected_at_once() {
    let transport = transport(&Config::new("http://127.0.0.1:1".parse().unwrap()));
    let error = send(&transport, get("/api")).await.unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::Config);
}
