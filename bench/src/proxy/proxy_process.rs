//! The proxy as a process: starts `dogwatch proxy`, waits until it can answer from memory, and
//! measures it.

use std::path::Path;

use anyhow::Result;
use dogwatch::Config;
use dogwatch::config::Overrides;
use testbed::connector::Connector;
use testbed::metrics;
use testbed::proxy::{self, ProxyCommand};

use super::upstream::Upstream;

/// A running proxy. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct ProxyProcess {
    /// Opens connections to it, with the token of the upstream's kubeconfig.
    pub(super) connector: Connector,
    proxy: proxy::ProxyProcess,
    upstream_port: u16,
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
    /// The reviews that were sent upstream.
    pub(super) reviews: u64,
}

impl ProxyProcess {
    /// Starts a proxy that caches pods, or one that only passes requests on, and waits until it is
    /// ready.
    ///
    /// # Errors
    /// If it exits, or is not ready in time.
    pub(super) async fn start(binary: &Path, upstream: &Upstream, caches: bool) -> Result<Self> {
        let command = ProxyCommand {
            binary: binary.to_owned(),
            upstream: upstream.kubeconfig.clone(),
            resources: caches.then(|| "pods".to_owned()).into_iter().collect(),
            port: 0,
            arguments: Vec::new(),
        };
        let mut proxy = command.start(None).await?;
        proxy.until_ready().await?;
        let mut config = Config::from_kubeconfig(&proxy.kubeconfig, &Overrides::default())?;
        config.auth = upstream.config.auth.clone();
        let connector = Connector::from_config(&config)?;
        Ok(Self { connector, proxy, upstream_port: upstream.port() })
    }

    /// Returns the CPU seconds that it has used.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        self.proxy.process.cpu_seconds()
    }

    /// Returns its resident memory, in MB.
    pub(super) fn resident_mb(&self) -> Result<f64> {
        self.proxy.process.resident_mb()
    }

    /// Returns the number of its connections to the API server.
    pub(super) fn upstream_connections(&self) -> Result<usize> {
        self.proxy.process.connections_to(self.upstream_port)
    }

    /// Reads its counters.
    pub(super) async fn counters(&self) -> Result<ProxyCounters> {
        let text = self.proxy.metrics().await?;
        let value =
            |name: &str, labels: &[&str]| metrics::sum(&text, name, labels).unwrap_or_default() as u64;
        let of_pods = ["resource=\"pods\""];
        Ok(ProxyCounters {
            objects: value("dogwatch_proxy_objects", &of_pods),
            bytes: value("dogwatch_proxy_bytes", &of_pods),
            watches: value("dogwatch_proxy_watches", &of_pods),
            forwarded: value("dogwatch_proxy_forwarded_requests_total", &[]),
            reviews: value("dogwatch_proxy_reviews_total", &[]),
        })
    }
}
