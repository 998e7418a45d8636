//! Requests that the server passes on to kubelets, pods and services.

use std::net::SocketAddr;

use crate::serving::{Certificates, ClientCertificate};
use crate::tests::raw_http::{RawConnection, RawResponse, address, exchange};
use crate::tests::serving::client::{Sender, over_tcp, over_tls, send};
use crate::tests::test_kubelet::{BYE, LIMIT, TestKubelet};
use crate::{Anonymous, ApiServer, ApiServerBuilder};
use http::{StatusCode, Version};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const POD: &str = "/api/v1/namespaces/default/pods/web";

/// Returns the objects of a cluster with a pod and a service on a node whose kubelet has this
/// address. The pod has the same address, so that the kubelet is the program in it, too.
fn objects(kubelet: SocketAddr) -> String {
    let (ip, port) = (kubelet.ip(), kubelet.port());
    format!(
        "
{{apiVersion: v1, kind: Node, metadata: {{name: node-1}}, status: {{
  addresses: [{{type: Hostname, address: node-1}}, {{type: InternalIP, address: {ip}}}],
  daemonEndpoints: {{kubeletEndpoint: {{Port: {port}}}}}}}}}
---
{{apiVersion: v1, kind: Pod, metadata: {{name: web}}, spec: {{nodeName: node-1, containers: [
  {{name: app, image: i, ports: [{{containerPort: {port}}}]}}]}}, status: {{podIP: {ip}, podIPs: [{{ip: {ip}}}]}}}}
---
{{apiVersion: v1, kind: Pod, metadata: {{name: other}}, spec: {{nodeName: node-1, containers: [{{name: waiting, image: i}}]}}}}
---
{{apiVersion: v1, kind: Service, metadata: {{name: web}}, spec: {{ports: [{{port: 443, name: https}}]}}}}
---
{{apiVersion: v1, kind: Service, metadata: {{name: empty}}, spec: {{ports: [{{port: 443}}]}}}}
---
{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: web-1, labels: {{kubernetes.io/service-name: web}}}},
  addressType: IPv4, ports: [{{name: https, port: {port}}}], endpoints: [
  {{addresses: [127.9.9.9], conditions: {{ready: false}}}}, {{addresses: [{ip}], conditions: {{ready: true}}}}]}}
"
    )
}

async fn server(kubelet: SocketAddr) -> ApiServer {
    server_with(kubelet, ApiServer::builder().token("t").anonymous(Anonymous::Admin)).await
}

async fn server_with(kubelet: SocketAddr, builder: ApiServerBuilder) -> ApiServer {
    builder.yaml(&objects(kubelet)).start().await.unwrap()
}

/// Returns an address that refuses connections.
async fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

async fn request(server: &ApiServer, line: &str, headers: &str, body: &str) -> RawResponse {
    let headers = format!("Host: localhost\r\n{headers}");
    exchange(address(server), line, &headers, body).await
}

/// Returns the code and the message of an error.
fn error(response: &RawResponse) -> (u16, String) {
    let status: Value = serde_json::from_str(&response.body).unwrap_or_default();
    (response.code, status["message"].as_str().unwrap_or(&response.body).to_owned())
}

/// A client whose connection has switched protocols.
struct Tunnel {
    stream: TcpStream,
    /// The head of the response.
    head: String,
    rest: Vec<u8>,
}

impl Tunnel {
    /// Sends a request with these bytes of the other protocol right behind it.
    async fn open(server: &ApiServer, line: &str, headers: &str, early: &str) -> Self {
        let mut stream = TcpStream::connect(address(server)).await.unwrap();
        let text =
            format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n{headers}\r\n{early}");
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        let end = loop {
            if let Some(at) = read.windows(4).position(|it| it == b"\r\n\r\n") {
                break at + 4;
            }
            let more = tokio::time::timeout(LIMIT, stream.read_buf(&mut read)).await;
            let more = more.expect("the head of a response in time").unwrap();
            assert!(more > 0, "the connection was closed: {}", String::from_utf8_lossy(&read));
        };
        let rest = read.split_off(end);
        Self { stream, head: String::from_utf8(read).unwrap().to_ascii_lowercase(), rest }
    }

    async fn expect(&mut self, bytes: &[u8]) {
        while self.rest.len() < bytes.len() {
            let more = tokio::time::timeout(LIMIT, self.stream.read_buf(&mut self.rest)).await;
            assert!(more.expect("bytes in time").unwrap() > 0, "the tunnel ended: {:?}", self.rest);
        }
        let received: Vec<u8> = self.rest.drain(..bytes.len()).collect();
        assert!(received == bytes, "{:?}", String::from_utf8_lossy(&received));
    }

    /// Waits for the end of the connection.
    async fn expect_end(mut self) {
        let ended = tokio::time::timeout(LIMIT, self.stream.read_to_end(&mut self.rest)).await;
        assert!(ended.is_ok(), "the connection did not end");
        assert_eq!(self.rest, b"");
    }
}

#[tokio::test]
async fn the_log_of_a_pod_is_streamed_from_its_kubelet() {
    let kubelet = TestKubelet::start().await;
    let server = server(kubelet.address).await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut client = over_tcp(address(&server), version).await;
        let response = send(&mut client, &format!("{POD}/log?follow=true&tailLines=5")).await.unwrap();
        assert_eq!(
            (response.status(), &response.headers()["content-type"]),
            (StatusCode::OK, &"text/plain".parse().unwrap())
        );
        let mut body = response.into_body();
        let line = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(line, "line 1\n", "it arrives before the log ends");
        kubelet.lines.add_permits(1);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "line 2\n");
        let seen = kubelet.last_request();
        assert_eq!(
            (seen.method.as_str(), seen.target.as_str()),
            ("GET", "/containerLogs/default/web/app?follow=true&tailLines=5")
        );
    }
}

#[tokio::test]
async fn an_error_of_the_kubelet_is_the_error_of_a_log() {
    let kubelet = TestKubelet::start().await;
    let server = server(kubelet.address).await;
    let line = "GET /api/v1/namespaces/default/pods/other/log";
    let refused = error(&request(&server, line, "", "").await);
    assert_eq!(refused, (400, "container \"waiting\" in pod \"web\" is waiting to start".to_owned()));
    let invalid = error(&request(&server, &format!("GET {POD}/log?tailLines=-1"), "", "").await);
    assert_eq!(invalid.0, 422, "{invalid:?}");
    let unknown = error(&request(&server, &format!("GET {POD}/log?container=x"), "", "").await);
    assert_eq!(unknown, (400, "container x is not valid for pod web".to_owned()));
    assert_eq!(kubelet.requests().len(), 1, "requests that are not valid stay here");
}

#[tokio::test]
async fn a_client_that_leaves_ends_a_followed_log_at_the_kubelet() {
    let kubelet = TestKubelet::start().await;
    let server = server(kubelet.address).await;
    let mut client = over_tcp(address(&server), Version::HTTP_2).await;
    let mut body = send(&mut client, &format!("{POD}/log?follow=true")).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    kubelet.ended(1).await;
}

#[tokio::test]
async fn exec_is_tunnelled_to_the_kubelet() {
    let kubelet = TestKubelet::start().await;
    let server = server(kubelet.address).await;
    let spdy = "Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0\r\n";
    let web_socket = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGVzdA==\r\n\
                      Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n";
    for (line, headers, method, target) in [
        (
            "POST /api/v1/namespaces/default/pods/web/exec?command=ls&command=-l&stdin=true&stdout=true",
            spdy,
            "POST",
            "/exec/default/web/app?command=ls&command=-l&input=1&output=1",
        ),
        (
            "GET /api/v1/namespaces/default/pods/web/exec?command=sh&container=app&tty=true&stdout=true",
            web_socket,
            "GET",
            "/exec/default/web/app?command=sh&output=1&tty=1",
        ),
        (
            "POST /api/v1/namespaces/default/pods/web/attach?stdout=1&stderr=1",
            spdy,
            "POST",
            "/attach/default/web/app?error=1&output=1",
        ),
        (
            "GET /api/v1/namespaces/default/pods/web/portforward",
            web_socket,
            "GET",
            "/portForward/default/web",
        ),
        (
            "POST /api/v1/namespaces/default/pods/web/portforward?ports=80&ports=81",
            spdy,
            "POST",
            "/portForward/default/web?port=80%2C81",
        ),
    ] {
        let headers = format!("Authorization: Bearer t\r\n{headers}");
        let mut tunnel = Tunnel::open(&server, line, &headers, "early").await;
        assert!(tunnel.head.starts_with("http/1.1 101 "), "{}", tunnel.head);
        assert!(
            tunnel.head.contains("\r\nx-stream-protocol-version: v4.channel.k8s.io\r\n"),
            "{}",
            tunnel.head
        );
        tunnel.expect(b"early").await;
        let large: Vec<u8> = (0..300_000u32).map(|it| (it % 251) as u8).collect();
        let (mut reader, mut writer) = tunnel.stream.split();
        let mut received = vec![0; large.len()];
        let (sent, read) = tokio::join!(writer.write_all(&large), reader.read_exact(&mut received));
        assert!(sent.is_ok() && read.is_ok() && received == large, "{line}");
        let seen = kubelet.last_request();
        assert_eq!((seen.method.as_str(), seen.target.as_str()), (method, target));
        assert!(!seen.headers.contains_key("authorization"), "{:?}", seen.headers);
        assert_eq!(seen.headers["x-forwarded-for"], "127.0.0.1");
        let protocol = headers.split("Upgrade: ").nth(1).and_then(|it| it.lines().next());
        assert_eq!(seen.headers["upgrade"].to_str().ok(), protocol);
        assert_eq!(
            seen.headers.get("sec-websocket-protocol").map(|it| it.to_str().unwrap()),
            headers.contains("websocket").then_some("v5.channel.k8s.io")
        );
    }
    let requests = server.requests();
    let codes: Vec<u16> = requests.iter().map(|it| it.status).collect();
    assert_eq!(codes, [101; 5], "tunnels are logged as other requests");
}

#[tokio::test]
async fn the_end_of_one_side_of_a_tunnel_ends_the_other() {
    let kubelet = TestKubelet::start().await;
    let server = server(kubelet.address).await;
    let line = format!("POST {POD}/attach?stdout=1");
    let mut tunnel = Tunnel::open(&server, &line, "Upgrade: SPDY/3.1\r\n", "").await;
    tunnel.stream.write_all(b"a").await.unwrap();
    tunnel.expect(b"a").await;
    drop(tunnel);
    kubelet.ended(2).await;
    let mut tunnel = Tunnel::open(&server, &line, "Upgrade: SPDY/3.1\r\n", "").await;
    tunnel.stream.write_all(BYE).await.unwrap();
    tunnel.expect_end().await;
    kubelet.ended(4).await;
}

#[tokio::test]
async fn a_client_that_half_closes_its_side_gets_the_rest() {
    let kubelet = TestKubelet::start().await;
    let server = server(kubelet.address).await;
    let mut tunnel =
        Tunnel::open(&server, &format!("POST {POD}/attach?stdout=1"), "Upgrade: SPDY/3.1\r\n", "").await;
    tunnel.stream.write_all(b"last words").await.unwrap();
    tunnel.stream.shutdown().await.unwrap();
    tunnel.expect(b"last words").await;
    tunnel.expect_end().await;
}

#[tokio::test]
async fn tunnels_end_when_the_server_stops() {
    let kubelet = TestKubelet::start().await;
    let server = server(kubelet.address).await;
    let line = format!("POST {POD}/exec?command=sh&stdout=1");
    let tunnel = Tunnel::open(&server, &line, "Upgrade: SPDY/3.1\r\n", "").await;
    tokio::time::timeout(LIMIT, server.stop()).await.expect("the server stops");
    kubelet.ended(2).await;
    tunnel.expect_end().await;
}

#[tokio::test]
async fn an_upgrade_that_the_kubelet_rejects_is_rejected_with_its_response() {
    let kubelet = TestKubelet::start().await;
    let server = server(kubelet.address).await;
    let line = "POST /api/v1/namespaces/default/pods/other/exec?command=ls&stdout=1";
    let mut connection = RawConnection::open(address(&server)).await;
    connection
        .send(&format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
        ))
        .await;
    let response = connection.response().await.expect("a response");
    assert_eq!(response.code, 400, "{response:?}");
    assert!(response.body.contains("is waiting to start"), "{response:?}");
    assert!(connection.response().await.is_none(), "the connection is closed");
}

#[tokio::test]
async fn a_connection_into_a_pod_needs_an_upgrade() {
    let kubelet = TestKubelet::start().await;
    let server = server(kubelet.address).await;
    for part in ["exec?command=ls", "attach", "portforward"] {
        let refused = error(&request(&server, &format!("POST {POD}/{part}"), "", "").await);
        assert_eq!(refused, (400, "Upgrade request required".to_owned()), "{part}");
    }
    let tried = error(&request(&server, &format!("POST {POD}/exec?command=ls&dryRun=All"), "", "").await);
    assert_eq!(tried, (400, "dryRun is not supported".to_owned()));
    let call = http::Request::post(format!("{POD}/exec?command=ls"))
        .header("connection", "Upgrade")
        .header("upgrade", "SPDY/3.1")
        .body(http_body_util::Full::<bytes::Bytes>::default())
        .unwrap();
    let response = tower::ServiceExt::oneshot(server.service(), call).await.unwrap();
    let code = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body);
    assert!(code == 500 && body.contains("ApiServer::connector"), "{code} {body}");
    assert_eq!(kubelet.requests().len(), 0);
}

#[tokio::test]
async fn a_dead_kubelet_is_reported_with_its_address() {
    let dead = closed_port().await;
    let server = server(dead).await;
    let refused = format!("dial tcp {dead}: connect: connection refused");
    let log = error(&request(&server, &format!("GET {POD}/log"), "", "").await);
    assert_eq!(log, (500, format!("Get \"https://{dead}/containerLogs/default/web/app\": {refused}")));
    let upgrade = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
    let exec = error(&request(&server, &format!("POST {POD}/exec?command=ls"), upgrade, "").await);
    assert_eq!(exec, (500, format!("error dialing backend: {refused}")));
    let proxied = error(&request(&server, "GET /api/v1/nodes/node-1/proxy/healthz", "", "").await);
    assert_eq!(proxied, (503, format!("error trying to reach service: {refused}")));
}

#[tokio::test]
async fn an_address_that_is_not_loopback_is_refused() {
    let kubelet: SocketAddr = "192.0.2.1:10250".parse().unwrap();
    let server = server(kubelet).await;
    let upgrade = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
    for (line, headers) in [
        (format!("GET {POD}/log"), ""),
        (format!("POST {POD}/exec?command=ls"), upgrade),
        ("GET /api/v1/nodes/node-1/proxy/".to_owned(), ""),
        (format!("GET {POD}/proxy/"), ""),
        ("GET /api/v1/namespaces/default/services/web:https/proxy/".to_owned(), ""),
    ] {
        let (code, message) = error(&request(&server, &line, headers, "").await);
        assert_eq!(code, 400, "{line} {message}");
        let expected = "address not allowed: 192.0.2.1 is not a loopback address";
        assert!(
            message.contains(expected) && message.contains("--allow-remote-backends"),
            "{line} {message}"
        );
        let needs_kubelet = !line.contains("/proxy/") || line.contains("/nodes/");
        assert_eq!(
            message.starts_with("the kubelet of node node-1 has an "),
            needs_kubelet,
            "{line} {message}"
        );
    }
}

#[tokio::test]
async fn nodes_pods_and_services_are_proxied() {
    let kubelet = TestKubelet::start().await;
    let server = server(kubelet.address).await;
    let port = kubelet.address.port();
    for (path, target) in [
        ("/api/v1/nodes/node-1/proxy/stats/summary?a=b%20c".to_owned(), "/stats/summary?a=b%20c"),
        (format!("/api/v1/nodes/node-1:{port}/proxy/"), "/"),
        ("/api/v1/namespaces/default/pods/https:web:/proxy/a/%2e%2e/b%20c/".to_owned(), "/b%20c/"),
        (format!("/api/v1/namespaces/default/pods/https:web:{port}/proxy/a"), "/a"),
        ("/api/v1/namespaces/default/services/https:web:https/proxy/a".to_owned(), "/a"),
        ("/api/v1/namespaces/default/services/https:web:443/proxy/a?x".to_owned(), "/a?x"),
    ] {
        let headers = "Authorization: Bearer t\r\nX-Own: 1\r\n";
        let response = request(&server, &format!("POST {path}"), headers, "hello").await;
        assert_eq!((response.code, response.body), (200, format!("POST {target}")), "{path}");
        assert!(!response.head.contains("access-control"), "{}", response.head);
        let seen = kubelet.last_request();
        assert_eq!((seen.body.as_str(), &seen.headers["x-own"]), ("hello", &"1".parse().unwrap()));
        assert!(!seen.headers.contains_key("authorization"));
        assert_eq!(
            (&seen.headers["x-forwarded-for"], &seen.headers["host"]),
            (&"127.0.0.1".parse().unwrap(), &"localhost".parse().unwrap())
        );
        let (prefix, below) = (path.split_once("/proxy").unwrap().0, target.split('?').next().unwrap());
        let own_path = format!("{prefix}/proxy{}", below.replace("%20", " "));
        assert_eq!(seen.headers["x-forwarded-uri"].to_str().unwrap(), own_path);
    }
    let redirected = request(&server, "GET /api/v1/nodes/node-1/proxy?a=b", "", "").await;
    assert_eq!(redirected.code, 301);
    assert!(
        redirected.head.contains("\r\nlocation: /api/v1/nodes/node-1/proxy/?a=b\r\n"),
        "{}",
        redirected.head
    );
    let moved = request(&server, "GET /api/v1/nodes/node-1/proxy/redirect", "", "").await;
    assert!(
        moved.code == 302 && moved.head.contains("\r\nlocation: /api/v1/nodes/node-1/proxy/elsewhere\r\n"),
        "{}",
        moved.head
    );
    let mut stream = TcpStream::connect(address(&server)).await.unwrap();
    let head =
        "HEAD /api/v1/nodes/node-1/proxy/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut response = String::new();
    let read = tokio::time::timeout(LIMIT, stream.read_to_string(&mut response)).await;
    read.expect("a response in time").unwrap();
    assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("\r\n\r\n"), "{response}");
    assert_eq!(kubelet.last_request().method, "HEAD");
}

#[tokio::test]
async fn a_proxied_connection_may_switch_protocols() {
    let kubelet = TestKubelet::start().await;
    let server = server(kubelet.address).await;
    let line = "GET /api/v1/namespaces/default/pods/https:web:/proxy/socket?room=1";
    let mut tunnel = Tunnel::open(&server, line, "Upgrade: websocket\r\n", "").await;
    assert!(tunnel.head.starts_with("http/1.1 101 "), "{}", tunnel.head);
    tunnel.stream.write_all(b"hi").await.unwrap();
    tunnel.expect(b"hi").await;
    assert_eq!(kubelet.last_request().target, "/socket?room=1");
}

#[tokio::test]
async fn a_backend_that_does_not_exist_is_an_error_that_names_it() {
    let kubelet = TestKubelet::start().await;
    let server = server(kubelet.address).await;
    let services = "/api/v1/namespaces/default/services";
    for (path, code, message) in [
        (format!("{services}/empty/proxy/"), 503, "no endpoints available for service \"empty\""),
        (format!("{services}/web/proxy/"), 503, "no endpoints available for service \"web\""),
        (format!("{services}/https:web:80/proxy/"), 503, "no service port 80 found for service \"web\""),
        (format!("{services}/none/proxy/"), 404, "services \"none\" not found"),
        (format!("{services}/ftp:web:443/proxy/"), 400, "invalid service request \"ftp:web:443\""),
        (format!("{POD}:http/proxy/"), 400, "invalid pod request \"web:http\""),
        (
            "/api/v1/namespaces/default/pods/other/proxy/".to_owned(),
            400,
            "address not allowed: the pod has no address",
        ),
        ("/api/v1/nodes/none/proxy/".to_owned(), 404, "nodes \"none\" not found"),
        ("/api/v1/nodes/a:b:c/proxy/".to_owned(), 400, "invalid node request \"a:b:c\""),
    ] {
        let refused = error(&request(&server, &format!("GET {path}"), "", "").await);
        assert_eq!(refused, (code, message.to_owned()), "{path}");
    }
    assert_eq!(kubelet.requests().len(), 0);
}

/// Returns a client with this certificate.
async fn secure_client(server: &ApiServer, admin: &ClientCertificate) -> Sender {
    let at = server.url().strip_prefix("https://").expect("a server with TLS").parse().expect("an address");
    let authority = server.certificates().expect("a server with TLS").authority();
    over_tls(at, &authority, Some(admin), &["http/1.1"]).await.unwrap()
}

#[tokio::test]
async fn a_kubelet_is_shown_the_client_certificate_of_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let server = server_with(at, ApiServer::builder().tls(true)).await;
    let certificates = server.certificates().unwrap();
    let kubelet = TestKubelet::on(listener, Some(&certificates.authority()));
    let admin = certificates.client("admin", "system:masters").unwrap();
    let mut client = secure_client(&server, &admin).await;
    let response = send(&mut client, &format!("{POD}/log")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    response.into_body().collect().await.unwrap();
    assert_eq!(kubelet.last_request().user.as_deref(), Some("kube-apiserver-kubelet-client"));
    // A program in a pod is not trusted with it, and this one requires a certificate.
    let response =
        send(&mut client, &format!("{}/proxy/", POD.replace("/web", "/https:web:"))).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn the_certificate_of_a_kubelet_is_verified_by_the_authority_that_is_set() {
    let kubelet = TestKubelet::start().await;
    let other = Certificates::throwaway([127, 0, 0, 1].into()).unwrap().authority();
    let strict = server_with(kubelet.address, ApiServer::builder().kubelet_authority(other)).await;
    let (code, message) = error(&request(&strict, &format!("GET {POD}/log"), "", "").await);
    assert!(code == 500 && message.contains("tls: failed to verify certificate"), "{code} {message}");
    assert_eq!(kubelet.requests().len(), 0);
    let skipped = request(&strict, &format!("GET {POD}/log?insecureSkipTLSVerifyBackend=true"), "", "").await;
    assert_eq!(skipped.code, 200, "{skipped:?}");
    let own = kubelet.certificate.clone();
    let trusting = server_with(kubelet.address, ApiServer::builder().kubelet_authority(own)).await;
    assert_eq!(request(&trusting, &format!("GET {POD}/log"), "", "").await.code, 200);
}
