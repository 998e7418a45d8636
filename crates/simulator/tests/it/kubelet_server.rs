//! The server of the kubelet's API, over TLS: logs, remote commands and usage.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dogwatch_core::DeleteParams;
use dogwatch_simulator::Settings;
use futures_util::{SinkExt, StreamExt};
use http::header::{HOST, HeaderName, HeaderValue, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::Message;

use crate::test_cluster::{Kind, TestCluster};

const POD: Kind = ("v1", "Pod");
const NODE: Kind = ("v1", "Node");

/// The time for anything that the kubelet server does. The clock is that of the machine, because
/// connections are real.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster whose kubelet server listens.
struct Served {
    cluster: TestCluster,
    port: u16,
    tls: TlsConnector,
}

impl Served {
    async fn start() -> Self {
        let mut settings = Settings::instant();
        settings.nodes = 1;
        settings.kubelet_server = true;
        let cluster = TestCluster::with(settings).await;
        cluster.simulator.ready().await;
        let node = cluster.get(NODE, "node-1").expect("the simulator is ready");
        let port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64();
        let port = port.and_then(|it| u16::try_from(it).ok()).expect("a port");
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth();
        Self { cluster, port, tls: TlsConnector::from(Arc::new(config)) }
    }

    /// Adds a pod with one container and waits until its container is in a state.
    async fn add(&self, name: &str, metadata: Value, container: Value, state: &str) {
        let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": { "containers": [container] } });
        pod["metadata"]["name"] = name.into();
        pod["metadata"]["namespace"] = "default".into();
        pod["spec"]["containers"][0]["name"] = "web".into();
        pod["spec"]["containers"][0]["image"] = "nginx".into();
        self.cluster.add(pod).await;
        let key = format!("default/{name}");
        let waiting = self
            .cluster
            .until_one(POD, &key, |it| it["status"]["containerStatuses"][0]["state"].get(state).is_some());
        limited(waiting, "the state of the container").await;
        // The kubelet server has a cache of its own, which follows.
        let known = async {
            while self.get("/pods").await.1.matches(&format!("\"name\":\"{name}\"")).count() == 0
                || !self.get("/pods").await.1.contains(&format!("{{\"{state}\":"))
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        limited(known, "the cache of the kubelet server").await;
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let socket = TcpStream::connect(("127.0.0.1", self.port)).await.expect("the server listens");
        let name = ServerName::try_from("localhost").unwrap();
        limited(self.tls.connect(name, socket), "the TLS handshake").await.unwrap()
    }

    async fn send(&self, request: Request<Empty<Bytes>>) -> Response<Incoming> {
        let connection = hyper::client::conn::http1::handshake(TokioIo::new(self.connect().await));
        let (mut sender, connection) = connection.await.unwrap();
        tokio::spawn(connection.with_upgrades());
        limited(sender.send_request(request), "a response").await.unwrap()
    }

    fn request(&self, path: &str) -> Request<Empty<Bytes>> {
        let host = format!("127.0.0.1:{}", self.port);
        Request::builder().uri(path).header(HOST, host).body(Empty::new()).unwrap()
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let response = self.send(self.request(path)).await;
        let status = response.status().as_u16();
        let body = limited(response.into_body().collect(), "the end of a response").await.unwrap();
        (status, String::from_utf8(body.to_bytes().to_vec()).unwrap())
    }

    /// Opens a WebSocket.
    async fn open(&self, path: &str, protocol: &'static str) -> Socket {
        let url = format!("wss://127.0.0.1:{}{path}", self.port);
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        let opening = tokio_tungstenite::client_async(request, self.connect().await);
        let (socket, response) = limited(opening, "the upgrade").await.unwrap();
        assert_eq!(response.headers()[SEC_WEBSOCKET_PROTOCOL], protocol);
        Socket { socket, seen: Default::default() }
    }

    async fn delete(&self, name: &str) {
        self.cluster.delete(POD, &format!("default/{name}"), DeleteParams::default()).await;
    }
}

/// A remote command, with what its channels have sent so far.
struct Socket {
    socket: WebSocketStream<TlsStream<TcpStream>>,
    seen: [Vec<u8>; 4],
}

impl Socket {
    async fn send(&mut self, message: &[u8]) {
        self.socket.send(Message::Binary(Bytes::copy_from_slice(message))).await.unwrap();
    }

    /// Receives a message. Returns false at the end.
    async fn receive(&mut self) -> bool {
        match limited(self.socket.next(), "a message").await {
            Some(Ok(Message::Binary(message))) => {
                let (channel, content) = message.split_first().expect("a channel");
                self.seen[usize::from(*channel)].extend_from_slice(content);
                true
            }
            Some(Ok(_)) => true,
            Some(Err(_)) | None => false,
        }
    }

    async fn until_output(&mut self, text: &str) {
        while !self.output(1).contains(text) {
            assert!(self.receive().await, "ended with {:?}", self.seen);
        }
    }

    /// Returns the output, the errors and the status of a command after its end.
    async fn end(mut self) -> (String, String, Value) {
        while self.receive().await {}
        (self.output(1), self.output(2), serde_json::from_slice(&self.seen[3]).expect("a status"))
    }

    fn output(&self, channel: usize) -> String {
        String::from_utf8(self.seen[channel].clone()).unwrap()
    }
}

/// Waits for something, with a limit that names it.
async fn limited<F: Future>(future: F, name: &str) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited too long for {name}"))
}

fn exit_code(status: &Value) -> &Value {
    &status["details"]["causes"][0]["message"]
}

/// The kubelet's certificate is self-signed, and kube-apiserver does not verify it by default.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[tokio::test]
async fn a_log_has_the_lines_that_the_options_select() {
    let served = Served::start().await;
    served.add("web", json!({}), json!({ "args": ["-x"] }), "running").await;
    let path = "/containerLogs/default/web/web";
    let (status, all) = served.get(path).await;
    assert_eq!(status, 200);
    let lines: Vec<_> = all.lines().collect();
    let expected = [
        "simulated container web started from image nginx",
        "command [\"-x\"] is not executed",
        "web is ready",
    ];
    assert_eq!(lines, expected);
    assert_eq!(served.get(path).await.1, all, "the log of a run is stable");
    let (_, last) = served.get(&format!("{path}?tailLines=1&timestamps=true")).await;
    assert!(last.starts_with("2026-01-02T03:0") && last.ends_with("Z web is ready\n"), "{last}");
    assert_eq!(served.get(&format!("{path}?limitBytes=9")).await.1, "simulated");
    assert_eq!(served.get(&format!("{path}?stream=Stderr")).await.1, "");
    assert_eq!(served.get(&format!("{path}?tailLines=x")).await.0, 400);
    assert_eq!(served.get(&format!("{path}?tailLines=-1")).await.0, 422);
}

#[tokio::test]
async fn a_log_that_does_not_exist_is_refused_with_the_reason() {
    let served = Served::start().await;
    let later = json!({ "annotations": { "simulator.dogwatch.dev/start-after": "24h" } });
    served.add("web", later, json!({}), "waiting").await;
    for (path, status, expected) in [
        ("default/web/web", 400, "container \"web\" in pod \"web\" is waiting to start: ContainerCreating"),
        (
            "default/web/web?previous=true",
            400,
            "previous terminated container \"web\" in pod \"web\" not found",
        ),
        ("default/web/side", 404, "container \"side\" not found in pod \"web\""),
        ("default/db/web", 404, "pod \"db\" does not exist"),
        ("other/web/web", 404, "pod \"web\" does not exist"),
    ] {
        let answer = served.get(&format!("/containerLogs/{path}")).await;
        assert_eq!(answer, (status, expected.to_owned()), "{path}");
    }
    let request = served.request("/exec/default/web/web?command=true&output=1");
    let response = served.send(request).await;
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "container not found (\"web\")");
}

#[tokio::test]
async fn a_container_that_crashes_has_a_previous_log() {
    let served = Served::start().await;
    let crashes = json!({ "annotations": { "simulator.dogwatch.dev/exit-code": "3",
        "simulator.dogwatch.dev/complete-after": "1ms" } });
    served.add("web", crashes, json!({}), "waiting").await;
    let key = "default/web";
    let down = served.cluster.until_one(POD, key, |it| {
        it["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    });
    limited(down, "the crash").await;
    let read = async {
        loop {
            let (status, log) = served.get("/containerLogs/default/web/web?previous=true").await;
            if status == 200 && log.contains("restart 1") {
                return log;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let log = limited(read, "the log of the second run").await;
    assert!(log.contains("started from image nginx, restart 1\n"), "{log}");
    assert!(log.ends_with("web has failed: Error, exit code 3\n"), "{log}");
}

#[tokio::test]
async fn a_followed_log_ends_with_its_container() {
    let served = Served::start().await;
    served.add("web", json!({}), json!({}), "running").await;
    let request = served.request("/containerLogs/default/web/web?follow=true");
    let mut body = served.send(request).await.into_body();
    let first = limited(body.frame(), "the first lines").await.unwrap().unwrap().into_data().unwrap();
    assert!(first.ends_with(b"web is ready\n"));
    served.delete("web").await;
    let rest = limited(body.collect(), "the end of the log").await.unwrap().to_bytes();
    assert_eq!(rest, "received SIGTERM, shutting down\nweb was terminated by SIGTERM, exit code 143\n");
}

#[tokio::test]
async fn a_command_reads_input_until_the_client_closes_it() {
    let served = Served::start().await;
    served.add("web", json!({}), json!({}), "running").await;
    let mut cat =
        served.open("/exec/default/web/web?command=cat&input=1&output=1&error=1", "v5.channel.k8s.io").await;
    cat.send(b"\x00one ").await;
    cat.until_output("one ").await;
    cat.send(b"\x00two").await;
    cat.send(b"\xff\x00").await;
    let (output, errors, status) = cat.end().await;
    assert_eq!((output.as_str(), errors.as_str(), &status["status"]), ("one two", "", &json!("Success")));
}

#[tokio::test]
async fn a_command_has_an_exit_code_and_the_environment_of_its_container() {
    let served = Served::start().await;
    let env =
        json!({ "env": [{ "name": "POD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }] });
    served.add("web", json!({}), env, "running").await;
    let script = "command=sh&command=-c&command=echo+$POD;+curl+x;+exit+7";
    for protocol in ["v5.channel.k8s.io", "v4.channel.k8s.io"] {
        let path = format!("/exec/default/web/web?{script}&output=1&error=1");
        let (output, errors, status) = served.open(&path, protocol).await.end().await;
        assert_eq!(output, "web\n");
        assert!(errors.starts_with("curl: not found: container web of pod web is simulated"), "{errors}");
        assert_eq!((&status["reason"], exit_code(&status)), (&json!("NonZeroExitCode"), &json!("7")));
    }
}

#[tokio::test]
async fn a_terminal_echoes_what_is_typed() {
    let served = Served::start().await;
    served.add("web", json!({}), json!({}), "running").await;
    let path = "/exec/default/web/web?command=sh&input=1&output=1&tty=1";
    let mut shell = served.open(path, "v5.channel.k8s.io").await;
    shell.send(b"\x04{\"Width\":80,\"Height\":24}").await;
    shell.until_output("/ # ").await;
    shell.send(b"\x00hostname\r").await;
    shell.until_output("hostname\r\nweb\r\n/ # ").await;
    shell.send(b"\x00\x04").await;
    let (_, _, status) = shell.end().await;
    assert_eq!(status["status"], "Success");
}

#[tokio::test]
async fn a_command_ends_with_its_container() {
    let served = Served::start().await;
    served.add("web", json!({}), json!({}), "running").await;
    let path = "/exec/default/web/web?command=sleep&command=infinity&output=1";
    let sleep = served.open(path, "v5.channel.k8s.io").await;
    served.delete("web").await;
    let (_, _, status) = sleep.end().await;
    assert_eq!(exit_code(&status), "137");
}

#[tokio::test]
async fn attached_clients_get_the_log_of_the_container() {
    let served = Served::start().await;
    served.add("web", json!({}), json!({}), "running").await;
    let path = "/attach/default/web/web?output=1&error=1&input=1";
    let mut attached = served.open(path, "v5.channel.k8s.io").await;
    attached.send(b"\x00ignored\n").await;
    attached.until_output("web is ready\n").await;
    served.delete("web").await;
    let (output, errors, status) = attached.end().await;
    assert!(output.ends_with("received SIGTERM, shutting down\n"), "{output}");
    assert_eq!(errors, "web was terminated by SIGTERM, exit code 143\n");
    assert_eq!(status["status"], "Success");
}

#[tokio::test]
async fn older_protocols_are_upgraded_and_unknown_ones_refused() {
    let served = Served::start().await;
    served.add("web", json!({}), json!({ "ports": [{ "containerPort": 80 }] }), "running").await;
    let version = HeaderName::from_static("x-stream-protocol-version");
    let exec = "/exec/default/web/web?command=true&output=1";
    for (path, protocol, status) in [
        (exec, "v4.channel.k8s.io", 101),
        (exec, "channel.k8s.io", 403),
        ("/portForward/default/web", "portforward.k8s.io", 101),
    ] {
        let mut request = served.request(path);
        *request.method_mut() = http::Method::POST;
        request.headers_mut().insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
        request.headers_mut().insert("connection", HeaderValue::from_static("Upgrade"));
        request.headers_mut().insert(version.clone(), HeaderValue::from_static(protocol));
        assert_eq!(served.send(request).await.status().as_u16(), status, "{path} {protocol}");
    }
    assert_eq!(served.get(exec).await, (400, "Upgrade request required".to_owned()));
    let none = served.get("/exec/default/web/web?command=true").await;
    assert_eq!(none, (400, "you must specify at least 1 of stdin, stdout, stderr".to_owned()));
    let tunnel = served.open("/portForward/default/web", "SPDY/3.1+portforward.k8s.io").await;
    drop(tunnel);
}

#[tokio::test]
async fn only_loopback_names_and_known_paths_are_answered() {
    let served = Served::start().await;
    let mut request = served.request("/healthz");
    request.headers_mut().insert(HOST, HeaderValue::from_static("kubelet.example.com"));
    assert_eq!(served.send(request).await.status(), StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(served.get("/healthz").await, (200, "ok".to_owned()));
    assert_eq!(served.get("/configz").await.0, 404);
    let mut request = served.request("/pods");
    *request.method_mut() = http::Method::POST;
    let refused = served.send(request).await;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["allow"]),
        (405, &HeaderValue::from_static("GET"))
    );
}

#[tokio::test]
async fn pods_and_their_usage_are_reported() {
    let served = Served::start().await;
    let requests = json!({ "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } });
    served.add("web", json!({}), requests, "running").await;
    let pods: Value = serde_json::from_str(&served.get("/pods").await.1).unwrap();
    assert_eq!((&pods["kind"], &pods["items"][0]["metadata"]["name"]), (&json!("PodList"), &json!("web")));
    let summary: Value = serde_json::from_str(&served.get("/stats/summary").await.1).unwrap();
    assert_eq!(summary["node"]["nodeName"], "node-1");
    let cpu = summary["pods"][0]["containers"][0]["cpu"]["usageNanoCores"].as_u64().unwrap();
    assert!((500_000_000..750_000_000).contains(&cpu), "{cpu}");
    let (status, metrics) = served.get("/metrics/resource").await;
    assert_eq!(status, 200);
    let labels = "container_memory_working_set_bytes{container=\"web\",namespace=\"default\",pod=\"web\"} ";
    assert!(metrics.lines().any(|it| it.starts_with(labels)), "{metrics}");
}

#[tokio::test]
async fn sessions_and_the_server_end_with_the_simulator() {
    let served = Served::start().await;
    served.add("web", json!({}), json!({}), "running").await;
    let path = "/exec/default/web/web?command=sleep&command=infinity&output=1";
    let mut sleep = served.open(path, "v5.channel.k8s.io").await;
    let Served { cluster, port, .. } = served;
    cluster.simulator.stop().await;
    while sleep.receive().await {}
    assert!(sleep.seen[3].is_empty(), "the command has no status");
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
}

#[tokio::test]
async fn nodes_name_no_server_that_was_not_asked_for() {
    let mut settings = Settings::instant();
    settings.nodes = 1;
    let cluster = TestCluster::with(settings).await;
    cluster.simulator.ready().await;
    let node = cluster.get(NODE, "node-1").unwrap();
    assert_eq!(node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"], 10250);
    assert_eq!(node["status"]["addresses"][1], json!({ "type": "Hostname", "address": "node-1" }));
}
