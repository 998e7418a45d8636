//! A proxy in front of a server, and clients of both.

use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_client::config::Overrides;
use dogwatch_client::{Client, Config};
use dogwatch_proxy::{Proxy, ProxyOptions};

/// Longer than anything takes on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Awaits something; the message says what did not happen.
pub(crate) async fn within<T>(what: &str, waited: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, waited).await.unwrap_or_else(|_| panic!("{what} within a minute"))
}

/// Returns the settings in a kubeconfig.
pub(crate) fn config(kubeconfig: &str) -> Config {
    Config::from_kubeconfig_str(kubeconfig, &Overrides::default()).unwrap()
}

/// Returns options for a proxy over HTTP.
pub(crate) fn plain() -> ProxyOptions {
    let mut options = ProxyOptions::default();
    options.certificate = None;
    options
}

/// Starts a proxy for a server, as the server's administrator.
pub(crate) async fn proxy_of(server: &ApiServer, options: ProxyOptions) -> Proxy {
    Proxy::start(config(&server.kubeconfig()), options).await.unwrap()
}

/// Returns the settings of a caller with this token.
pub(crate) fn caller_config(proxy: &Proxy, token: &str) -> Config {
    let mut config = config(&proxy.kubeconfig(&proxy.url()));
    config.auth.token = Some(token.into());
    config
}

/// Returns a client of the proxy with this token.
pub(crate) fn caller(proxy: &Proxy, token: &str) -> Client {
    Client::new(caller_config(proxy, token)).unwrap()
}
