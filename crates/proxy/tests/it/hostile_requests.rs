//! Requests that no client sends.

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use dogwatch_proxy::Proxy;

use crate::support::{plain, within};
use crate::upstream_double::{connect, recording};

/// Sends bytes and returns the status line of the answer, if there is one.
async fn ask(proxy: &Proxy, bytes: &[u8]) -> Option<StatusCode> {
    let mut stream = connect(proxy).await;
    // The proxy may close the connection before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = within("the end of the connection", stream.read_to_end(&mut answer)).await;
    let text = String::from_utf8_lossy(&answer).into_owned();
    text.strip_prefix("HTTP/1.1 ").and_then(|it| it.get(..3)?.parse().ok())
}

#[tokio::test]
async fn a_request_is_refused_before_it_reaches_upstream() {
    let (upstream, mut seen) = recording().await;
    let proxy = Proxy::start(upstream, plain()).await.unwrap();
    let large = format!("GET / HTTP/1.1\r\nHost: localhost\r\nx: {}\r\n\r\n", "x".repeat(300 * 1024));
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "x: y\r\n".repeat(5_000));
    for (name, request, code) in [
        ("large headers", large.as_str(), 431),
        ("many headers", &many, 431),
        ("a tunnel", "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 405),
        ("a foreign host", "GET / HTTP/1.1\r\nHost: rebound.test\r\nConnection: close\r\n\r\n", 403),
        ("no host", "GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 403),
        ("no path", "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400),
        (
            "two lengths",
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            400,
        ),
        (
            "a length and chunks, in HTTP/1.0",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        ("no HTTP", "\u{1}\u{2}\u{3}\r\n\r\n", 400),
    ] {
        assert_eq!(ask(&proxy, request.as_bytes()).await.map(|it| it.as_u16()), Some(code), "{name}");
        assert!(seen.try_recv().is_err(), "{name} was passed on");
    }
}

#[tokio::test]
async fn a_request_cannot_be_smuggled_behind_another() {
    let (upstream, mut seen) = recording().await;
    let proxy = Proxy::start(upstream, plain()).await.unwrap();
    let request = "POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
                   0\r\n\r\nGET /b HTTP/1.1\r\nHost: localhost\r\nx-second: 1\r\n\r\n";
    ask(&proxy, request.as_bytes()).await;
    while let Ok(headers) = seen.try_recv() {
        assert!(!headers.contains_key("x-second"), "{headers:?}");
        assert!(
            !(headers.contains_key("content-length") && headers.contains_key("transfer-encoding")),
            "{headers:?}"
        );
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_and_are_served_when_others_end() {
    let (upstream, _seen) = recording().await;
    let mut options = plain();
    options.max_connections = 1;
    let proxy = Proxy::start(upstream, options).await.unwrap();
    let mut first = connect(&proxy).await;
    first.write_all(b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut byte = [0];
    within("an answer", first.read_exact(&mut byte)).await.unwrap();
    let second = ask(&proxy, b"GET /b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut second = std::pin::pin!(second);
    let early = futures_util::future::poll_immediate(second.as_mut()).await;
    assert!(early.is_none(), "the first connection is open");
    drop(first);
    assert_eq!(within("an answer to the second", second).await, Some(StatusCode::OK));
}

#[tokio::test]
async fn the_address_of_the_caller_is_added_to_the_forwarded_ones() {
    let (upstream, mut seen) = recording().await;
    let proxy = Proxy::start(upstream, plain()).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 192.0.2.1\r\nConnection: close, x-hop\r\nX-Hop: 1\r\n\r\n";
    assert_eq!(ask(&proxy, request).await, Some(StatusCode::OK));
    let headers = seen.recv().await.unwrap();
    assert_eq!(headers["x-forwarded-for"], "192.0.2.1, 127.0.0.1");
    assert!(!headers.contains_key("x-hop"));
}
