//! What a web page in a browser on the same machine can send to a server that needs no credentials,
//! and what callers without any can make a server keep.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::auth::{Anonymous, Authenticator};
use dogwatch_apiserver::cluster::{Cluster, Source};
use dogwatch_apiserver::http::{Service, Settings};
use dogwatch_apiserver::serving::{BoxError, Serving};
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

use crate::raw_http::{address, exchange};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"planted"}}"#;
/// What Chrome and Firefox add to a request of a page on another site.
const CROSS_SITE: &str =
    "Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n";

/// A server with everything that a page might want, and how a page names it.
async fn victim() -> (ApiServer, String) {
    let server = ApiServer::builder().fault_admin(true).start().await.unwrap();
    let host = format!("Host: {}\r\n", address(&server));
    (server, host)
}

fn is_planted(server: &ApiServer) -> bool {
    let maps = server.cluster().catalog().kind("", "v1", "configmaps").unwrap();
    server.cluster().list(&maps, None).iter().any(|it| it.key().name() == "planted")
}

#[tokio::test]
async fn a_page_of_another_site_can_do_nothing() {
    let (server, host) = victim().await;
    let old_browser = "Origin: https://evil.example\r\n";
    let preflight = "Origin: https://evil.example\r\nAccess-Control-Request-Method: DELETE\r\n\
                     Access-Control-Request-Headers: content-type\r\n";
    let form = "Origin: null\r\nContent-Type: text/plain\r\n";
    for (line, headers, body) in [
        // fetch(url, { method: "POST", mode: "no-cors", body: new Blob([json]) }) has no
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
        let answer = exchange(address(&server), &line, &format!("{host}{headers}"), body).await;
        assert_eq!(answer.code, 403, "{line} {headers}: {}", answer.body);
        assert!(!answer.head.contains("access-control-"), "{}", answer.head);
        let status: Value = serde_json::from_str(&answer.body).expect("a status");
        assert_eq!((&status["kind"], &status["reason"]), (&"Status".into(), &"Forbidden".into()));
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("web page") && message.contains("--token"), "{message}");
    }
    assert!(!is_planted(&server));
}

#[tokio::test]
async fn a_name_that_was_made_to_lead_here_is_refused() {
    let (server, own_host) = victim().await;
    let foreign = "Host: rebind.attacker.example:8080\r\n";
    for (line, headers, body) in [
        ("GET /api/v1/secrets", foreign, ""),
        ("GET /metrics", foreign, ""),
        ("GET /_dogwatch/faults", foreign, ""),
        // To the browser this is the page's own site, so it may add what it likes.
        ("GET /api/v1/secrets", "Host: rebind.attacker.example\r\nAuthorization: Basic YTpi\r\n", ""),
        ("GET http://rebind.attacker.example/api/v1/secrets", own_host.as_str(), ""),
        (
            "POST /api/v1/namespaces/default/configmaps",
            "Host: rebind.attacker.example\r\nSec-Fetch-Site: same-origin\r\n",
            MAP,
        ),
    ] {
        let answer = exchange(address(&server), line, headers, body).await;
        assert_eq!(answer.code, 403, "{line} {headers}: {}", answer.body);
        assert!(answer.body.contains("DNS rebinding") && answer.body.contains("--token"), "{}", answer.body);
    }
    assert!(!is_planted(&server));

    let mut sender = http2_to(address(&server)).await;
    for (host, code) in [("rebind.attacker.example", StatusCode::FORBIDDEN), ("localhost", StatusCode::OK)] {
        let request = Request::get(format!("http://{host}/api/v1/secrets")).body(empty()).unwrap();
        assert_eq!(sender.send_request(request).await.unwrap().status(), code, "{host}");
    }
}

#[tokio::test]
async fn clients_and_the_servers_own_pages_are_let_in() {
    let (server, own_host) = victim().await;
    let at = address(&server);
    for headers in [
        own_host.clone(),
        format!("Host: localhost:{}\r\nUser-Agent: kubectl/v1.36.4\r\n", at.port()),
        // A tunnel: the port is another one.
        "Host: localhost:9000\r\n".to_owned(),
        "Host: [::1]:9000\r\n".to_owned(),
        format!("{own_host}Sec-Fetch-Site: none\r\n"),
        format!("{own_host}Sec-Fetch-Site: same-origin\r\nOrigin: http://{at}\r\n"),
    ] {
        let answer = exchange(at, "GET /api/v1/secrets", &headers, "").await;
        assert_eq!(answer.code, 200, "{headers}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_server_answers_to_the_name_it_advertises() {
    let server = ApiServer::builder().advertise("box.lan").start().await.unwrap();
    assert!(server.url().starts_with("http://box.lan:"), "{}", server.url());
    let at = format!("127.0.0.1:{}", server.url().rsplit(':').next().unwrap()).parse().unwrap();
    for (host, code) in [("box.lan", 200), ("other.lan", 403)] {
        let answer = exchange(at, "GET /api", &format!("Host: {host}\r\n"), "").await;
        assert_eq!(answer.code, code, "{host}");
    }
}

#[tokio::test]
async fn with_a_token_the_host_does_not_matter_and_without_it_nothing_does() {
    let server = ApiServer::builder().token("hunter2").start().await.unwrap();
    for (headers, code) in [
        ("Host: any.proxy.example\r\nAuthorization: Bearer hunter2\r\n", 200),
        // A page cannot know the token; a program that has it may run behind a proxy that hands
        // Origin on.
        ("Host: any.proxy.example\r\nOrigin: https://a.example\r\nAuthorization: Bearer hunter2\r\n", 200),
        ("Host: any.proxy.example\r\nOrigin: https://a.example\r\n", 401),
        ("Host: localhost\r\nAuthorization: Basic YTpi\r\n", 401),
    ] {
        let answer = exchange(address(&server), "GET /api", headers, "").await;
        assert_eq!(answer.code, code, "{headers}");
    }
}

#[tokio::test]
async fn callers_without_credentials_do_not_fill_the_metrics() {
    let server = ApiServer::builder().token("hunter2").start().await.unwrap();
    for at in 0..100 {
        let method = format!("{at}{}", "M".repeat(60_000));
        let answer = exchange(address(&server), &format!("{method} /api"), "Host: localhost\r\n", "").await;
        assert_eq!(answer.code, 401);
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

/// A server that holds little of bodies, on a socket.
async fn frugal(all: usize, connection: usize) -> Serving<Service> {
    let cluster = Cluster::new(Source::real());
    cluster.bootstrap().await;
    let settings = Settings { bodies_limit: all, connection_bodies_limit: connection, ..Settings::default() };
    let authenticator = Authenticator::new().anonymous(Anonymous::Admin);
    let service = Service::new(Arc::new(cluster), authenticator).settings(settings);
    Serving::bind(service, "127.0.0.1:0".parse().unwrap(), None).await.unwrap()
}

/// A request whose body goes on for as long as the sender is there.
fn creation(body: mpsc::Receiver<Bytes>) -> Request<Outgoing> {
    let frames = futures_util::stream::unfold(body, |mut body| async {
        body.recv().await.map(|it| (Ok::<_, BoxError>(Frame::data(it)), body))
    });
    let body = BodyExt::boxed_unsync(StreamBody::new(frames));
    Request::post(format!("http://localhost{MAPS}")).body(body).unwrap()
}

#[tokio::test]
async fn bodies_under_way_are_bounded_for_a_connection_and_in_all() {
    let wait = Duration::from_secs(60);
    let serving = frugal(150_000, 100_000).await;
    let address = serving.address().unwrap();
    let (mut first, mut second) = (http2_to(address).await, http2_to(address).await);
    // Two bodies that are half there: 80,000 bytes of one connection, 40,000 of the other.
    let mut open = Vec::new();
    for (sender, bytes) in [(&mut first, 80_000), (&mut second, 40_000)] {
        let (body, frames) = mpsc::channel(1);
        body.send(Bytes::from(vec![b' '; bytes])).await.unwrap();
        let answer = tokio::spawn(sender.send_request(creation(frames)));
        // The channel holds one piece: when this is taken, so is the one before.
        body.send(Bytes::from_static(b" ")).await.unwrap();
        open.push((body, answer));
    }
    // Refused until both are counted; how soon that is depends on the machine.
    for (sender, bytes) in [(&mut first, 30_000), (&mut second, 50_000)] {
        let refused = async {
            loop {
                let body = Full::new(Bytes::from(vec![b' '; bytes])).map_err(|it| match it {}).boxed_unsync();
                let request = Request::post(format!("http://localhost{MAPS}")).body(body).unwrap();
                let answer = sender.send_request(request).await.unwrap();
                if answer.status() == StatusCode::TOO_MANY_REQUESTS {
                    return answer;
                }
                assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
            }
        };
        let refused = tokio::time::timeout(wait, refused).await.expect("a refusal within a minute");
        assert_eq!(refused.headers()["retry-after"], "1");
    }
    // What was under way goes on, and makes room when it is done.
    for (at, (body, answer)) in open.into_iter().enumerate() {
        body.send(Bytes::from(MAP.replace("planted", &format!("map-{at}")))).await.unwrap();
        drop(body);
        let answer = tokio::time::timeout(wait, answer).await.expect("an answer within a minute");
        assert_eq!(answer.unwrap().unwrap().status(), StatusCode::CREATED);
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

    /// Whatever the method, the path and the headers are: a refused request leaves next to nothing
    /// behind.
    #[test]
    fn a_refused_request_leaves_next_to_nothing(
        method in "[A-Z]{1,5000}", path in "/[a-z/]{0,5000}", header in "[ -~]{0,5000}"
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = ApiServer::builder().token("hunter2").request_log(0).start().await.unwrap();
            let headers = format!("Host: localhost\r\nX-Any: {header}\r\n");
            let answer = exchange(address(&server), &format!("{method} {path}"), &headers, "").await;
            // Open paths answer, and some paths are not even in the catalog: none of it becomes a
            // label.
            assert!([200, 401, 404, 405].contains(&answer.code), "{}", answer.code);
            let token = "Host: localhost\r\nAuthorization: Bearer hunter2\r\n";
            let metrics = exchange(address(&server), "GET /metrics", token, "").await.body;
            let requests = metrics.lines().filter(|it| it.starts_with("apiserver_request_total"));
            let bytes: usize = requests.map(str::len).sum();
            assert!(bytes < 500, "{metrics}");
        });
    }
}
