//! Restarts of the server behind the proxy, of the proxy itself, and several proxies side by side:
//! an informer always ends equal to the server.

use std::net::SocketAddr;

use dogwatch_apiserver::ApiServer;
use dogwatch_client::{Api, Client};
use dogwatch_core::{ListParams, WatchParams, WriteParams};
use dogwatch_informer::SharedInformer;
use dogwatch_proxy::{Proxy, ProxyOptions};
use dogwatch_wire::WatchEvent;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::support::{caller, config, map, maps, proxy_of, warm, within};

/// Starts a server over HTTP whose first version is this one.
async fn server_at(address: SocketAddr, first_version: u64) -> ApiServer {
    let builder = || ApiServer::builder().token("admin").bind(address).first_revision(first_version);
    within("a free port", async {
        loop {
            // Connections of the last server may still be closing.
            match builder().start().await {
                Ok(server) => return server,
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        }
    })
    .await
}

fn caching() -> ProxyOptions {
    let mut options = ProxyOptions::default();
    options.resources = vec!["configmaps".to_owned()];
    options
}

fn direct(server: &ApiServer) -> Api<ConfigMap> {
    maps(Client::new(config(&server.kubeconfig())).unwrap())
}

async fn write(server: &ApiServer, names: &[&str]) {
    for name in names {
        direct(server).create(&WriteParams::default(), &map(name, "1")).await.unwrap();
    }
}

async fn is_equal(informer: &SharedInformer<ConfigMap>, server: &ApiServer) {
    let version = |it: &ConfigMap| (it.metadata.name.clone(), it.metadata.resource_version.clone());
    within("the informer equals the server", async {
        loop {
            let listed = direct(server).list(&ListParams::default()).await.unwrap();
            let mut expected: Vec<_> = listed.items.iter().map(version).collect();
            let mut cached: Vec<_> = informer.store().snapshot().iter().map(|it| version(it)).collect();
            expected.sort();
            cached.sort();
            if cached == expected {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_informer_survives_a_restart_of_the_server_also_with_lower_versions() {
    let server = server_at(([127, 0, 0, 1], 0).into(), 10_000).await;
    let address: SocketAddr =
        server.url().trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
    write(&server, &["a", "b"]).await;
    let proxy = proxy_of(&server, caching()).await;
    warm(&server, &proxy).await;
    let informer = SharedInformer::new(maps(caller(&proxy, "admin")));
    informer.start();
    informer.synced().await.unwrap();
    is_equal(&informer, &server).await;
    server.stop().await;
    // It was restored from a backup: other objects, at versions that others had.
    let server = server_at(address, 100).await;
    write(&server, &["b", "c"]).await;
    is_equal(&informer, &server).await;
    server.stop().await;
    let server = server_at(address, 20_000).await;
    write(&server, &["d"]).await;
    is_equal(&informer, &server).await;
    write(&server, &["e"]).await;
    is_equal(&informer, &server).await;
}

/// Reads a watch until it has an object of this name; false if it ended before.
async fn has_added(proxy: &Proxy, version: &str, name: &str) -> bool {
    let watch = maps(caller(proxy, "admin")).watch(&WatchParams::after(version)).await;
    let Ok(mut watch) = watch else { return false };
    within("an event or the end", async {
        while let Some(event) = watch.next().await {
            match event {
                Ok(WatchEvent::Added(it)) if it.metadata.name.as_deref() == Some(name) => return true,
                Ok(WatchEvent::Error(_)) | Err(_) => return false,
                _ => {}
            }
        }
        false
    })
    .await
}

#[tokio::test]
async fn a_watch_of_one_proxy_resumes_at_another() {
    let server = server_at(([127, 0, 0, 1], 0).into(), 1_000).await;
    write(&server, &["a"]).await;
    let (first, second) = (proxy_of(&server, caching()).await, proxy_of(&server, caching()).await);
    warm(&server, &first).await;
    warm(&server, &second).await;
    let listed = maps(caller(&first, "admin")).list(&ListParams::default()).await.unwrap();
    let version = listed.metadata.version.as_str().to_owned();
    first.stop().await;
    write(&server, &["b"]).await;
    assert!(has_added(&second, &version, "b").await, "both have the versions of the server");
    // A proxy that starts later has no history: the client lists again, and misses nothing.
    let third = proxy_of(&server, caching()).await;
    warm(&server, &third).await;
    write(&server, &["c"]).await;
    if !has_added(&third, &version, "c").await {
        let listed = maps(caller(&third, "admin")).list(&ListParams::default()).await.unwrap();
        assert_eq!(listed.items.len(), 3);
    }
}
