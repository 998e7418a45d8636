//! Resolving names to resources with a retry (rule DI-5), and the scale of any resource (rule
//! SC-1).

use std::time::Duration;

use dogwatch_client::discovery::{DiscoveryOptions, DiskCache, MapError, ScaleError};
use dogwatch_client::{CachedDiscovery, RestMapper};
use dogwatch_core::{Gvk, Gvr, PatchParams, WriteParams};

use crate::discovery_server::{AGGREGATED, DiscoveryServer, items, resources};
use crate::scripted::{Reply, Script, json};

fn with_new_resource(server: &DiscoveryServer) {
    let apis = items(&[("new.io", "v1", "Current", &["storageclasses StorageClass sc"])]);
    server.set("/apis", 200, AGGREGATED, Some("\"new\""), &apis);
}

/// A mapper over files that another process wrote: none of it is fresh.
async fn over_old_files(server: &DiscoveryServer, directory: &std::path::Path) -> RestMapper {
    let disk = DiskCache::new(directory, Duration::from_secs(3600));
    CachedDiscovery::on_disk(server.client(), disk.clone()).get().await.expect("discovered");
    server.paths();
    RestMapper::new(CachedDiscovery::on_disk(server.client(), disk))
}

#[tokio::test]
async fn di_5_words_kinds_and_partial_names() {
    let mapper = RestMapper::new(CachedDiscovery::new(DiscoveryServer::aggregated().client()));
    let by_word = mapper.resolve("Deploy").await.expect("served");
    let by_kind = mapper.by_kind(&Gvk::new("apps", "v1", "Deployment")).await.expect("served");
    let by_name = mapper.by_resource(&Gvr::new("", "", "deployments")).await.expect("served");
    assert_eq!(by_word, by_kind);
    assert_eq!(by_word, by_name);
    assert_eq!(by_word.resource.resource.gvr().to_string(), "deployments.v1.apps");
}

#[tokio::test]
async fn di_5_deferred_cache_miss() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = DiscoveryServer::aggregated();
    let mapper = over_old_files(&server, directory.path()).await;
    mapper.resolve("pods").await.expect("served");
    assert!(server.paths().is_empty(), "a name found in old files needs no request");

    with_new_resource(&server);
    let found = mapper.resolve("storageclasses").await.expect("found after a refresh");
    assert_eq!(found.resource.group_resource(), "storageclasses.new.io");
    assert_eq!(server.paths(), ["/api", "/apis"]);

    let error = mapper.resolve("nothing").await.expect_err("unknown");
    assert!(matches!(error, MapError::NoMatch(_)), "{error:?}");
    assert!(server.paths().is_empty(), "a fresh result is not requested again");

    mapper.discovery().invalidate();
    mapper.resolve("nothing").await.expect_err("unknown");
    assert_eq!(server.paths().len(), 2);
}

#[tokio::test]
async fn di_5_kind_for_with_new_crds_by_short_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = DiscoveryServer::aggregated();
    let mapper = over_old_files(&server, directory.path()).await;
    with_new_resource(&server);
    let found = mapper.resolve("sc").await.expect("found after a refresh");
    assert_eq!(found.resource.resource.gvk.to_string(), "StorageClass.v1.new.io");
}

#[tokio::test]
async fn di_5_concurrent_misses_share_one_refresh() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = DiscoveryServer::aggregated();
    let mapper = over_old_files(&server, directory.path()).await;
    mapper.resolve("pods").await.expect("served");
    let words = ["x", "y", "z"];
    let all = futures_util::future::join_all(words.map(|word| mapper.resolve(word))).await;
    assert!(all.iter().all(Result::is_err));
    assert_eq!(server.paths(), ["/api", "/apis"]);
}

#[tokio::test(start_paused = true)]
async fn di_5_a_mapper_in_memory_notices_new_resources_if_freshness_has_a_limit() {
    let server = DiscoveryServer::aggregated();
    let fresh_for = Some(Duration::from_secs(10));
    let options = DiscoveryOptions { fresh_for, ..DiscoveryOptions::default() };
    let mapper = RestMapper::new(CachedDiscovery::with_options(server.client(), options));
    mapper.resolve("sc").await.expect_err("not there yet");
    with_new_resource(&server);
    mapper.resolve("sc").await.expect_err("refreshed a moment ago");
    tokio::time::advance(Duration::from_secs(11)).await;
    mapper.resolve("sc").await.expect("there now");
    assert_eq!(server.paths().len(), 4);
}

#[tokio::test]
async fn di_5_a_failed_discovery_is_not_a_missing_resource() {
    let server = DiscoveryServer::aggregated().code("/apis", 503);
    let mapper = RestMapper::new(CachedDiscovery::new(server.client()));
    let error = mapper.resolve("pods").await.expect_err("not reachable");
    assert!(matches!(&error, MapError::Discovery(source) if source.status().is_some()), "{error:?}");
    assert_eq!(error.to_string(), "cannot discover the server's resources");
}

#[tokio::test]
async fn di_5_category_expansion() {
    let mapper = RestMapper::new(CachedDiscovery::new(DiscoveryServer::legacy().client()));
    let names = |found: Vec<dogwatch_client::discovery::Match>| -> Vec<_> {
        found.into_iter().map(|it| it.resource.group_resource()).collect()
    };
    let all = mapper.category("all").await.expect("a category");
    assert_eq!(names(all), ["pods", "deployments.apps", "jobs.batch", "cronjobs.batch"]);
    assert!(matches!(mapper.category("none").await, Err(MapError::NoMatch(_))));
    let list = mapper.resolve_all("po, deploy,pods").await.expect("served");
    assert_eq!(names(list), ["pods", "deployments.apps"]);
    assert_eq!(names(mapper.resolve_all("cj,all").await.expect("served")).len(), 4);
    assert!(mapper.resolve_all("pods,nothing").await.is_err());
}

fn scale(api_version: &str, replicas: u32) -> Reply {
    let body = serde_json::json!({
        "kind": "Scale", "apiVersion": api_version, "metadata": {"name": "web", "resourceVersion": "7"},
        "spec": {"replicas": replicas}, "status": {"replicas": 1, "selector": "app=web"},
    });
    json(200, body.to_string())
}

/// A script whose first two responses are discovery documents.
async fn scaled(replies: impl IntoIterator<Item = Reply>) -> (Script, RestMapper) {
    let document = |versions: &[(&str, &str, &str, &[&str])]| {
        let reply = crate::scripted::reply(200).header("content-type", AGGREGATED);
        reply.chunk(items(versions))
    };
    let script = Script::new([
        document(&[("", "v1", "Current", &["replicationcontrollers ReplicationController rc"])]),
        document(&[("apps", "v1", "Current", &["deployments Deployment deploy"])]),
    ]);
    script.then(replies);
    let mapper = RestMapper::new(CachedDiscovery::new(script.client()));
    mapper.discovery().get().await.expect("discovered");
    (script, mapper)
}

#[tokio::test]
async fn sc_1_get_scale_of_anything() {
    let replies = [scale("autoscaling/v1", 3), scale("autoscaling/v1", 3)];
    let (script, mapper) = scaled(replies).await;
    let by_word = mapper.scalable("deploy").await.expect("scalable").in_namespace("ns");
    let found = by_word.get("web").await.expect("a scale");
    assert_eq!(found.spec.and_then(|it| it.replicas), Some(3));
    let kind = Gvk::new("", "v1", "ReplicationController");
    let by_kind = mapper.scalable_kind(&kind).await.expect("scalable").in_namespace("ns");
    by_kind.get("web").await.expect("a scale");
    assert_eq!(
        script.targets()[2..],
        [
            "/base/apis/apps/v1/namespaces/ns/deployments/web/scale",
            "/base/api/v1/namespaces/ns/replicationcontrollers/web/scale",
        ]
    );
}

#[tokio::test]
async fn sc_1_update_and_patch_scale() {
    let (script, mapper) =
        scaled([scale("autoscaling/v1", 3), scale("autoscaling/v1", 5), scale("autoscaling/v1", 6)]).await;
    let scalable = mapper.scalable("deployments.apps").await.expect("scalable").in_namespace("ns");
    let mut current = scalable.get("web").await.expect("a scale");
    current.spec.as_mut().expect("a spec").replicas = Some(5);
    let changed = scalable.replace("web", &WriteParams::default(), &current).await.expect("replaced");
    assert_eq!(changed.spec.and_then(|it| it.replicas), Some(5));
    scalable.set_replicas("web", &PatchParams::default(), 6).await.expect("patched");
    let seen = script.seen();
    assert_eq!((seen[3].method.as_str(), seen[4].method.as_str()), ("PUT", "PATCH"));
    assert!(
        seen[3].body.contains(r#""apiVersion":"autoscaling/v1""#)
            && seen[3].body.contains(r#""resourceVersion":"7""#)
    );
    assert_eq!(seen[4].body, r#"{"spec":{"replicas":6}}"#);
    assert_eq!(seen[4].headers["content-type"], "application/merge-patch+json");
}

#[tokio::test]
async fn sc_1_a_resource_without_scale_is_an_error_before_any_request() {
    let server = DiscoveryServer::legacy();
    let mapper = RestMapper::new(CachedDiscovery::new(server.client()));
    let error = mapper.scalable("jobs").await.expect_err("no scale");
    assert!(matches!(error, ScaleError::NotScalable(_)));
    assert_eq!(error.to_string(), "jobs.batch cannot be scaled: it has no scale subresource");
    assert!(matches!(mapper.scalable("nothing").await, Err(ScaleError::Map(_))));
}

#[tokio::test(start_paused = true)]
async fn an_aggregated_api_that_is_down_does_not_slow_down_other_names() {
    let server = DiscoveryServer::legacy().code("/apis/apps/v1", 503);
    let mapper = RestMapper::new(CachedDiscovery::new(server.client()));
    mapper.resolve("pods").await.expect("served");
    server.paths();
    mapper.resolve("jobs").await.expect("served");
    mapper.resolve_all("pods,cj").await.expect("served");
    assert!(server.paths().is_empty());
    mapper.resolve("deploy").await.expect_err("still down");
    assert_eq!(server.paths(), ["/apis/apps/v1"]);
    tokio::time::advance(Duration::from_secs(60)).await;
    mapper.resolve("pods").await.expect("served");
    assert_eq!(server.paths(), ["/apis/apps/v1"], "once a minute");
    let deployments = resources("apps/v1", &["deployments Deployment deploy"]);
    server.set("/apis/apps/v1", 200, "application/json", None, &deployments);
    mapper.resolve("deploy").await.expect("it is back");
}
