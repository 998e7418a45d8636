//! The options of a proxy.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use dogwatch_client::config::Identity;

use crate::tls::ServerCertificate;

/// The options of a proxy. The default is a forwarder on a free port of the loopback, with TLS.
///
/// ```
/// use dogwatch_proxy::{ProxyOptions, ServerCertificate};
///
/// let mut options = ProxyOptions::default();
/// options.client_authority = Some("/etc/proxy/clients.crt".into());
/// assert_eq!(options.certificate, Some(ServerCertificate::Generated { name: None }));
/// assert!(options.bind.ip().is_loopback());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProxyOptions {
    /// The address to listen on. Defaults to a free port of 127.0.0.1.
    pub bind: SocketAddr,
    /// The certificate of the proxy; `None` serves HTTP. Defaults to a generated one.
    pub certificate: Option<ServerCertificate>,
    /// The file with the authority of client certificates. Without it, none are requested.
    pub client_authority: Option<PathBuf>,
    /// The certificate with which upstream accepts the names of users from the proxy. Without it,
    /// users with a client certificate are passed on by impersonation.
    pub front_proxy: Option<Identity>,
    /// Headers in which upstream accepts the user from a front proxy, besides those that begin with
    /// `X-Remote-`: they are removed from requests that name the user. A name that ends with `-`
    /// stands for all headers that begin with it. Defaults to none.
    pub front_proxy_strips: Vec<String>,
    /// The resources that are answered from memory, as kubectl names them: `pods`, `deploy`,
    /// `ingresses.networking.k8s.io`. Defaults to none.
    pub resources: Vec<String>,
    /// The file with rules that change what callers see of these resources.
    pub rules: Option<PathBuf>,
    /// The time for which the API server's decisions about a caller are used again for new
    /// requests: the longest time that a right lasts for them after it was revoked. Defaults to ten
    /// seconds.
    pub review_ttl: Duration,
    /// The longest time between two reviews of an open watch, which ends when its caller has lost
    /// the right; at least `review_ttl`. Defaults to five minutes, for which a kube-apiserver
    /// relies on a webhook that has authorized a request.
    pub watch_review_ttl: Duration,
    /// The address of the endpoint for operators, with `/livez`, `/readyz` and `/metrics`, over
    /// HTTP. Defaults to none.
    pub metrics_bind: Option<SocketAddr>,
    /// The number of connections that are served at the same time. Defaults to 10,000.
    pub max_connections: usize,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        Self {
            bind: (Ipv4Addr::LOCALHOST, 0).into(),
            certificate: Some(ServerCertificate::Generated { name: None }),
            client_authority: None,
            front_proxy: None,
            front_proxy_strips: Vec::new(),
            resources: Vec::new(),
            rules: None,
            review_ttl: Duration::from_secs(10),
            watch_review_ttl: Duration::from_secs(5 * 60),
            metrics_bind: None,
            max_connections: 10_000,
        }
    }
}
