//! The proxy as a process: starts `dogwatch proxy`, waits until it can answer from memory, and
//! measures it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dogwatch::Config;
use dogwatch::config::Overrides;
use processes::process::Process;
use tempfile::TempDir;
use testbed::connector::Connector;
use testbed::server::free_port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::metrics;
use super::upstream::Upstream;

/// The time within which the proxy has to be ready, with all pods in memory.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// The time limit of a request for its metrics.
const METRICS_TIMEOUT: Duration = Duration::from_secs(30);
/// The interval at which readiness is polled.
const POLL: Duration = Duration::from_millis(20);

/// A running proxy. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct ProxyProcess {
    /// Opens connections to it, with the token of the upstream's kubeconfig.
    pub(super) connector: Connector,
    process: Process,
    metrics: SocketAddr,
    upstream_port: u16,
    /// The directory of its files. Dropped last.
    _folder: TempDir,
}

/// The counters of a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ProxyCounters {
    /// The pods in memory, and their bytes as the proxy counts them.
    pub(super) objects: u64,
    pub(super) bytes: u64,
    /// The watches that are answered from memory.
    pub(super) watches: u64,
    /// The requests that were passed on.
    pub(super) forwarded: u64,
}

impl ProxyProcess {
    /// Starts a proxy that caches pods, or one that only passes requests on, and waits until it is
    /// ready.
    ///
    /// # Errors
    /// If it exits, or is not ready in time.
    pub(super) async fn start(binary: &Path, upstream: &Upstream, caches: bool) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a directory for the proxy")?;
        let kubeconfig = folder.path().join("kubeconfig");
        let metrics = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let mut command = Command::new(binary);
        command.args(["proxy", "--bind", "127.0.0.1:0", "--metrics-bind", &metrics.to_string()]);
        command.arg("--kubeconfig").arg(&upstream.kubeconfig).arg("--kubeconfig-out").arg(&kubeconfig);
        if caches {
            command.args(["--cache", "pods"]);
        }
        let began = Instant::now();
        let mut process = Process::start("dogwatch-proxy", &mut command, folder.path())?;
        while !process.output()?.lines().any(|it| it.starts_with("ready ")) {
            process.ensure_alive()?;
            ensure!(
                began.elapsed() < READY_TIMEOUT,
                "the proxy did not print `ready` within {READY_TIMEOUT:?}"
            );
            sleep(POLL).await;
        }
        let mut config = Config::from_kubeconfig(&kubeconfig, &Overrides::default())?;
        config.auth = upstream.config.auth.clone();
        let connector = Connector::from_config(&config)?;
        let mut proxy = Self { connector, process, metrics, upstream_port: upstream.port(), _folder: folder };
        loop {
            let (code, text) = proxy.get("/readyz").await?;
            if code == 200 {
                return Ok(proxy);
            }
            proxy.process.ensure_alive()?;
            ensure!(
                began.elapsed() < READY_TIMEOUT,
                "the proxy is not ready within {READY_TIMEOUT:?}: {text}"
            );
            sleep(POLL).await;
        }
    }

    /// Returns the CPU seconds that it has used.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        self.process.cpu_seconds()
    }

    /// Returns its resident memory, in MB.
    pub(super) fn resident_mb(&self) -> Result<f64> {
        self.process.resident_mb()
    }

    /// Returns the number of its connections to the API server.
    pub(super) fn upstream_connections(&self) -> Result<usize> {
        self.process.connections_to(self.upstream_port)
    }

    /// Reads its counters.
    pub(super) async fn counters(&self) -> Result<ProxyCounters> {
        let (code, text) = self.get("/metrics").await?;
        ensure!(code == 200, "the proxy does not show its metrics: {code}");
        let value =
            |name: &str, labels: &[&str]| metrics::sum(&text, name, labels).unwrap_or_default() as u64;
        let of_pods = ["resource=\"pods\""];
        Ok(ProxyCounters {
            objects: value("dogwatch_proxy_objects", &of_pods),
            bytes: value("dogwatch_proxy_bytes", &of_pods),
            watches: value("dogwatch_proxy_watches", &of_pods),
            forwarded: value("dogwatch_proxy_forwarded_requests_total", &[]),
        })
    }

    /// Sends a request to its endpoint for operators. Returns the status and the body.
    async fn get(&self, path: &str) -> Result<(u16, String)> {
        let answer = timeout(METRICS_TIMEOUT, get(self.metrics, path)).await;
        answer.with_context(|| format!("the proxy did not answer {path} within {METRICS_TIMEOUT:?}"))?
    }
}

async fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    // A response to HTTP/1.0 ends with the connection and is not chunked.
    let request = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let parts = answer.split_once("\r\n\r\n").and_then(|(head, body)| {
        let code = head.split(' ').nth(1)?.parse().ok()?;
        Some((code, body.to_owned()))
    });
    parts.with_context(|| format!("unexpected answer to {path}: {answer}"))
}
