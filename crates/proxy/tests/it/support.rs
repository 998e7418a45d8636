//! A proxy in front of a server, and clients of both.

use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_client::config::Overrides;
use dogwatch_client::{Api, Client, Config};
use dogwatch_core::ListParams;
use dogwatch_proxy::{Proxy, ProxyOptions};
use k8s_openapi::api::core::v1::ConfigMap;

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

/// Returns a handle on the config maps of the namespace `default`.
pub(crate) fn maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

/// Returns a config map with one value.
pub(crate) fn map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some([("value".to_owned(), value.to_owned())].into());
    map
}

/// Waits until the proxy answers lists of config maps from memory.
pub(crate) async fn warm(server: &ApiServer, proxy: &Proxy) {
    let admin = maps(caller(proxy, "admin"));
    let params = ListParams::default().at("0");
    let lists = || server.requests().verb("list").resource("configmaps").count();
    within("an answer from memory", async {
        loop {
            let before = lists();
            if admin.list(&params).await.is_ok() && lists() == before {
                return;
            }
        }
    })
    .await;
}
