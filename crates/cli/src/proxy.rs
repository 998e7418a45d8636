//! `dogwatch proxy`: runs the proxy as a process.
//!
//! Scripts rely on one line on stdout, `ready <url>`, printed when the proxy accepts requests and
//! the kubeconfig is written.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use dogwatch::config::{Identity, Pem};
use dogwatch_proxy::{Proxy, ProxyOptions, ServerCertificate};

use crate::connection::Connection;
use crate::listen_address::{address, host};
use crate::private_file::write_private;
use crate::{number, signals};

const EXAMPLES: &str = "\
It prints one line to stdout, `ready URL`, when it is ready; Ctrl-C and
SIGTERM stop it. With -v it logs every request to stderr.

A caller's token is passed on unchanged. A caller with a client certificate,
verified with --client-ca-file, is passed on by impersonation with the proxy's
own credentials (--kubeconfig, --token), or in the headers of a front proxy.

With --cache, the proxy lists and watches these resources once, as its own
user, and answers its callers' lists and watches from memory. The API server
still decides who may read: the proxy asks it about each caller, for which its
user needs the right to create tokenreviews and subjectaccessreviews. All other
requests are passed on; without --cache, every request is.

With --rules, callers see these resources changed: a YAML file with a list of
rules, read again when it changes. In this example, services with the label
rewrite=yes have another annotation:
    rules:
    - match: {resource: services, labels: rewrite=yes}
      annotations: {seen: through-the-proxy}

Examples:
  Use it as the user `me` of your own kubeconfig, in a second terminal:
    dogwatch proxy --bind 127.0.0.1:8443 --kubeconfig-out proxy.kubeconfig
    KUBECONFIG=proxy.kubeconfig:$HOME/.kube/config kubectl --user me get pods

  Many clients watch pods, and the API server sees one watch:
    dogwatch proxy --bind 127.0.0.1:8443 --cache pods,services

  With a certificate that your tools rotate:
    dogwatch proxy --bind 0.0.0.0:8443 \\
        --tls-cert-file tls.crt --tls-private-key-file tls.key";

/// Forward requests to an API server; with --cache, share watches.
///
/// It is for clients that cannot reach the API server, that have certificates it does not know, or
/// that are so many that their watches overload it (--cache). Clients use the proxy as their API
/// server, each with its own credentials. Reads, writes, watches, logs, exec and port-forward are
/// passed on as streams.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// The address to listen on: ADDR:PORT, localhost:PORT, or a PORT on loopback; port 0 selects a
    /// free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", value_parser = address)]
    bind: SocketAddr,
    /// The name or address by which clients reach the proxy, for the kubeconfig and the generated
    /// certificate.
    #[arg(long, value_name = "HOST", value_parser = host)]
    advertise: Option<String>,
    /// Serve HTTPS, with a certificate and an authority generated for this run unless
    /// --tls-cert-file is given. This is the default.
    #[arg(long, conflicts_with = "plain")]
    tls: bool,
    /// Serve HTTP, on loopback only. kubectl does not send tokens over HTTP.
    #[arg(long)]
    plain: bool,
    /// The certificate to present, with those of intermediate authorities. The file is read again
    /// when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file", conflicts_with = "plain")]
    tls_cert_file: Option<PathBuf>,
    /// The private key of --tls-cert-file.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Accept client certificates of the authorities in this file. The file is read again when it
    /// changes.
    #[arg(long, value_name = "FILE", conflicts_with = "plain")]
    client_ca_file: Option<PathBuf>,
    /// Authenticate to the API server as a front proxy, with this certificate, and send the names
    /// of users with client certificates in X-Remote-User and X-Remote-Group. Without this option
    /// the proxy impersonates these users, for which its own user needs the verb `impersonate`.
    #[arg(
        long,
        value_name = "FILE",
        requires = "requestheader_client_key_file",
        requires = "client_ca_file"
    )]
    requestheader_client_cert_file: Option<PathBuf>,
    /// The private key of --requestheader-client-cert-file.
    #[arg(long, value_name = "FILE", requires = "requestheader_client_cert_file")]
    requestheader_client_key_file: Option<PathBuf>,
    /// Headers in which the API server accepts users from a front proxy, besides those that begin
    /// with X-Remote-, separated by commas: they are removed from requests. A name that ends with
    /// `-` stands for all headers that begin with it.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "requestheader_client_cert_file")]
    requestheader_strip_headers: Vec<String>,
    /// Write a kubeconfig for clients of the proxy to this file, replacing it. It has the proxy's
    /// address and authority and no credentials.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// The resources whose lists and watches are answered from memory, separated by commas and
    /// named as for kubectl: pods,deploy,ingresses.networking.k8s.io
    #[arg(long, value_name = "RESOURCES", value_delimiter = ',')]
    cache: Vec<String>,
    /// The file with rules that change what callers see of the resources of --cache. It is read
    /// again when it changes.
    #[arg(long, value_name = "FILE", requires = "cache")]
    rules: Option<PathBuf>,
    /// The time in seconds for which the proxy remembers what the API server has decided about a
    /// caller. New requests can use a right that was revoked for at most this long.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = number::whole::<u64>(1..=3600))]
    review_ttl: u64,
    /// The longest time in seconds after which the right of the caller of an open watch is checked
    /// again; the watch ends if the right is gone. At least --review-ttl.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = number::whole::<u64>(1..=3600))]
    watch_review_ttl: u64,
    /// Serve /livez, /readyz and /metrics on this address, over HTTP.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    metrics_bind: Option<SocketAddr>,
    /// The number of connections that are served at the same time; more wait.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = number::whole::<u32>(1..=u32::MAX.into()))]
    max_connections: u32,
    #[command(flatten)]
    connection: Connection,
}

impl Options {
    fn certificate(&self) -> Option<ServerCertificate> {
        match (&self.tls_cert_file, &self.tls_private_key_file) {
            _ if self.plain => None,
            (Some(certificate), Some(key)) => {
                Some(ServerCertificate::Files { certificate: certificate.clone(), key: key.clone() })
            }
            _ => Some(ServerCertificate::Generated { name: self.advertise.clone() }),
        }
    }

    fn front_proxy(&self) -> Option<Identity> {
        let pem = |file: &Option<PathBuf>| file.clone().map(Pem::File);
        let certificate = pem(&self.requestheader_client_cert_file)?;
        Some(Identity { certificate, key: pem(&self.requestheader_client_key_file)? })
    }

    fn proxy_options(&self) -> ProxyOptions {
        let mut options = ProxyOptions::default();
        options.bind = self.bind;
        options.certificate = self.certificate();
        options.client_authority.clone_from(&self.client_ca_file);
        options.front_proxy = self.front_proxy();
        options.front_proxy_strips.clone_from(&self.requestheader_strip_headers);
        options.resources.clone_from(&self.cache);
        options.rules.clone_from(&self.rules);
        options.review_ttl = Duration::from_secs(self.review_ttl);
        options.watch_review_ttl = Duration::from_secs(self.watch_review_ttl);
        options.metrics_bind = self.metrics_bind;
        options.max_connections = self.max_connections as usize;
        options
    }
}

/// Serves until a shutdown signal arrives.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    // Registered before the ready line, so that a signal right after it stops the proxy in order.
    let end = signals::shutdown().context("cannot listen for signals")?;
    let proxy = Proxy::start(options.connection.config()?, options.proxy_options()).await?;
    let url = url(&proxy, options.advertise.as_deref());
    if let Some(file) = options.kubeconfig_out {
        let kubeconfig = proxy.kubeconfig(&url);
        let shown = file.display().to_string();
        let written = tokio::task::spawn_blocking(move || write_private(&file, kubeconfig.as_bytes()));
        written.await?.with_context(|| format!("cannot write the kubeconfig {shown}"))?;
    }
    writeln!(io::stdout(), "ready {url}").context("cannot write to stdout")?;
    end.await;
    proxy.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// Returns the URL of the proxy for its clients.
fn url(proxy: &Proxy, advertised: Option<&str>) -> String {
    let url = proxy.url();
    let Some(host) = advertised else { return url };
    let scheme = url.split_once(':').map_or("https", |(scheme, _)| scheme);
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!("{scheme}://{host}:{}", proxy.address().port())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        options: Options,
    }

    fn parse(flags: &[&str]) -> Result<Options, clap::Error> {
        Flags::try_parse_from([&["proxy"], flags].concat()).map(|it| it.options)
    }

    #[test]
    fn it_serves_tls_on_loopback_by_default() {
        let options = parse(&[]).unwrap().proxy_options();
        assert!(options.bind.ip().is_loopback());
        assert_eq!(options.certificate, Some(ServerCertificate::Generated { name: None }));
        assert_eq!(parse(&["--plain"]).unwrap().proxy_options().certificate, None);
    }

    #[test]
    fn resources_are_separated_by_commas() {
        let flags = ["--cache", "pods,services", "--rules", "rules.yaml", "--review-ttl", "60"];
        let options = parse(&flags).unwrap().proxy_options();
        assert_eq!(options.resources, ["pods", "services"]);
        assert_eq!((options.rules, options.review_ttl), (Some("rules.yaml".into()), Duration::from_secs(60)));
        assert_eq!(options.watch_review_ttl, Duration::from_secs(300));
        assert_eq!(parse(&[]).unwrap().proxy_options().resources, [""; 0]);
    }

    #[test]
    fn flags_that_need_each_other_are_refused_alone() {
        for flags in [
            &["--tls-cert-file", "c"][..],
            &["--tls-private-key-file", "k"],
            &["--requestheader-client-cert-file", "c", "--requestheader-client-key-file", "k"],
            &["--requestheader-client-cert-file", "c", "--client-ca-file", "a"],
            &["--plain", "--tls"],
            &["--plain", "--client-ca-file", "a"],
            &["--max-connections", "0"],
            &["--rules", "rules.yaml"],
            &["--review-ttl", "0"],
            &["--watch-review-ttl", "0"],
            &["--requestheader-strip-headers", "x-forwarded-user"],
        ] {
            assert!(parse(flags).is_err(), "{flags:?}");
        }
        let front = ["--requestheader-client-cert-file", "c", "--requestheader-client-key-file", "k"];
        let options = parse(&[&front[..], &["--client-ca-file", "a"]].concat()).unwrap().proxy_options();
        assert!(options.front_proxy.is_some());
    }
}
