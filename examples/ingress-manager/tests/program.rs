//! The ingress manager as a process, against an API server on a socket: tests the wiring of its
//! main function.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use dogwatch::api::WriteParams;
use dogwatch::k8s_openapi::api::core::v1::Service;
use dogwatch::k8s_openapi::api::networking::v1::Ingress;
use dogwatch::{Api, Client, Config};
use dogwatch_apiserver::ApiServer;
use ingress_manager::ANNOTATION;
use serde_json::{from_value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

const DEPLOYMENT: &str = include_str!("../deploy/deployment.yaml");

/// The limit for the whole test. Only a failing test takes this long.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn the_program_leads_creates_ingresses_and_serves_health_and_metrics() {
    let done = tokio::time::timeout(TIMEOUT, exercise()).await;
    done.expect("the test ends in time");
}

/// Returns the arguments in the Deployment, with a free port of this machine instead of that of its
/// probes.
fn arguments() -> Vec<String> {
    let (_, list) = DEPLOYMENT.split_once("        args:\n").expect("the container has arguments");
    let list = list.lines().map_while(|it| it.strip_prefix("        - "));
    assert!(DEPLOYMENT.contains("{name: http, containerPort: 8081}"), "{DEPLOYMENT}");
    let arguments: Vec<_> = list.map(|it| it.replace("0.0.0.0:8081", "127.0.0.1:0")).collect();
    assert_eq!(arguments, ["--bind=127.0.0.1:0"]);
    arguments
}

async fn exercise() {
    let server = ApiServer::start().await.expect("there is a free port");
    let kubeconfig =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kubeconfig-{}", std::process::id()));
    std::fs::write(&kubeconfig, server.kubeconfig()).expect("the directory is writable");
    let mut program = Command::new(env!("CARGO_BIN_EXE_ingress-manager"))
        .args(arguments())
        .env("KUBECONFIG", &kubeconfig)
        .env("NO_COLOR", "1")
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(program.stdout.take().expect("piped")).lines();
    let address = loop {
        let line = lines.next_line().await.expect("stdout is readable").expect("the program runs");
        if let Some((_, address)) = line.split_once("address=") {
            break address.trim().to_owned();
        }
    };
    // Drain stdout so that the program never blocks on a full pipe.
    let reading = tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });

    let client = Client::new(Config::new(server.url().parse().expect("a URL"))).expect("a client");
    let service = json!({
        "metadata": {"name": "web", "annotations": {ANNOTATION: "shop.test"}}, "spec": {"ports": [{"port": 80}]},
    });
    let service: Service = from_value(service).expect("a service");
    let services = Api::<Service>::namespaced(client.clone(), "default");
    services.create(&WriteParams::default(), &service).await.expect("created");
    let ingresses = Api::<Ingress>::namespaced(client, "default");
    ingresses.wait_for("web", |it| it.is_some()).await.expect("the ingress is created");

    assert_eq!(get(&address, "/healthz").await, "ok");
    assert_eq!(get(&address, "/readyz").await, "ok");
    let metrics = get(&address, "/metrics").await;
    for (metric, label, value) in [
        ("leader_election_master_status", "ingress-manager", "1"),
        ("controller_runtime_max_concurrent_reconciles", "ingress-manager", "4"),
    ] {
        let mut lines = metrics.lines().filter(|it| it.starts_with(metric) && it.contains(label));
        assert!(lines.any(|it| it.ends_with(&format!(" {value}"))), "no {metric} of {value} in\n{metrics}");
    }
    for metric in ["controller_runtime_reconcile_total", "workqueue_adds_total"] {
        assert!(metrics.lines().any(|it| it.starts_with(metric)), "no {metric} in\n{metrics}");
    }
    program.kill().await.expect("the program runs");
    reading.await.expect("no panic");
    let _ = std::fs::remove_file(kubeconfig);
}

/// Returns the body of a 200 response.
async fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("request sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("a response");
    let (head, body) = response.split_once("\r\n\r\n").expect("a response has a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {response}");
    body.to_owned()
}
