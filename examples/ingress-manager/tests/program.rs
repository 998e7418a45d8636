//! The program itself, as a process beside an API server on a socket: what its main function puts together.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use dogwatch::k8s_openapi::api::core::v1::Service;
use dogwatch::k8s_openapi::api::networking::v1::Ingress;
use dogwatch::{Api, Client, Config, WriteParams};
use dogwatch_apiserver::ApiServer;
use ingress_manager::ANNOTATION;
use serde_json::{from_value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

/// How long anything may take. Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn the_program_leads_makes_ingresses_and_tells_its_health_and_its_metrics() {
    let done = tokio::time::timeout(PATIENCE, live()).await;
    done.expect("the program does what it should");
}

async fn live() {
    let server = ApiServer::start().await.expect("there is a free port");
    let kubeconfig =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kubeconfig-{}", std::process::id()));
    std::fs::write(&kubeconfig, server.kubeconfig()).expect("it can be written");
    let mut program = Command::new(env!("CARGO_BIN_EXE_ingress-manager"))
        .args(["--bind", "127.0.0.1:0"])
        .env("KUBECONFIG", &kubeconfig)
        .env("NO_COLOR", "1")
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("it can be started");
    let mut lines = BufReader::new(program.stdout.take().expect("piped")).lines();
    let address = loop {
        let line = lines.next_line().await.expect("it can be read").expect("it still runs");
        if let Some((_, address)) = line.split_once("address=") {
            break address.trim().to_owned();
        }
    };
    // Somebody has to read what it says.
    let reading = tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });

    let client = Client::new(Config::new(server.url().parse().expect("a URL"))).expect("a client");
    let service = json!({
        "metadata": {"name": "web", "annotations": {ANNOTATION: "shop.test"}}, "spec": {"ports": [{"port": 80}]},
    });
    let service: Service = from_value(service).expect("a service");
    let services = Api::<Service>::namespaced(client.clone(), "default");
    services.create(&WriteParams::default(), &service).await.expect("created");
    let ingresses = Api::<Ingress>::namespaced(client, "default");
    ingresses.wait_for("web", |it| it.is_some()).await.expect("it comes");

    assert_eq!(asked(&address, "/healthz").await, "ok");
    assert_eq!(asked(&address, "/readyz").await, "ok");
    let metrics = asked(&address, "/metrics").await;
    for (metric, label, value) in [
        ("leader_election_master_status", "ingress-manager", "1"),
        ("controller_runtime_max_concurrent_reconciles", "ingress-manager", "4"),
    ] {
        let mut told = metrics.lines().filter(|it| it.starts_with(metric) && it.contains(label));
        assert!(told.any(|it| it.ends_with(&format!(" {value}"))), "no {metric} of {value} in\n{metrics}");
    }
    for metric in ["controller_runtime_reconcile_total", "workqueue_adds_total"] {
        assert!(metrics.lines().any(|it| it.starts_with(metric)), "no {metric} in\n{metrics}");
    }
    program.kill().await.expect("it runs");
    reading.await.expect("no panic");
    let _ = std::fs::remove_file(kubeconfig);
}

/// The body of an answer.
async fn asked(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it accepts");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    body.to_owned()
}
