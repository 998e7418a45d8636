//! Requests of web pages in a browser on the same machine to a server without credentials, and
//! resources that unauthenticated clients can make a server hold.

use std::sync::Arc;
use std::time::Duration;

use crate::ApiServer;
use crate::auth::{Anonymous, Authenticator};
use crate::cluster::{Cluster, Source};
use crate::http::{Service, Settings};
use crate::serving::{BoxError, ConnectionParts, Serving};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use proptest::prelude::*;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::tests::raw_http::{address, exchange};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"planted"}}"#;
/// The headers that Chrome and Firefox add to a request of a page on another site.
const CROSS_SITE: &str =
    "Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n";

/// Starts a server with all features, and returns the Host header for it.
async fn open_server() -> (ApiServer, String) {
    let server = ApiServer::builder().fault_admin(true).start().await.unwrap();
    let host = format!("Host: {}\r\n", address(&server));
    (server, host)
}

fn is_planted(server: &ApiServer) -> bool {
    let maps = server.cluster().catalog().kind("", "v1", "configmaps").unwrap();
    server.cluster().list(&maps, None).iter().any(|it| it.key().name() == "planted")
}

#[tokio::test]
async fn requests_of_pages_on_other_sites_are_rejected() {
    let (server, host) = open_server().await;
    let old_browser = "Origin: https://evil.example\r\n";
    let preflight = "Origin: https://evil.example\r\nAccess-Control-Request-Method: DELETE\r\n\
                     Access-Control-Request-Headers: content-type\r\n";
    let form = "Origin: null\r\nContent-Type: text/plain\r\n";
    for (line, headers, body) in [
        // fetch(url, { method: "POST", mode: "no-cors", body: new Blob([json]) }) sends no
        // Content-Type.
        (format!("POST {MAPS}"), CROSS_SITE, MAP),
        (format!("POST {MAPS}"), old_browser, MAP),
        (format!("POST {MAPS}"), form, MAP),
        (format!("POST {MAPS}"), "Sec-Fetch-Site: same-site\r\n", MAP),
        (format!("POST {MAPS}"), "Origin: http://127.0.0.1:1\r\n", MAP),
        (format!("GET {MAPS}"), "Sec-Fetch-Site: cross-site\r\n", ""),
        (format!("OPTIONS {MAPS}/planted"), preflight, ""),
        ("POST /_dogwatch/faults".to_owned(), CROSS_SITE, r#"{"verb":"list"}"#),
        ("POST /_dogwatch/faults/drop-watches".to_owned(), CROSS_SITE, ""),
        ("GET /metrics".to_owned(), CROSS_SITE, ""),
        ("GET /readyz".to_owned(), CROSS_SITE, ""),
    ] {
        let response = exchange(address(&server), &line, &format!("{host}{headers}"), body).await;
        assert_eq!(response.code, 403, "{line} {headers}: {}", response.body);
        assert!(!response.head.contains("access-control-"), "{}", response.head);
        let status: Value = serde_json::from_str(&response.body).expect("a status");
        assert_eq!((&status["kind"], &status["reason"]), (&"Status".into(), &"Forbidden".into()));
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("web page") && message.contains("--token"), "{message}");
    }
    assert!(!is_planted(&server));
}

#[tokio::test]
async fn a_foreign_host_name_is_rejected_as_dns_rebinding() {
    let (server, own_host) = open_server().await;
    let foreign = "Host: rebind.attacker.example:8080\r\n";
    for (line, headers, body) in [
        ("GET /api/v1/secrets", foreign, ""),
        ("GET /metrics", foreign, ""),
        ("GET /_dogwatch/faults", foreign, ""),
        // For the browser, this is the page's own origin, so the page may add any header.
        ("GET /api/v1/secrets", "Host: rebind.attacker.example\r\nAuthorization: Basic YTpi\r\n", ""),
        ("GET http://rebind.attacker.example/api/v1/secrets", own_host.as_str(), ""),
        (
            "POST /api/v1/namespaces/default/configmaps",
            "Host: rebind.attacker.example\r\nSec-Fetch-Site: same-origin\r\n",
            MAP,
        ),
    ] {
        let response = exchange(address(&server), line, headers, body).await;
        assert_eq!(response.code, 403, "{line} {headers}: {}", response.body);
        assert!(
            response.body.contains("DNS rebinding") && response.body.contains("--token"),
            "{}",
            response.body
        );
    }
    assert!(!is_planted(&server));

    let mut sender = http2_to(address(&server)).await;
    for (host, code) in [("rebind.attacker.example", StatusCode::FORBIDDEN), ("localhost", StatusCode::OK)] {
        let request = Request::get(format!("http://{host}/api/v1/secrets")).body(empty()).unwrap();
        assert_eq!(sender.send_request(request).await.unwrap().status(), code, "{host}");
    }
}

#[tokio::test]
async fn clients_and_the_servers_own_pages_are_accepted() {
    let (server, own_host) = open_server().await;
    let at = address(&server);
    for headers in [
        own_host.clone(),
        format!("Host: localhost:{}\r\nUser-Agent: kubectl/v1.36.4\r\n", at.port()),
        // Through a tunnel, the port differs.
        "Host: localhost:9000\r\n".to_owned(),
        "Host: [::1]:9000\r\n".to_owned(),
        format!("{own_host}Sec-Fetch-Site: none\r\n"),
        format!("{own_host}Sec-Fetch-Site: same-origin\r\nOrigin: http://{at}\r\n"),
    ] {
        let response = exchange(at, "GET /api/v1/secrets", &headers, "").await;
        assert_eq!(response.code, 200, "{headers}: {}", response.body);
    }
}

#[tokio::test]
async fn a_server_accepts_the_host_name_it_advertises() {
    let server = ApiServer::builder().advertise("box.lan").start().await.unwrap();
    assert!(server.url().starts_with("http://box.lan:"), "{}", server.url());
    let at = format!("127.0.0.1:{}", server.url().rsplit(':').next().unwrap()).parse().unwrap();
    for (host, code) in [("box.lan", 200), ("other.lan", 403)] {
        let response = exchange(at, "GET /api", &format!("Host: {host}\r\n"), "").await;
        assert_eq!(response.code, code, "{host}");
    }
}

#[tokio::test]
async fn a_token_is_required_and_makes_the_host_header_irrelevant() {
    let server = ApiServer::builder().token("hunter2").start().await.unwrap();
    for (headers, code) in [
        ("Host: any.proxy.example\r\nAuthorization: Bearer hunter2\r\n", 200),
        // A page cannot know the token; a program that has it may run behind a proxy that forwards
        // Origin.
        ("Host: any.proxy.example\r\nOrigin: https://a.example\r\nAuthorization: Bearer hunter2\r\n", 200),
        ("Host: any.proxy.example\r\nOrigin: https://a.example\r\n", 401),
        ("Host: localhost\r\nAuthorization: Basic YTpi\r\n", 401),
    ] {
        let response = exchange(address(&server), "GET /api", headers, "").await;
        assert_eq!(response.code, code, "{headers}");
    }
}

#[tokio::test]
async fn unauthenticated_requests_do_not_add_metric_labels() {
    let server = ApiServer::builder().token("hunter2").start().await.unwrap();
    for at in 0..100 {
        let method = format!("{at}{}", "M".repeat(60_000));
        let response = exchange(address(&server), &format!("{method} /api"), "Host: localhost\r\n", "").await;
        assert_eq!(response.code, 401);
    }
    let token = "Host: localhost\r\nAuthorization: Bearer hunter2\r\n";
    let metrics = exchange(address(&server), "GET /metrics", token, "").await.body;
    assert!(metrics.len() < 2_000, "{} bytes", metrics.len());
    assert!(metrics.contains(r#"code="401",group="",resource="",verb="other"} 100"#), "{metrics}");
}

type Outgoing = UnsyncBoxBody<Bytes, BoxError>;

fn empty() -> Outgoing {
    Empty::new().map_err(|it| match it {}).boxed_unsync()
}

async fn http2_to(address: std::net::SocketAddr) -> SendRequest<Outgoing> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Starts a server on a socket that limits the bytes of request bodies held in memory.
async fn with_body_limits(all: usize, connection: usize) -> Serving<Service> {
    let cluster = Cluster::new(Source::real());
    cluster.bootstrap().await;
    let settings = Settings { bodies_limit: all, connection_bodies_limit: connection, ..Settings::default() };
    let authenticator = Authenticator::new().anonymous(Anonymous::Admin);
    let service = Service::new(Arc::new(cluster), authenticator).settings(settings);
    Serving::bind(service, "127.0.0.1:0".parse().unwrap(), None, ConnectionParts::default()).await.unwrap()
}

/// Returns a request whose body lasts as long as its sender.
fn creation(body: mpsc::Receiver<Bytes>) -> Request<Outgoing> {
    let frames = futures_util::stream::unfold(body, |mut body| async {
        body.recv().await.map(|it| (Ok::<_, BoxError>(Frame::data(it)), body))
    });
    let body = BodyExt::boxed_unsync(StreamBody::new(frames));
    Request::post(format!("http://localhost{MAPS}")).body(body).unwrap()
}

#[tokio::test]
async fn request_bodies_in_memory_are_bounded_per_connection_and_in_total() {
    let wait = Duration::from_secs(60);
    let serving = with_body_limits(150_000, 100_000).await;
    let address = serving.address().unwrap();
    let (mut first, mut second) = (http2_to(address).await, http2_to(address).await);
    // Two incomplete bodies: 80,000 bytes on one connection, 40,000 on the other.
    let mut open = Vec::new();
    for (sender, bytes) in [(&mut first, 80_000), (&mut second, 40_000)] {
        let (body, frames) = mpsc::channel(1);
        body.send(Bytes::from(vec![b' '; bytes])).await.unwrap();
        let response = tokio::spawn(sender.send_request(creation(frames)));
        // The channel holds one chunk: when this send completes, the previous chunk was taken.
        body.send(Bytes::from_static(b" ")).await.unwrap();
        open.push((body, response));
    }
    // Requests are accepted until both bodies are counted, which takes a while on a slow machine.
    for (sender, bytes) in [(&mut first, 30_000), (&mut second, 50_000)] {
        let rejected = async {
            loop {
                let body = Full::new(Bytes::from(vec![b' '; bytes])).map_err(|it| match it {}).boxed_unsync();
                let request = Request::post(format!("http://localhost{MAPS}")).body(body).unwrap();
                let response = sender.send_request(request).await.unwrap();
                if response.status() == StatusCode::TOO_MANY_REQUESTS {
                    return response;
                }
                assert_eq!(response.status(), StatusCode::BAD_REQUEST);
            }
        };
        let rejected = tokio::time::timeout(wait, rejected).await.expect("a rejection within a minute");
        assert_eq!(rejected.headers()["retry-after"], "1");
    }
    // The open requests complete, and release their bytes.
    for (at, (body, response)) in open.into_iter().enumerate() {
        body.send(Bytes::from(MAP.replace("planted", &format!("map-{at}")))).await.unwrap();
        drop(body);
        let response = tokio::time::timeout(wait, response).await.expect("a response within a minute");
        assert_eq!(response.unwrap().unwrap().status(), StatusCode::CREATED);
    }
    for at in 0..20 {
        let object = MAP.replace("planted", &format!("later-{at}")) + &" ".repeat(90_000);
        let body = Full::new(Bytes::from(object)).map_err(|it| match it {}).boxed_unsync();
        let request = Request::post(format!("http://localhost{MAPS}")).body(body).unwrap();
        assert_eq!(first.send_request(request).await.unwrap().status(), StatusCode::CREATED, "{at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// For any method, path and headers, a rejected request adds almost nothing to the metrics.
    #[test]
    fn a_rejected_request_adds_almost_nothing_to_the_metrics(
        method in "[A-Z]{1,5000}", path in "/[a-z/]{0,5000}", header in "[ -~]{0,5000}"
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = ApiServer::builder().token("hunter2").request_log(0).start().await.unwrap();
            let headers = format!("Host: localhost\r\nX-Any: {header}\r\n");
            let response = exchange(address(&server), &format!("{method} {path}"), &headers, "").await;
            // Public paths respond, and some paths are not in the catalog; none of them becomes a
            // label.
            assert!([200, 401, 404, 405].contains(&response.code), "{}", response.code);
            let token = "Host: localhost\r\nAuthorization: Bearer hunter2\r\n";
            let metrics = exchange(address(&server), "GET /metrics", token, "").await.body;
            let requests = metrics.lines().filter(|it| it.starts_with("apiserver_request_total"));
            let bytes: usize = requests.map(str::len).sum();
            assert!(bytes < 500, "{metrics}");
        });
    }
}
