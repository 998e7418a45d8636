//! Connections of every kind to a handler that is not the API.

pub(crate) mod client;

use std::time::Duration;

use crate::auth::PeerIdentity;
use crate::http::Cut;
use crate::serving::{BoxError, Certificates, ConnectionParts, Handler, RequestBody, Serving, Tls};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response, StatusCode, Version};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tower::ServiceExt;

use client::{Sender, handshake, over_tcp, over_tls, send};

/// A handler that responds by path: with the peer and the HTTP version, after an hour, without an
/// end, or not at all.
struct TestHandler;

impl Handler for TestHandler {
    type Body = UnsyncBoxBody<Bytes, BoxError>;

    async fn respond(
        &self,
        request: Request<RequestBody>,
        peer: Option<&PeerIdentity>,
    ) -> Result<Response<Self::Body>, Cut> {
        let whole = |text: String| Full::new(Bytes::from(text)).map_err(|it| match it {}).boxed_unsync();
        let body = match request.uri().path() {
            "/cut" => return Err(Cut),
            "/later" => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                whole("later".to_owned())
            }
            "/endless" => {
                let first = stream::iter([Ok::<_, BoxError>(Frame::data(Bytes::from("first")))]);
                BodyExt::boxed_unsync(StreamBody::new(first.chain(stream::pending())))
            }
            "/broken" => {
                let pieces = [Ok(Frame::data(Bytes::from("first"))), Err(BoxError::from("broken"))];
                BodyExt::boxed_unsync(StreamBody::new(stream::iter(pieces)))
            }
            "/panic" => panic!("on purpose"),
            "/panic-later" => {
                let first = stream::iter([Ok::<_, BoxError>(Frame::data(Bytes::from("first")))]);
                let later = stream::once(async { panic!("on purpose") });
                BodyExt::boxed_unsync(StreamBody::new(first.chain(later)))
            }
            "/echo" => {
                let body = request.into_body().collect().await.map_err(|_| Cut)?;
                Full::new(body.to_bytes()).map_err(|it| match it {}).boxed_unsync()
            }
            _ => {
                let name = match peer {
                    None => "anonymous",
                    Some(it) if *it == PeerIdentity::stranger() => "a stranger",
                    Some(it) => it.common_name.as_str(),
                };
                whole(format!("{name} in {:?}", request.version()))
            }
        };
        Ok(Response::new(body))
    }
}

async fn plain() -> (Serving<TestHandler>, std::net::SocketAddr) {
    let serving =
        Serving::bind(TestHandler, "127.0.0.1:0".parse().unwrap(), None, ConnectionParts::default())
            .await
            .unwrap();
    let address = serving.address().unwrap();
    (serving, address)
}

async fn with_tls() -> (Serving<TestHandler>, std::net::SocketAddr, Certificates) {
    let certificates = Certificates::throwaway([127, 0, 0, 1].into()).unwrap();
    let tls = Tls::new(certificates.server_der(), &certificates, Vec::new()).unwrap();
    let serving =
        Serving::bind(TestHandler, "127.0.0.1:0".parse().unwrap(), Some(tls), ConnectionParts::default())
            .await
            .unwrap();
    let address = serving.address().unwrap();
    (serving, address, certificates)
}

async fn text(sender: &mut Sender, path: &str) -> String {
    let response = send(sender, path).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn one_port_serves_http_1_and_http_2() {
    let (_serving, address) = plain().await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut sender = over_tcp(address, version).await;
        assert_eq!(text(&mut sender, "/").await, format!("anonymous in {version:?}"));
        // The connection is kept for the next request.
        assert_eq!(text(&mut sender, "/").await, format!("anonymous in {version:?}"));
    }
}

#[tokio::test]
async fn tls_negotiates_the_protocol_with_alpn() {
    let (_serving, address, certificates) = with_tls().await;
    for (offered, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let mut sender = over_tls(address, &certificates.authority(), None, offered).await.unwrap();
        assert_eq!(text(&mut sender, "/").await, format!("anonymous in {version:?}"), "{offered:?}");
    }
}

#[tokio::test]
async fn a_certificate_of_another_authority_identifies_the_peer_if_the_authority_is_trusted() {
    let loopback = [127, 0, 0, 1].into();
    let (own, other) =
        (Certificates::throwaway(loopback).unwrap(), Certificates::throwaway(loopback).unwrap());
    let jane = other.client("jane", "devs").unwrap();
    for (trusts, name) in [(true, "jane"), (false, "a stranger")] {
        let others = if trusts { vec![other.authority_der()] } else { Vec::new() };
        let tls = Tls::new(own.server_der(), &own, others).unwrap();
        let serving =
            Serving::bind(TestHandler, "127.0.0.1:0".parse().unwrap(), Some(tls), ConnectionParts::default())
                .await
                .unwrap();
        let address = serving.address().unwrap();
        let mut sender = over_tls(address, &own.authority(), Some(&jane), &["h2"]).await.unwrap();
        assert_eq!(text(&mut sender, "/").await, format!("{name} in HTTP/2.0"));
    }
}

#[tokio::test]
async fn a_client_certificate_identifies_the_peer() {
    let (_serving, address, certificates) = with_tls().await;
    let jane = certificates.client("jane", "devs").unwrap();
    let mut sender = over_tls(address, &certificates.authority(), Some(&jane), &["h2"]).await.unwrap();
    assert_eq!(text(&mut sender, "/").await, "jane in HTTP/2.0");
}

#[tokio::test]
async fn a_client_certificate_of_another_authority_is_a_stranger() {
    let (_serving, address, certificates) = with_tls().await;
    let other = Certificates::throwaway([127, 0, 0, 1].into()).unwrap().client("jane", "devs").unwrap();
    for offered in [&["http/1.1"], &["h2"]] {
        let mut sender = over_tls(address, &certificates.authority(), Some(&other), offered).await.unwrap();
        assert!(text(&mut sender, "/").await.starts_with("a stranger in "));
    }
}

#[tokio::test]
async fn a_client_without_tls_gets_no_response() {
    let (_serving, address, _) = with_tls().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    assert!(!response.starts_with(b"HTTP"), "{response:?}");
}

#[tokio::test]
async fn a_cut_closes_an_http_1_connection_without_a_response() {
    let (_serving, address) = plain().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /cut HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    assert_eq!(response, b"");
}

#[tokio::test]
async fn a_cut_resets_one_http_2_stream_and_keeps_the_others() {
    let (_serving, address) = plain().await;
    let mut sender = over_tcp(address, Version::HTTP_2).await;
    let mut endless = send(&mut sender, "/endless").await.unwrap().into_body();
    assert!(send(&mut sender, "/cut").await.is_err());
    assert_eq!(text(&mut sender, "/").await, "anonymous in HTTP/2.0");
    assert_eq!(endless.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
}

#[tokio::test]
async fn a_truncated_response_is_an_error_for_the_client() {
    let (_serving, address) = plain().await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut sender = over_tcp(address, version).await;
        let broken = match send(&mut sender, "/broken").await {
            Ok(response) => response.into_body().collect().await.is_err(),
            Err(_) => true,
        };
        assert!(broken, "{version:?}");
    }
}

#[tokio::test]
async fn dropping_the_server_frees_the_port_and_closes_connections() {
    let (serving, address) = plain().await;
    let mut sender = over_tcp(address, Version::HTTP_2).await;
    let mut endless = send(&mut sender, "/endless").await.unwrap().into_body();
    assert_eq!(endless.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
    drop(serving);
    let again = TcpListener::bind(address).await;
    assert!(again.is_ok(), "{again:?}");
    assert!(endless.frame().await.is_none_or(|it| it.is_err()));
}

#[tokio::test]
async fn stopping_ends_all_connections_and_tasks() {
    let (serving, address) = plain().await;
    let mut idle = over_tcp(address, Version::HTTP_2).await;
    assert_eq!(text(&mut idle, "/").await, "anonymous in HTTP/2.0");
    let mut sender = over_tcp(address, Version::HTTP_11).await;
    let mut endless = send(&mut sender, "/endless").await.unwrap().into_body();
    endless.frame().await.unwrap().unwrap();
    let handler = std::sync::Arc::downgrade(serving.handler());
    serving.stop().await;
    assert!(handler.upgrade().is_none(), "a task still runs");
    assert!(endless.frame().await.is_none_or(|it| it.is_err()));
    assert!(send(&mut idle, "/").await.is_err());
    assert!(TcpStream::connect(address).await.is_err());
}

/// Regression test: a client that sent half a request held its connection for ever.
#[tokio::test(start_paused = true)]
async fn a_connection_without_complete_headers_is_closed() {
    let (_serving, address) = plain().await;
    for sent in ["", "GET", "GET / HTTP/1.1\r\nHost: a\r\n"] {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response).await;
        assert!(begun.elapsed() >= Duration::from_secs(120), "{sent:?} {:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_complete_handshake_is_closed() {
    let (_serving, address, _) = with_tls().await;
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    assert!(begun.elapsed() >= Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_is_exact_without_a_socket() {
    let serving = Serving::in_process(TestHandler);
    let begun = Instant::now();
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut sender = handshake(serving.connector().connect().unwrap(), version).await;
        assert_eq!(text(&mut sender, "/later").await, "later");
    }
    assert_eq!(begun.elapsed(), Duration::from_secs(7200));
    let request = Request::get("http://a/later").body(Full::<Bytes>::default()).unwrap();
    let response = serving.service().oneshot(request).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "later");
    assert_eq!(begun.elapsed(), Duration::from_secs(3 * 3600));
}

#[tokio::test]
async fn hyper_clients_connect_without_a_socket() {
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;
    let serving = Serving::in_process(TestHandler);
    for (only_2, expected) in [(false, "anonymous in HTTP/1.1"), (true, "anonymous in HTTP/2.0")] {
        let client: Client<_, Full<Bytes>> =
            Client::builder(TokioExecutor::new()).http2_only(only_2).build(serving.connector());
        let response = client.get("http://any.name/".parse().unwrap()).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), expected);
    }
}

#[tokio::test]
async fn direct_calls_carry_bodies_and_cuts() {
    let serving = Serving::in_process(TestHandler);
    let request = |path: &str, body: &'static str| {
        Request::post(format!("http://a{path}")).body(Full::new(Bytes::from(body))).unwrap()
    };
    let response = serving.service().oneshot(request("/echo", "hello")).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hello");
    assert!(serving.service().oneshot(request("/cut", "")).await.is_err());
}

#[tokio::test]
async fn a_dropped_server_is_unreachable() {
    let serving = Serving::in_process(TestHandler);
    let (connector, service) = (serving.connector(), serving.service());
    let request = || Request::get("http://a/endless").body(Full::<Bytes>::default()).unwrap();
    let mut body = service.clone().oneshot(request()).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
    drop(serving);
    assert!(body.frame().await.unwrap().is_err());
    assert!(service.oneshot(request()).await.is_err());
    assert!(connector.connect().is_err());
}

#[tokio::test]
async fn a_panicking_handler_loses_only_its_own_stream() {
    let (serving, address) = plain().await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut sender = over_tcp(address, version).await;
        assert!(send(&mut sender, "/panic").await.is_err(), "{version:?}");
        if version == Version::HTTP_11 {
            sender = over_tcp(address, version).await;
        }
        // Over HTTP/1.1, the panic may come before the head is written.
        let response = send(&mut sender, "/panic-later").await;
        let body = async { response.ok()?.into_body().collect().await.ok() };
        assert!(body.await.is_none(), "{version:?}");
        if version == Version::HTTP_2 {
            assert_eq!(text(&mut sender, "/").await, "anonymous in HTTP/2.0", "the connection is kept");
        }
    }
    for path in ["/panic", "/panic-later"] {
        let request = Request::get(path).body(Full::<Bytes>::default()).unwrap();
        match serving.service().oneshot(request).await {
            Err(_) => assert_eq!(path, "/panic"),
            Ok(response) => assert!(response.into_body().collect().await.is_err()),
        }
    }
}
