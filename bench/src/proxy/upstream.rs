//! The API server behind the proxy: our own, or that of a kubeconfig.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dogwatch::config::Overrides;
use dogwatch::{Client, Config};
use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use testbed::connector::Connector;
use testbed::metrics;
use testbed::server::{OwnServer, Server};
use tokio::time::{Instant, sleep};

/// The time within which the server has to notice that watches have ended.
const END_TIMEOUT: Duration = Duration::from_secs(60);
/// The interval at which it is asked.
const POLL: Duration = Duration::from_millis(200);

/// An API server that the proxy and the writer use.
#[derive(Debug)]
pub(super) struct Upstream {
    /// The words for it in the table.
    pub(super) name: String,
    pub(super) kubeconfig: PathBuf,
    pub(super) config: Config,
    /// Opens connections with the token of the kubeconfig.
    pub(super) connector: Connector,
    /// The process, if it is our own.
    own: Option<Server>,
}

impl Upstream {
    /// Starts our own server, or takes that of a kubeconfig.
    ///
    /// # Errors
    /// If our own does not start, or if the kubeconfig names no bearer token or CA certificate.
    pub(super) async fn new(binary: &OwnServer, kubeconfig: Option<&Path>) -> Result<Self> {
        let own = match kubeconfig {
            Some(_) => None,
            // The controllers would delete pods whose owner does not exist.
            None => Some(binary.start(&["--no-controllers"]).await?),
        };
        let kubeconfig = own.as_ref().map(|it| it.kubeconfig.as_path()).or(kubeconfig);
        let kubeconfig = kubeconfig.context("there is no server")?;
        let kubeconfig =
            kubeconfig.canonicalize().with_context(|| format!("cannot find {}", kubeconfig.display()))?;
        let config = Config::from_kubeconfig(&kubeconfig, &Overrides::default())?;
        let name = if own.is_some() { "our own".to_owned() } else { config.server.to_string() };
        let connector = Connector::from_config(&config)?;
        Ok(Self { name, kubeconfig, config, connector, own })
    }

    /// Returns a client for the writer.
    ///
    /// # Errors
    /// If a file of the kubeconfig cannot be read.
    pub(super) fn client(&self) -> Result<Client> {
        Ok(Client::new(self.config.clone())?)
    }

    /// Returns the port of the server.
    pub(super) fn port(&self) -> u16 {
        self.config.server.port_or_known_default().unwrap_or(443)
    }

    /// Returns the CPU seconds that the server has used. Another server than ours reports those of
    /// its own process, without its storage.
    ///
    /// # Errors
    /// If they are not available.
    pub(super) async fn cpu_seconds(&self) -> Result<f64> {
        if let Some(own) = &self.own {
            return own.cpu_seconds();
        }
        let name = "process_cpu_seconds_total";
        let text = self.metrics().await?;
        metrics::sum(&text, name, &[]).with_context(|| format!("the metrics of {} have no {name}", self.name))
    }

    /// Returns the number of open watches of pods.
    ///
    /// # Errors
    /// If the server does not report them.
    pub(super) async fn watches(&self) -> Result<u64> {
        let text = self.metrics().await?;
        let labels = ["resource=\"pods\"", "verb=\"WATCH\""];
        // A series begins with the first watch.
        Ok(metrics::sum(&text, "apiserver_longrunning_requests", &labels).unwrap_or_default() as u64)
    }

    /// Waits until the server has only this many watches of pods.
    ///
    /// # Errors
    /// If it has more after a minute.
    pub(super) async fn watches_ended(&self, left: u64) -> Result<()> {
        let began = Instant::now();
        loop {
            let open = self.watches().await?;
            if open <= left {
                return Ok(());
            }
            ensure!(began.elapsed() < END_TIMEOUT, "{open} watches are still open after {END_TIMEOUT:?}");
            sleep(POLL).await;
        }
    }

    async fn metrics(&self) -> Result<String> {
        let (code, body) = self.connector.http1().await?.send(Method::GET, "/metrics", Bytes::new()).await?;
        ensure!(code == StatusCode::OK, "{} does not show its metrics to this user: {code}", self.name);
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}
