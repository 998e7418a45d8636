//! The operator against an API server in the same process, on a paused clock.

use std::time::Duration;

use dogwatch::api::DeleteParams;
use dogwatch::controller::CancellationToken;
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, Manager, testing};
use website::{INDEX, Website, WebsiteSpec};

#[tokio::test(start_paused = true)]
async fn a_website_is_published_and_removed_from_the_index() -> anyhow::Result<()> {
    let cluster = testing::cluster().await?;
    let client = cluster.client();
    website::install(&client).await?;
    let manager = Manager::new(client.clone());
    let controller = website::controller(&manager, client.clone())?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.controller(controller).run_until(stop.clone().cancelled_owned()));
    let sites = Api::<Website>::default_namespaced(client.clone());
    let maps = Api::<ConfigMap>::default_namespaced(client);
    let limit = Duration::from_secs(60);

    let spec = WebsiteSpec { title: "Home".to_owned(), html: "<p>Hello</p>".to_owned() };
    cluster.create(&Website::new("home", spec)).await?;
    let published = |site: Option<&Website>| site.is_some_and(|it| it.status.is_some());
    tokio::time::timeout(limit, sites.wait_for("home", published)).await??;
    let page = maps.get("home-page").await?.data.unwrap_or_default();
    assert_eq!(page["index.html"], "<p>Hello</p>");
    let index = maps.get(INDEX).await?.data.unwrap_or_default();
    assert_eq!(index["default.home"], "Home");

    // A page that is deleted is published again.
    let uid = maps.get("home-page").await?.metadata.uid;
    maps.delete("home-page", &DeleteParams::default()).await?;
    let restored = |map: Option<&ConfigMap>| map.is_some_and(|it| it.metadata.uid != uid);
    tokio::time::timeout(limit, maps.wait_for("home-page", restored)).await??;

    // The finalizer removes the entry; the garbage collector of the cluster deletes the page.
    sites.delete("home", &DeleteParams::default()).await?;
    tokio::time::timeout(limit, sites.wait_for("home", |site| site.is_none())).await??;
    assert!(!maps.get(INDEX).await?.data.unwrap_or_default().contains_key("default.home"));
    tokio::time::timeout(limit, maps.wait_for("home-page", |map| map.is_none())).await??;

    stop.cancel();
    running.await??;
    Ok(())
}
