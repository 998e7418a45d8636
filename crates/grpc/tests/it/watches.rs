//! The requests of a resolver: watches that the server filters, and single reads where only a
//! reason is needed.

use std::time::Duration;

use dogwatch_apiserver::faults::Rule;
use dogwatch_grpc::Unavailable;
use serde_json::json;

use crate::cluster::{TEST_TIMEOUT, TestCluster, describe, until};

#[tokio::test(start_paused = true)]
async fn one_watch_serves_all_but_the_first_services_of_a_namespace_and_ends_with_the_last() {
    let cluster = TestCluster::start().await;
    let targets: Vec<String> = (0..20).map(|it| format!("kubernetes:///svc-{it}:grpc")).collect();
    for (number, _) in targets.iter().enumerate() {
        let (service, pod) = (format!("svc-{number}"), format!("10.0.0.{number} p{number}"));
        cluster.slice(&service, &service, &["grpc=80"], &[&pod]).await;
    }
    let mut watches = Vec::new();
    for (number, target) in targets.iter().enumerate() {
        let mut watch = cluster.watch(target);
        until(&mut watch, &format!("10.0.0.{number}:80")).await;
        watches.extend([watch.clone(), cluster.watch(target), watch]);
    }
    let asked = || cluster.requests("watch", "endpointslices") + cluster.requests("list", "endpointslices");
    let selected = || {
        let watches = cluster.server.requests().verb("watch").resource("endpointslices");
        watches.filter(|it| it.query.contains("labelSelector=")).count()
    };
    assert_eq!((asked(), selected()), (5, 4), "expected four filtered watches, and one for the others");
    assert_eq!(cluster.requests("watch", "services"), 0, "no target needs Services here");

    // Watches end after ten minutes at the latest, and are reopened while a target needs them.
    tokio::time::sleep(2 * TEST_TIMEOUT).await;
    let (before, last) = (asked(), watches.pop());
    drop(watches);
    tokio::time::sleep(2 * TEST_TIMEOUT).await;
    assert!(asked() > before, "one target should keep the watch open");
    drop(last);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = asked();
    tokio::time::sleep(6 * TEST_TIMEOUT).await;
    assert_eq!(asked(), before, "no target needs the watch any more");
    until(&mut cluster.watch("kubernetes:///svc-7:grpc"), "10.0.0.7:80").await;
}

#[tokio::test(start_paused = true)]
async fn a_single_service_of_many_is_watched_with_a_filter() {
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["grpc=80"], &["10.0.0.1 a"]).await;
    cluster.slice("other", "other-1", &["grpc=80"], &["10.0.9.9 z"]).await;
    until(&mut cluster.watch("kubernetes:///web:grpc"), "10.0.0.1:80").await;
    let queries: Vec<String> = cluster
        .server
        .requests()
        .resource("endpointslices")
        .verb("watch")
        .iter()
        .map(|it| it.query.clone())
        .collect();
    assert!(
        queries.iter().all(|it| it.contains("labelSelector=kubernetes.io%2Fservice-name%3Dweb")),
        "{queries:?}"
    );
    // A port number needs the Service, and only this one.
    cluster.service("web", json!({ "ports": [{ "name": "grpc", "port": 81 }] })).await;
    until(&mut cluster.watch("kubernetes:///web:81"), "10.0.0.1:80").await;
    let queries: Vec<String> = cluster
        .server
        .requests()
        .resource("services")
        .verb("watch")
        .iter()
        .map(|it| it.query.clone())
        .collect();
    assert!(!queries.is_empty() && queries.iter().all(|it| it.contains("metadata.name")), "{queries:?}");
}

/// A service that is scaled to zero may stay so for days.
#[tokio::test(start_paused = true)]
async fn the_reason_for_an_empty_set_is_read_occasionally_and_not_watched() {
    let cluster = TestCluster::start().await;
    cluster.service("web", json!({ "ports": [{ "name": "grpc", "port": 80 }] })).await;
    let mut watch = cluster.watch("kubernetes:///web:grpc");
    assert_eq!(watch.known().await.unavailable, Some(Unavailable::NoEndpoints));
    let mut missing = cluster.watch("kubernetes:///missing:grpc");
    assert_eq!(missing.known().await.unavailable, Some(Unavailable::ServiceNotFound));
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let read = cluster.requests("list", "services");
    assert_eq!(cluster.requests("watch", "services"), 0);
    assert!((4..=40).contains(&read), "{read} reads of two Services in an hour");
    // Two targets of one service, one of them with endpoints: neither makes the other read
    // endlessly.
    cluster.slice("web", "web-1", &["grpc=80"], &["10.0.0.1 a"]).await;
    until(&mut watch, "10.0.0.1:80").await;
    let mut other = cluster.watch("kubernetes:///web:http");
    until(&mut other, "(none of its endpoints has a port \"http\")").await;
    let before = cluster.requests("list", "services");
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let read = cluster.requests("list", "services") - before;
    assert!(read <= 40, "{read} reads of two Services in an hour");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_may_not_read_services_gets_a_reason_all_the_same() {
    let cluster = TestCluster::start().await;
    cluster.server.faults().rule(Rule::on("list").or("watch").resource("services").refuse(403));
    let mut watch = cluster.watch("kubernetes:///web:grpc");
    assert_eq!(watch.known().await.unavailable, Some(Unavailable::NoEndpoints));
    tokio::time::sleep(4 * Duration::from_secs(60)).await;
    assert_eq!(cluster.requests("list", "services"), 1, "a forbidden read should not be repeated at once");
}

/// Targets are watched and dropped by several threads while slices change: the final watch has the
/// existing endpoints.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn targets_watched_and_dropped_by_several_threads_resolve_in_the_end() {
    let cluster = TestCluster::start().await;
    for number in 0..8 {
        let (service, pod) = (format!("svc-{number}"), format!("10.0.0.{number} p{number}"));
        cluster.slice(&service, &service, &["grpc=80"], &[&pod]).await;
    }
    let churn = |thread: usize| {
        let resolver = cluster.resolver.clone();
        tokio::spawn(async move {
            for turn in 0..40 {
                let target = format!("kubernetes:///svc-{}:grpc", (thread + turn) % 8);
                let mut watch = resolver.watch(&target.parse().expect("a target"));
                if turn % 3 == 0 {
                    let known = tokio::time::timeout(Duration::from_secs(60), watch.known()).await;
                    assert!(known.is_ok(), "{target} is not resolved after a minute");
                }
            }
        })
    };
    let threads: Vec<_> = (0..4).map(churn).collect();
    for number in 0..8 {
        let (service, pod) = (format!("svc-{number}"), format!("10.0.1.{number} q{number}"));
        cluster.slice(&service, &service, &["grpc=80"], &[&pod]).await;
    }
    for thread in threads {
        thread.await.expect("the thread does not panic");
    }
    for number in 0..8 {
        let mut watch = cluster.watch(&format!("kubernetes:///svc-{number}:grpc"));
        let set = until(&mut watch, &format!("10.0.1.{number}:80")).await;
        assert_eq!(describe(&set), format!("10.0.1.{number}:80"));
    }
}

/// The watch of a target ends with its runtime, and must not be shared with callers on another one,
/// which would wait forever.
#[tokio::test]
async fn a_target_watched_on_an_ended_runtime_is_watched_anew() {
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["grpc=80"], &["10.0.0.1 a"]).await;
    let resolver = cluster.resolver.clone();
    let stale = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut watch = resolver.watch(&"kubernetes:///web:grpc".parse().expect("a target"));
            until(&mut watch, "10.0.0.1:80").await;
            watch
        })
    });
    let stale = stale.await.expect("the other runtime ends");
    let mut watch = cluster.watch("kubernetes:///web:grpc");
    until(&mut watch, "10.0.0.1:80").await;
    cluster.slice("web", "web-1", &["grpc=80"], &["10.0.0.2 b"]).await;
    until(&mut watch, "10.0.0.2:80").await;
    assert_eq!(describe(&stale.current()), "10.0.0.1:80", "the old watch should keep its last set");
}
