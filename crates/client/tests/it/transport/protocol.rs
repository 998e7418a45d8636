//! The choice of the HTTP version: by ALPN, by settings, and for upgrades.

use async_compression::tokio::write::GzipEncoder;
use dogwatch_client::config::HttpVersion;
use dogwatch_client::transport::{Transport, TransportOptions};
use http::{HeaderValue, Version, header};
use hyper_util::rt::TokioIo;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::support::{Body, Peer, ServerSetup, empty, text};

/// Responds with the protocol negotiated by the handshake.
async fn protocol(_request: Request<hyper::body::Incoming>, peer: Peer) -> Response<Body> {
    text(peer.alpn.unwrap_or_else(|| "plain".to_owned()))
}

#[test]
fn a_transport_can_be_shared_between_tasks_and_its_debug_text_is_empty() {
    fn shared<T: Clone + Send + Sync + std::fmt::Debug + 'static>(value: &T) -> String {
        format!("{value:?}")
    }
    let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
    config.proxy_url = Some("http://me:s3cret@proxy.test".parse().unwrap());
    assert_eq!(shared(&transport(&config)), "Transport { .. }");
}

#[tokio::test]
async fn http2_is_used_if_the_server_offers_it() {
    let (server, authority) = secure_server(protocol).await;
    let transport = transport(&trusting(&server.url(), &authority));
    let response = send(&transport, get(&server.url())).await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    assert_eq!(read(response).await, "h2");
}

#[tokio::test]
async fn http1_is_used_if_the_server_offers_nothing_else() {
    let authority = Authority::new("cluster");
    let setup = ServerSetup::tls(authority.server(&["127.0.0.1"])).http1_only();
    let server = setup.start(protocol).await;
    let transport = transport(&trusting(&server.url(), &authority));
    for _ in 0..3 {
        let response = send(&transport, get(&server.url())).await.unwrap();
        assert_eq!(response.version(), Version::HTTP_11);
        assert_eq!(read(response).await, "http/1.1");
    }
    assert_eq!(server.accepted(), 2, "one to learn the server's protocol, one that is reused");
}

#[tokio::test]
async fn tr_2_settings_and_environment_can_forbid_http2() {
    let (server, authority) = secure_server(protocol).await;
    let mut config = trusting(&server.url(), &authority);
    let options = TransportOptions::from_env(|name| (name == "DISABLE_HTTP2").then(|| "1".to_owned()));
    let forbidden_by_env = Transport::with_options(&config, no_plugin(), options).unwrap();
    config.http = HttpVersion::Http1;
    let forbidden_by_settings = transport(&config);
    for transport in [forbidden_by_env, forbidden_by_settings] {
        assert_eq!(fetch(&transport, &server.url()).await, "http/1.1");
    }
}

#[tokio::test]
async fn plain_http_works_without_any_certificate() {
    let server = ServerSetup::default().start(protocol).await;
    let transport = transport(&Config::new(server.url().parse().unwrap()));
    assert_eq!(fetch(&transport, &server.url()).await, "plain");
}

/// WebSockets (exec, port-forward) need HTTP/1.1 even if everything else uses HTTP/2.
#[tokio::test]
async fn an_upgrade_uses_http1_and_returns_the_stream() {
    let (server, authority) = secure_server(|mut request, _| async move {
        tokio::spawn(async move {
            let mut stream = TokioIo::new(hyper::upgrade::on(&mut request).await.unwrap());
            stream.write_all(b"hello").await.unwrap();
        });
        let mut response = empty();
        *response.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("echo"));
        response
    })
    .await;
    let transport = transport(&trusting(&server.url(), &authority));
    let mut request = get(&server.url());
    request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    request.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("echo"));
    let mut response = send(&transport, request).await.unwrap();
    assert_eq!(response.status(), http::StatusCode::SWITCHING_PROTOCOLS);
    let mut stream = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    let mut received = [0; 5];
    stream.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"hello");
}

/// Responds with gzip if and only if it is requested.
async fn zipped(request: Request<hyper::body::Incoming>, _: Peer) -> Response<Body> {
    if request.headers().get(header::ACCEPT_ENCODING).is_none_or(|it| it != "gzip") {
        return text("plain");
    }
    let mut encoder = GzipEncoder::new(Vec::new());
    encoder.write_all(b"zipped").await.unwrap();
    encoder.shutdown().await.unwrap();
    let mut response = text(encoder.into_inner());
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response
}

#[tokio::test]
async fn tr_6_gzip_is_used_unless_the_settings_or_the_request_disable_it() {
    let (server, authority) = secure_server(zipped).await;
    let mut config = trusting(&server.url(), &authority);
    let asking = transport(&config);
    assert_eq!(fetch(&asking, &server.url()).await, "zipped");

    let mut request = get(&server.url());
    request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    assert_eq!(read(send(&asking, request).await.unwrap()).await, "plain");

    config.disable_compression = true;
    assert_eq!(fetch(&transport(&config), &server.url()).await, "plain");
}

#[tokio::test]
async fn a_transport_and_a_resolved_name_are_counted() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let server = ServerSetup::default().start(protocol).await;
    let url = format!("http://localhost:{}", server.address().port());
    let transport = transport(&Config::new(url.parse().unwrap()));
    assert_eq!(fetch(&transport, &url).await, "plain");

    let seen = recorder.snapshotter().snapshot().into_vec();
    let value = |name: &str| {
        seen.iter().find(|(key, ..)| key.key().name() == name).map(|(key, _, _, value)| (key.key(), value))
    };
    let (_, created) = value("rest_client_transport_create_calls_total").unwrap();
    assert_eq!(*created, DebugValue::Counter(1));
    let (key, times) = value("rest_client_dns_resolution_duration_seconds").unwrap();
    assert!(matches!(times, DebugValue::Histogram(times) if times.len() == 1), "{times:?}");
    assert!(key.labels().any(|label| (label.key(), label.value()) == ("host", "localhost")));
}
