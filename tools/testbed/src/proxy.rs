//! `dogwatch proxy` as a process in front of an API server: starts it, waits until it can answer
//! from memory, and reads its metrics.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use processes::process::Process;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::metrics;
use crate::server::free_port;

/// The time within which the proxy has to be ready, with all objects in memory.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// The time limit of a request for its metrics.
const METRICS_TIMEOUT: Duration = Duration::from_secs(30);
/// The interval at which readiness is polled.
const POLL: Duration = Duration::from_millis(20);

/// The command that starts a proxy.
#[derive(Clone, Debug)]
pub struct ProxyCommand {
    /// The dogwatch program.
    pub binary: PathBuf,
    /// The kubeconfig of the API server, with the proxy's own credentials.
    pub upstream: PathBuf,
    /// The resources that it caches.
    pub resources: Vec<String>,
    /// The port on loopback; 0 selects a free one.
    pub port: u16,
    /// More arguments.
    pub arguments: Vec<String>,
}

/// A running proxy. Dropping it kills the process.
#[derive(Debug)]
pub struct ProxyProcess {
    /// Its kubeconfig, without credentials.
    pub kubeconfig: PathBuf,
    /// The process, to measure it.
    pub process: Process,
    metrics: SocketAddr,
    /// The directory of its files. Dropped last.
    _folder: TempDir,
}

impl ProxyCommand {
    /// Starts the proxy, and waits until it accepts requests. Its output is in a log file in
    /// `logs`, if that is given.
    ///
    /// # Errors
    /// If it exits, or does not accept requests in time.
    pub async fn start(&self, logs: Option<&Path>) -> Result<ProxyProcess> {
        let folder = tempfile::tempdir().context("cannot create a directory for the proxy")?;
        let kubeconfig = folder.path().join("kubeconfig");
        let metrics = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let mut command = Command::new(&self.binary);
        command.args(["proxy", "--bind", &format!("127.0.0.1:{}", self.port)]);
        command.args(["--metrics-bind", &metrics.to_string()]);
        command.arg("--kubeconfig").arg(&self.upstream).arg("--kubeconfig-out").arg(&kubeconfig);
        if !self.resources.is_empty() {
            command.args(["--cache", &self.resources.join(",")]);
        }
        command.args(&self.arguments);
        // A proxy that is started again does not overwrite the log of the previous one.
        let name = if logs.is_some() { format!("proxy-{}", metrics.port()) } else { "proxy".to_owned() };
        let began = Instant::now();
        let process = Process::start(&name, &mut command, logs.unwrap_or(folder.path()))?;
        let mut proxy = ProxyProcess { kubeconfig, process, metrics, _folder: folder };
        while !proxy.process.output()?.lines().any(|it| it.starts_with("ready ")) {
            proxy.process.ensure_alive()?;
            ensure!(
                began.elapsed() < READY_TIMEOUT,
                "the proxy did not print `ready` within {READY_TIMEOUT:?}"
            );
            sleep(POLL).await;
        }
        Ok(proxy)
    }
}

impl ProxyProcess {
    /// Waits until every cached resource can be answered from memory.
    ///
    /// # Errors
    /// If it exits, or is not ready in time.
    pub async fn until_ready(&mut self) -> Result<()> {
        let began = Instant::now();
        loop {
            let (code, text) = self.get("/readyz").await?;
            if code == 200 {
                return Ok(());
            }
            self.process.ensure_alive()?;
            ensure!(
                began.elapsed() < READY_TIMEOUT,
                "the proxy is not ready within {READY_TIMEOUT:?}: {text}"
            );
            sleep(POLL).await;
        }
    }

    /// Returns its metrics in the text format of Prometheus, for [`metrics::sum`].
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn metrics(&self) -> Result<String> {
        let (code, text) = self.get("/metrics").await?;
        ensure!(code == 200, "the proxy does not show its metrics: {code}");
        Ok(text)
    }

    /// Returns the number of requests that it has answered from memory.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn cached_reads(&self) -> Result<u64> {
        let text = self.metrics().await?;
        Ok(metrics::sum(&text, "dogwatch_proxy_cached_reads_total", &[]).unwrap_or_default() as u64)
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
