//! A server with a proxy in front of it: the resources that it caches, and the kubeconfig for the
//! suites.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dogwatch::config::{Kubeconfig, Overrides};
use dogwatch::{Api, Client, Config};
use k8s_openapi::api::core::v1::ConfigMap;
use tempfile::TempDir;
use testbed::connector::ca_of;
use testbed::metrics;
use testbed::proxy::{ProxyCommand, ProxyProcess};
use testbed::server::free_port;

use super::relay::Relay;

/// A proxy in front of a server. It is always on the same port with the same certificate, so that
/// it can be replaced by another process under the eyes of its clients.
#[derive(Debug)]
pub(super) struct ProxiedServer {
    /// The users of the server's kubeconfig, with the proxy as their server.
    pub(super) kubeconfig: PathBuf,
    command: ProxyCommand,
    /// Absent while it is replaced.
    proxy: Option<ProxyProcess>,
    /// The counts of previous processes.
    counts: Counts,
    logs: Option<PathBuf>,
    folder: TempDir,
}

/// The requests of a proxy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Those that were answered from memory.
    pub(super) cached: u64,
    /// Those that were passed on.
    pub(super) forwarded: u64,
    /// The reviews of callers.
    pub(super) reviews: u64,
}

impl ProxiedServer {
    /// Starts a proxy that caches all resources of the server of this kubeconfig, and waits until
    /// it has all objects. It reaches the server through `relay`, if that is given. Its log with
    /// every request is in `logs`.
    ///
    /// # Errors
    /// If the server does not answer, or the proxy does not become ready.
    pub(super) async fn start(
        binary: &Path,
        upstream: &Path,
        relay: Option<&Relay>,
        logs: Option<&Path>,
    ) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a directory for the proxy")?;
        let path = |name: &str| folder.path().join(name);
        let config = Config::from_kubeconfig(upstream, &Overrides::default())?;
        let client = Client::new(config.clone())?;
        std::fs::write(path("clients.crt"), client_authority(&client, &config).await?)?;
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        std::fs::write(path("proxy.crt"), made.cert.pem())?;
        std::fs::write(path("proxy.key"), made.signing_key.serialize_pem())?;

        let to_server = match relay {
            Some(relay) => {
                let host = config.server.host_str().context("the server has no host")?;
                let ca = ca_of(&config)?;
                let relayed = with_server(upstream, relay.port(), &ca, Some(host.trim_matches(['[', ']'])))?;
                std::fs::write(path("upstream.kubeconfig"), relayed)?;
                path("upstream.kubeconfig")
            }
            None => upstream.to_owned(),
        };
        let mut arguments: Vec<String> = logs.iter().map(|_| "-v".to_owned()).collect();
        for (flag, file) in [
            ("--tls-cert-file", "proxy.crt"),
            ("--tls-private-key-file", "proxy.key"),
            ("--client-ca-file", "clients.crt"),
        ] {
            arguments.extend([flag.to_owned(), path(file).display().to_string()]);
        }
        let command = ProxyCommand {
            binary: binary.to_owned(),
            upstream: to_server,
            resources: resources(&client).await?,
            port: free_port()?,
            arguments,
        };
        let kubeconfig = path("kubeconfig");
        std::fs::write(&kubeconfig, with_server(upstream, command.port, &made.cert.pem(), None)?)?;
        let logs = logs.map(Path::to_owned);
        let mut proxied = Self { kubeconfig, command, proxy: None, counts: Counts::default(), logs, folder };
        proxied.replace().await?;
        proxied.proxy.as_mut().context("the proxy was started")?.until_ready().await?;
        Ok(proxied)
    }

    /// The address on loopback.
    pub(super) fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.command.port)
    }

    /// The number of cached resources.
    pub(super) fn resources(&self) -> usize {
        self.command.resources.len()
    }

    /// The directory for files of a suite.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a kubeconfig whose server is a relay to the proxy, and returns its path.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn kubeconfig_through(&self, relay: &Relay) -> Result<PathBuf> {
        let path = self.folder.path().join("relayed.kubeconfig");
        let config = Config::from_kubeconfig(&self.kubeconfig, &Overrides::default())?;
        std::fs::write(&path, with_server(&self.kubeconfig, relay.port(), &ca_of(&config)?, None)?)?;
        Ok(path)
    }

    /// Kills the proxy, and starts another process in its place. It accepts requests when this
    /// returns, and has no history.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) async fn replace(&mut self) -> Result<()> {
        self.counts = self.counts().await?;
        self.proxy = None;
        self.proxy = Some(self.command.start(self.logs.as_deref()).await?);
        Ok(())
    }

    /// Starts the proxy if [`Self::replace`] was cancelled.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) async fn ensure_started(&mut self) -> Result<()> {
        if self.proxy.is_none() { self.replace().await } else { Ok(()) }
    }

    /// Returns the counts of requests.
    ///
    /// # Errors
    /// If the proxy does not answer.
    pub(super) async fn counts(&self) -> Result<Counts> {
        let Some(proxy) = &self.proxy else { return Ok(self.counts) };
        let text = proxy.metrics().await?;
        let value = |name: &str| metrics::sum(&text, name, &[]).unwrap_or_default() as u64;
        let Counts { cached, forwarded, reviews } = self.counts;
        Ok(Counts {
            cached: cached + value("dogwatch_proxy_cached_reads_total"),
            forwarded: forwarded + value("dogwatch_proxy_forwarded_requests_total"),
            reviews: reviews + value("dogwatch_proxy_reviews_total"),
        })
    }
}

/// Returns every resource that the server lists and watches, in each of its versions.
async fn resources(client: &Client) -> Result<Vec<String>> {
    let discovery = client.discover().await?;
    let resources = discovery.resources().filter(|it| it.supports_all(&["list", "watch"]));
    let names: Vec<String> = resources.map(|it| it.resource.gvr().to_string()).collect();
    ensure!(!names.is_empty(), "the server has no resources to cache");
    Ok(names)
}

/// Returns the authority of client certificates: kube-apiserver publishes it, and that of our own
/// server is the one of its own certificate.
async fn client_authority(client: &Client, config: &Config) -> Result<String> {
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "kube-system");
    let published = maps.get_opt("extension-apiserver-authentication").await?;
    match published.and_then(|it| it.data).and_then(|mut it| it.remove("client-ca-file")) {
        Some(pem) => Ok(pem),
        None => ca_of(config),
    }
}

/// Returns a kubeconfig with the same users, and this port on loopback as the server of every
/// cluster.
fn with_server(kubeconfig: &Path, port: u16, ca: &str, name: Option<&str>) -> Result<String> {
    let mut kubeconfig = Kubeconfig::read(kubeconfig)?;
    kubeconfig.resolve_paths();
    for entry in &mut kubeconfig.clusters {
        let cluster = &mut entry.cluster;
        cluster.server = Some(format!("https://127.0.0.1:{port}"));
        cluster.tls_server_name = name.map(str::to_owned);
        cluster.certificate_authority = None;
        cluster.certificate_authority_data = Some(STANDARD.encode(ca));
    }
    Ok(kubeconfig.to_yaml()?)
}
