//! The endpoints of a manager, over TCP sockets on loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dogwatch_apiserver::faults::Rule;
use dogwatch_controller::{CancellationToken, Controller, Endpoints, Manager};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::test_cluster::{Calls, Recording, TestCluster};

/// Sends a request. Returns the status code, the headers in lower case, and the body.
async fn request(address: SocketAddr, method: &str, target: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let request = format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("a response");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let code = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a code");
    (code, head.to_lowercase(), body.to_owned())
}

async fn get(address: SocketAddr, target: &str) -> (u16, String) {
    let (code, _, body) = request(address, "GET", target).await;
    (code, body)
}

#[tokio::test]
async fn health_and_readiness_have_the_format_of_kube_apiserver() {
    let cluster = TestCluster::with(&["a"]).await;
    let refused =
        cluster.server.faults().rule(Rule::on("list").or("watch").resource("configmaps").refuse(403));
    let endpoints = Endpoints::bind("127.0.0.1:0").await.expect("a free port");
    let address = endpoints.local_addr().expect("bound");
    let manager = Manager::over(cluster.informers.clone());
    let (maps, good) = (manager.informer::<ConfigMap>(), Arc::new(AtomicBool::new(true)));
    let (checked, stop) = (good.clone(), CancellationToken::new());
    let (ending, is_ending) = tokio::sync::oneshot::channel();
    let (may_end, end) = tokio::sync::oneshot::channel::<()>();
    let manager = manager
        .controller(Controller::of(&maps).named("tested").build(Recording(Calls::new())))
        .health_check("disk", move || {
            let outcome = if checked.load(Ordering::Relaxed) { Ok(()) } else { Err("it is full") };
            std::future::ready(outcome)
        })
        .task("slow to end", |stop| async move {
            stop.cancelled().await;
            ending.send(()).expect("the receiver is alive");
            end.await
        })
        .serve(endpoints);
    let stopped = stop.clone();
    let running = tokio::spawn(async move { manager.run_until(stopped.cancelled()).await });

    assert_eq!(get(address, "/healthz").await, (200, "ok".to_owned()));
    let all_is_well = "[+]ping ok\n[+]disk ok\nhealthz check passed\n".to_owned();
    assert_eq!(get(address, "/healthz?verbose").await, (200, all_is_well));
    let not_synced =
        "[+]ping ok\n[-]informer-sync failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n";
    assert_eq!(get(address, "/readyz").await, (500, not_synced.to_owned()));
    let reason = "internal server error: not synced: controller tested, informers\n".to_owned();
    assert_eq!(get(address, "/readyz/informer-sync").await, (500, reason));
    assert_eq!(get(address, "/readyz?exclude=informer-sync").await, (200, "ok".to_owned()));
    refused.remove();
    while get(address, "/readyz").await.0 != 200 {
        tokio::task::yield_now().await;
    }
    good.store(false, Ordering::Relaxed);
    assert_eq!(get(address, "/healthz/ping").await, (200, "ok".to_owned()));
    assert_eq!(get(address, "/healthz/disk").await, (500, "internal server error: it is full\n".to_owned()));
    let recorded = get(address, "/healthz").await;
    assert_eq!(
        recorded,
        (500, "[+]ping ok\n[-]disk failed: reason withheld\nhealthz check failed\n".to_owned())
    );

    stop.cancel();
    is_ending.await.expect("it ends in time");
    let reason = "internal server error: the process is shutting down\n".to_owned();
    assert_eq!(get(address, "/readyz/shutdown").await, (500, reason), "the endpoint responds until the end");
    may_end.send(()).expect("it waits");
    running.await.expect("no panic").expect("clean shutdown");
    assert!(TcpStream::connect(address).await.is_err(), "the listener is closed");
}

#[tokio::test]
async fn metrics_come_from_the_program_and_may_have_an_address_of_their_own() {
    let cluster = TestCluster::with(&[]).await;
    let render = || "up 1\n".to_owned();
    let bind = || async { Endpoints::bind("127.0.0.1:0").await.expect("a free port") };
    let (health, metrics, both) =
        (bind().await, bind().await.without_health().metrics(render), bind().await.metrics(render));
    let address = |it: &Endpoints| it.local_addr().expect("bound");
    let (at_health, at_metrics, at_both) = (address(&health), address(&metrics), address(&both));
    let manager = Manager::new(cluster.client.clone()).serve(health).serve(metrics).serve(both);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { manager.run_until(stopped.cancelled()).await });
    for (at, healthz, metrics) in [(at_health, 200, 404), (at_metrics, 404, 200), (at_both, 200, 200)] {
        assert_eq!(get(at, "/healthz").await.0, healthz);
        assert_eq!(get(at, "/metrics").await.0, metrics);
        assert_eq!(get(at, "/").await, (404, "404 page not found\n".to_owned()));
        assert_eq!(get(at, "/healthz/none").await.0, 404);
    }
    let (code, head, body) = request(at_both, "GET", "/metrics").await;
    assert_eq!((code, body.as_str()), (200, "up 1\n"));
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    let (code, head, body) = request(at_both, "HEAD", "/healthz").await;
    assert_eq!((code, body.as_str()), (200, ""));
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    assert_eq!(request(at_both, "POST", "/healthz").await.0, 405);
    stop.cancel();
    running.await.expect("no panic").expect("clean shutdown");
}

/// A connection that sends nothing must not block other requests, nor the shutdown of the manager.
#[tokio::test]
async fn a_silent_connection_blocks_nothing() {
    let cluster = TestCluster::with(&[]).await;
    let endpoints = Endpoints::bind("127.0.0.1:0").await.expect("a free port");
    let address = endpoints.local_addr().expect("bound");
    let manager = Manager::new(cluster.client.clone()).serve(endpoints);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { manager.run_until(stopped.cancelled()).await });
    let silent = TcpStream::connect(address).await.expect("connected");
    assert_eq!(get(address, "/readyz/ping").await, (200, "ok".to_owned()));
    stop.cancel();
    running.await.expect("no panic").expect("clean shutdown");
    drop(silent);
}

/// Any client that reaches the address can open connections, and a liveness probe that fails
/// restarts the process.
#[tokio::test]
async fn a_hundred_idle_connections_do_not_keep_probes_out() {
    let cluster = TestCluster::with(&[]).await;
    let endpoints = Endpoints::bind("127.0.0.1:0").await.expect("a free port");
    let address = endpoints.local_addr().expect("bound");
    let manager = Manager::new(cluster.client.clone()).serve(endpoints);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { manager.run_until(stopped.cancelled()).await });
    let mut kept = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("written");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.expect("a response");
        assert_eq!(&answer, b"HTTP/1.1 200");
        kept.push(stream);
    }
    for probe in ["/healthz", "/readyz/ping"] {
        // Shorter than the time after which an idle connection is closed anyway.
        let answer = tokio::time::timeout(Duration::from_secs(20), get(address, probe)).await;
        assert_eq!(answer.expect("the connection is accepted"), (200, "ok".to_owned()));
    }
    // The oldest connection gave way to the probe.
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), kept[0].read_to_end(&mut rest)).await;
    ended.expect("the connection is closed").ok();
    stop.cancel();
    running.await.expect("no panic").expect("clean shutdown");
}
