//! Resolution in a cluster whose API server is healthy, and its cost.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_apiserver::faults::Rule;
use dogwatch_client::Api;
use dogwatch_core::DeleteParams;
use dogwatch_grpc::{ResolverOptions, Target, Topology, Unavailable};
use k8s_openapi::api::core::v1::Service;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use serde_json::json;

use crate::cluster::{TEST_TIMEOUT, TestCluster, describe, until};

/// kuberesolver #66: an event of one slice replaced the endpoints of all, and those of a deleted
/// slice were reported as live.
#[tokio::test(start_paused = true)]
async fn all_slices_of_a_service_are_one_set_and_an_event_changes_only_its_slice() {
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.1 a", "10.0.0.2 b"]).await;
    cluster.slice("web", "web-2", &["=80"], &["10.0.0.3 c"]).await;
    cluster.slice("other", "other-1", &["=80"], &["10.0.9.9 z"]).await;
    let mut watch = cluster.watch("kubernetes:///web");
    let first = until(&mut watch, "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80").await;
    assert_eq!(first.endpoints[0].zone.as_deref(), Some("z1"));
    assert_eq!(first.endpoints[0].node.as_deref(), Some("n1"));
    assert_eq!(first.endpoints[0].pod.as_deref(), Some("a"));

    cluster.slice("web", "web-2", &["=80"], &["10.0.0.3 c !", "10.0.0.4 d"]).await;
    let second = until(&mut watch, "10.0.0.1:80 10.0.0.2:80 10.0.0.4:80 -10.0.0.3:80").await;
    assert!(Arc::ptr_eq(&first.endpoints[0], &second.endpoints[0]), "unchanged endpoints should be shared");
    assert_eq!(second.generation, first.generation + 1);

    cluster.delete_slice("web-1").await;
    until(&mut watch, "10.0.0.4:80 -10.0.0.3:80").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_moves_between_slices_stays_the_same_endpoint() {
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.1 a", "10.0.0.2 b"]).await;
    cluster.slice("web", "web-2", &["=80"], &["10.0.0.3 c"]).await;
    let mut watch = cluster.watch("kubernetes:///web");
    let before = until(&mut watch, "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80").await;
    // It is in both for a moment, as with the controller.
    cluster.slice("web", "web-2", &["=80"], &["10.0.0.3 c", "10.0.0.2 b"]).await;
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.1 a"]).await;
    cluster.slice("marker", "marker", &["=80"], &["10.0.0.9 m"]).await;
    let mut marker = cluster.watch("kubernetes:///marker");
    until(&mut marker, "10.0.0.9:80").await;
    assert_eq!(watch.current().generation, before.generation, "the set should not have changed");
}

#[tokio::test(start_paused = true)]
async fn all_of_250_pods_in_three_slices_are_found() {
    let cluster = TestCluster::start().await;
    let pods: Vec<String> = (0..250).map(|it| format!("10.0.{}.{} p{it:03}", it / 200, it % 200)).collect();
    for (number, pods) in pods.chunks(100).enumerate() {
        let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
        cluster.slice("web", &format!("web-{number}"), &["=80"], &pods).await;
    }
    let set = cluster.watch("kubernetes:///web").known().await;
    assert_eq!(set.usable().count(), 250);
}

#[tokio::test(start_paused = true)]
async fn a_port_number_is_the_services_port_and_follows_it() {
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["grpc=8080", "metrics=9100"], &["10.0.0.1 a"]).await;
    cluster
        .service(
            "web",
            json!({ "ports": [{ "name": "grpc", "port": 80 }, { "name": "metrics", "port": 90 }] }),
        )
        .await;
    let mut number = cluster.watch("kubernetes:///web:80");
    until(&mut number, "10.0.0.1:8080").await;
    for (target, expected) in [
        ("kubernetes:///web:metrics", "10.0.0.1:9100"),
        ("kubernetes:///web:90", "10.0.0.1:9100"),
        ("kubernetes:///web:8080", "10.0.0.1:8080"),
        ("kubernetes:///web:80?port=pod", "10.0.0.1:80"),
        ("kubernetes:///web", "10.0.0.1:8080"),
        ("kubernetes://default/web:grpc", "10.0.0.1:8080"),
    ] {
        until(&mut cluster.watch(target), expected).await;
    }
    cluster
        .service(
            "web",
            json!({ "ports": [{ "name": "grpc", "port": 81 }, { "name": "metrics", "port": 80 }] }),
        )
        .await;
    until(&mut number, "10.0.0.1:9100").await;
}

/// Replacing a Service deletes it for a moment: the port of its pods does not change meanwhile.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_briefly_deleted_keeps_its_port() {
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["grpc=8080"], &["10.0.0.1 a"]).await;
    cluster.service("web", json!({ "ports": [{ "name": "grpc", "port": 80 }] })).await;
    let mut watch = cluster.watch("kubernetes:///web:80");
    until(&mut watch, "10.0.0.1:8080").await;
    let services = Api::<Service>::default_namespaced(cluster.client.clone());
    services.delete("web", &DeleteParams::default()).await.expect("the Service is deleted");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(describe(&watch.current()), "10.0.0.1:8080");
    cluster.slice("web", "web-1", &["grpc=8080"], &["10.0.0.2 b"]).await;
    until(&mut watch, "10.0.0.2:8080").await;
    cluster.delete_slice("web-1").await;
    until(&mut watch, "(there is no such service)").await;
    // A later Service with the same name is a different one.
    cluster.slice("web", "web-1", &["grpc=8080"], &["10.0.0.3 c"]).await;
    until(&mut watch, "10.0.0.3:80").await;
    cluster.service("web", json!({ "ports": [{ "name": "grpc", "port": 80 }] })).await;
    until(&mut watch, "10.0.0.3:8080").await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_set_has_a_reason_that_follows_changes() {
    let cluster = TestCluster::start().await;
    let mut watch = cluster.watch("kubernetes:///web:grpc");
    assert_eq!(watch.known().await.unavailable, Some(Unavailable::ServiceNotFound));
    cluster.service("web", json!({ "ports": [{ "name": "grpc", "port": 80 }] })).await;
    until(&mut watch, "(it has no endpoints)").await;
    cluster.slice("web", "web-1", &[], &[]).await;
    cluster.slice("web", "web-1", &["grpc=80"], &["10.0.0.1 a !"]).await;
    until(&mut watch, "-10.0.0.1:80 (none of its 1 endpoints is ready)").await;
    let mut other = cluster.watch("kubernetes:///web:http");
    until(&mut other, "(none of its endpoints has a port \"http\")").await;
    cluster.slice("web", "web-1", &["grpc=80"], &["10.0.0.1 a ~"]).await;
    until(&mut watch, "10.0.0.1:80").await;
    cluster.delete_slice("web-1").await;
    until(&mut watch, "(it has no endpoints)").await;
    let services = Api::<Service>::default_namespaced(cluster.client.clone());
    services.delete("web", &DeleteParams::default()).await.expect("the Service is deleted");
    until(&mut watch, "(there is no such service)").await;
    cluster.service("db", json!({ "type": "ExternalName", "externalName": "db.example.com" })).await;
    until(&mut cluster.watch("kubernetes:///db"), "(it is an ExternalName for \"db.example.com\")").await;
}

#[tokio::test(start_paused = true)]
async fn hints_are_followed_if_the_caller_knows_its_location() {
    let here = ResolverOptions::default().topology(Topology::hints().zone("z2"));
    let cluster = TestCluster::with(here).await;
    let endpoint = |address: &str, zone: &str| {
        json!({ "addresses": [address], "conditions": { "ready": true }, "zone": zone,
            "hints": { "forZones": [{ "name": zone }] } })
    };
    let slices =
        Api::<k8s_openapi::api::discovery::v1::EndpointSlice>::default_namespaced(cluster.client.clone());
    let slice = json!({
        "metadata": { "labels": { "kubernetes.io/service-name": "web" },
            "annotations": { "dogwatch/weight": "3" } },
        "addressType": "IPv4", "ports": [{ "name": "", "port": 80 }],
        "endpoints": [endpoint("10.0.0.1", "z1"), endpoint("10.0.0.2", "z2")],
    });
    let params = dogwatch_core::PatchParams::apply("test");
    slices.apply("web-1", &params, &slice).await.expect("the slice is written");
    let set = until(&mut cluster.watch("kubernetes:///web"), "10.0.0.2:80 -10.0.0.1:80").await;
    assert!(set.endpoints.iter().all(|it| it.weight == 3));
}

#[tokio::test(start_paused = true)]
async fn resolve_now_opens_a_new_watch_unless_the_old_one_is_recent() {
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.1 a"]).await;
    let mut watch = cluster.watch("kubernetes:///web");
    until(&mut watch, "10.0.0.1:80").await;
    watch.resolve_now();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(cluster.requests("watch", "endpointslices"), 1, "the watch is recent and should be kept");
    watch.resolve_now();
    watch.resolve_now();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((cluster.requests("watch", "endpointslices"), watch.problem()), (2, None));
    assert_eq!(
        cluster.requests("list", "endpointslices"),
        1,
        "a minimal list to check whether the server's versions went back"
    );
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.2 b"]).await;
    until(&mut watch, "10.0.0.2:80").await;
}

#[tokio::test(start_paused = true)]
async fn everything_is_listed_again_at_the_configured_interval() {
    let every = Duration::from_secs(120);
    let cluster = TestCluster::with(ResolverOptions::default().refresh_every(every)).await;
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.1 a"]).await;
    let mut watch = cluster.watch("kubernetes:///web");
    let before = until(&mut watch, "10.0.0.1:80").await;
    let whole = || {
        let requests = cluster.server.requests().verb("watch").resource("endpointslices");
        requests.filter(|it| it.query.contains("sendInitialEvents=true")).count()
    };
    assert_eq!(whole(), 1);
    tokio::time::sleep(5 * every + every / 2).await;
    assert!((4..=6).contains(&whole()), "{} times", whole());
    assert_eq!(watch.current().generation, before.generation, "a refresh should change nothing");
}

#[tokio::test(start_paused = true)]
async fn a_target_without_a_namespace_uses_the_clients_namespace() {
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.1 a"]).await;
    assert_eq!(cluster.resolver.default_namespace(), "default");
    let target: Target = "kubernetes:///web.elsewhere".parse().expect("a target");
    let mut elsewhere = cluster.resolver.watch(&target);
    assert_eq!(describe(&elsewhere.known().await), "(there is no such service)");
    until(&mut cluster.watch("web"), "10.0.0.1:80").await;
}

#[tokio::test(start_paused = true)]
async fn kuberesolvers_gauges_are_reported() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["grpc=80"], &["10.0.0.1 a", "10.0.0.2 b", "10.0.0.3 c !"]).await;
    let mut watch = cluster.watch("kubernetes:///web:grpc");
    until(&mut watch, "10.0.0.1:80 10.0.0.2:80 -10.0.0.3:80").await;
    let snapshot = snapshotter.snapshot().into_hashmap();
    let gauge = |name: &str| {
        let found = snapshot.iter().find(|(key, _)| key.key().name() == name).expect(name);
        let labels: Vec<_> =
            found.0.key().labels().map(|it| format!("{}={}", it.key(), it.value())).collect();
        assert_eq!(labels, ["target=kubernetes://default/web:grpc"], "{name}");
        match found.1.2 {
            DebugValue::Gauge(value) => value.into_inner(),
            _ => panic!("{name} is not a gauge"),
        }
    };
    assert_eq!((gauge("kuberesolver_endpoints_total"), gauge("kuberesolver_addresses_total")), (3.0, 2.0));
    assert!(gauge("kuberesolver_client_last_update") > 1.7e9);
}

/// For alerts on the age of this gauge: it advances while the server confirms that nothing changed,
/// and stops while it sends nothing.
#[tokio::test(start_paused = true)]
async fn the_last_update_is_the_time_of_the_servers_last_confirmation() {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["grpc=80"], &["10.0.0.1 a"]).await;
    let mut watch = cluster.watch("kubernetes:///web:grpc");
    until(&mut watch, "10.0.0.1:80").await;
    let gauge =
        metrics::gauge!("kuberesolver_client_last_update", "target" => "kubernetes://default/web:grpc");
    let value = || {
        let all = recorder.snapshotter().snapshot().into_vec();
        let found = all.into_iter().find(|it| it.0.key().name() == "kuberesolver_client_last_update");
        match found.expect("the gauge exists").3 {
            DebugValue::Gauge(value) => value.into_inner(),
            other => panic!("not a gauge: {other:?}"),
        }
    };
    assert!(value() > 1.7e9, "{}", value());

    // The machine's clock hardly moves while the test's clock does, so an update is detected by a
    // different value.
    gauge.set(1.0);
    tokio::time::sleep(TEST_TIMEOUT).await;
    assert!(value() > 1.7e9, "a bookmark should update the gauge");
    let outage = cluster.server.faults().rule(Rule::on("list").or("watch").reset_before());
    cluster.server.faults().cut_watches();
    tokio::time::sleep(Duration::from_secs(30)).await;
    gauge.set(1.0);
    tokio::time::sleep(2 * TEST_TIMEOUT).await;
    assert!(watch.problem().is_some());
    assert_eq!(value(), 1.0, "an outage should not update the gauge");
    outage.remove();
}
