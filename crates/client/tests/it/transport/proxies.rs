//! HTTP, HTTPS and SOCKS5 proxies. The clusters have names that only the proxy resolves.

use dogwatch_client::transport::{ProxyEnvironment, TransportErrorKind};

use super::*;
use crate::support::{ConnectProxy, ServerSetup, SocksProxy, closed_port, text};

const CLUSTER: &str = "https://api.cluster.test:6443";

/// A server for `api.cluster.test` and the settings for it.
async fn cluster() -> (Server, Config, Authority) {
    let authority = Authority::new("cluster");
    let leaf = authority.server(&["api.cluster.test", "127.0.0.1"]);
    let server = ServerSetup::tls(leaf).start(|_, peer| async { text(peer.alpn.unwrap()) }).await;
    let config = trusting(CLUSTER, &authority);
    (server, config, authority)
}

fn by(mut config: Config, proxy: &str) -> Transport {
    config.proxy_url = Some(proxy.parse().unwrap());
    transport(&config)
}

#[tokio::test]
async fn tr_1_a_connect_proxy_connects_to_the_cluster() {
    let (server, config, _) = cluster().await;
    // "me:p@ss" in base64.
    let proxy = ConnectProxy::to(server.address(), Some("Basic bWU6cEBzcw==")).await;
    let transport = by(config, &format!("http://me:p%40ss@{}", proxy.address()));
    assert_eq!(fetch(&transport, CLUSTER).await, "h2");
    assert_eq!(proxy.asked(), ["api.cluster.test:6443"]);
}

#[tokio::test]
async fn an_error_of_a_proxy_is_distinct_and_shows_no_password() {
    let (server, config, _) = cluster().await;
    let proxy = ConnectProxy::to(server.address(), Some("Basic other")).await;
    let transport = by(config, &format!("http://me:s3cret@{}", proxy.address()));
    let error = send(&transport, get(CLUSTER)).await.unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::Proxy);
    assert!(!error.request_was_sent());
    let message = format!("{} {error:?}", chain(&error));
    assert!(message.contains("cannot connect to api.cluster.test:6443"), "{message}");
    assert!(message.contains("authorization required"), "{message}");
    assert!(!message.contains("s3cret"), "{message}");
}

#[tokio::test]
async fn an_unreachable_proxy_is_named() {
    let (_server, config, _) = cluster().await;
    let closed = closed_port().await;
    for scheme in ["http", "https", "socks5"] {
        let transport = by(config.clone(), &format!("{scheme}://{closed}"));
        let error = send(&transport, get(CLUSTER)).await.unwrap_err();
        assert_eq!(error.kind(), TransportErrorKind::Proxy);
        assert_eq!(error.to_string(), format!("cannot reach the proxy {closed}"));
    }
}

#[tokio::test]
async fn an_https_proxy_works_with_the_ca_of_the_cluster() {
    let (server, config, authority) = cluster().await;
    let proxy = ConnectProxy::over_tls(server.address(), &authority.server(&["127.0.0.1"])).await;
    let transport = by(config, &format!("https://{}", proxy.address()));
    assert_eq!(fetch(&transport, CLUSTER).await, "h2");
    assert_eq!(proxy.asked(), ["api.cluster.test:6443"]);
}

#[tokio::test]
async fn tr_1_a_socks5_proxy_resolves_the_name_of_the_cluster() {
    let (server, config, _) = cluster().await;
    let open = SocksProxy::to(server.address(), None).await;
    let transport = by(config.clone(), &format!("socks5://{}", open.address()));
    assert_eq!(fetch(&transport, CLUSTER).await, "h2");
    assert_eq!(open.asked(), ["api.cluster.test:6443"]);

    let guarded = SocksProxy::to(server.address(), Some(("me", "p@ss"))).await;
    let transport = by(config.clone(), &format!("socks5h://me:p%40ss@{}", guarded.address()));
    assert_eq!(fetch(&transport, CLUSTER).await, "h2");
    let transport = by(config, &format!("socks5://me:wrong@{}", guarded.address()));
    let error = send(&transport, get(CLUSTER)).await.unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::Proxy);
    assert_eq!(guarded.asked().len(), 1);
}

#[tokio::test]
async fn the_environment_is_used_if_the_settings_have_no_proxy() {
    let (server, config, authority) = cluster().await;
    let proxy = ConnectProxy::to(server.address(), None).await;
    let mut options = TransportOptions::default();
    options.proxy = ProxyEnvironment::from_env(|name| match name {
        "HTTPS_PROXY" => Some(format!("http://{}", proxy.address())),
        "NO_PROXY" => Some("127.0.0.0/8".to_owned()),
        _ => None,
    });
    let transport = Transport::with_options(&config, no_plugin(), options.clone()).unwrap();
    assert_eq!(fetch(&transport, CLUSTER).await, "h2", "the proxy is in NO_PROXY, the cluster is not");

    let config = trusting(&server.url(), &authority);
    let transport = Transport::with_options(&config, no_plugin(), options).unwrap();
    assert_eq!(fetch(&transport, &server.url()).await, "h2");
    assert_eq!(proxy.asked(), ["api.cluster.test:6443"], "the second request went directly");
}
