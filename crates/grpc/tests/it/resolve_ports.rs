//! Slices as the EndpointSlice controller and other writers create them: ports in any order and
//! with any number, absent conditions, and Services with local traffic policy.

use std::time::Duration;

use dogwatch_apiserver::faults::Rule;
use dogwatch_client::Api;
use dogwatch_core::PatchParams;
use dogwatch_grpc::{ResolverOptions, Topology, Unavailable};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::{TestCluster, describe, until};

/// Writes a slice of `web` verbatim.
async fn write(cluster: &TestCluster, name: &str, ports: Value, endpoints: Value) {
    let slice = json!({
        "metadata": { "labels": { "kubernetes.io/service-name": "web" } },
        "addressType": "IPv4", "ports": ports, "endpoints": endpoints,
    });
    let slices = Api::<EndpointSlice>::default_namespaced(cluster.client.clone());
    slices.apply(name, &PatchParams::apply("test").force(), &slice).await.expect("the slice is written");
}

fn pod(address: &str, node: &str) -> Value {
    json!({ "addresses": [address], "conditions": { "ready": true, "serving": true, "terminating": false },
        "nodeName": node, "targetRef": { "kind": "Pod", "name": address, "uid": address } })
}

/// Writes two slices of a rollout that changes the number behind `grpc`: in one of them, `metrics`
/// is the first port.
async fn rollout(cluster: &TestCluster, grpc: &str) {
    let metrics = json!({ "name": "metrics", "port": 9100, "protocol": "TCP" });
    let port = |number: u16| json!({ "name": grpc, "port": number, "protocol": "TCP" });
    write(cluster, "web-1", json!([metrics, port(8080)]), json!([pod("10.0.0.1", "n1")])).await;
    write(cluster, "web-2", json!([port(8081), metrics]), json!([pod("10.0.0.2", "n2")])).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_port_the_first_port_of_the_service_is_used_in_every_slice() {
    let cluster = TestCluster::start().await;
    rollout(&cluster, "api").await;
    let ports = |first: &str, second: &str| json!({ "ports": [{ "name": first, "port": 80 }, { "name": second, "port": 90 }] });
    cluster.service("web", ports("api", "metrics")).await;
    let mut watch = cluster.watch("kubernetes:///web");
    until(&mut watch, "10.0.0.1:8080 10.0.0.2:8081").await;
    assert_eq!(watch.current().generation, 1, "there should be no earlier set");
    cluster.service("web", json!({ "ports": [{ "name": "metrics", "port": 90 }] })).await;
    until(&mut watch, "10.0.0.1:9100 10.0.0.2:9100").await;
}

#[tokio::test(start_paused = true)]
async fn if_services_are_forbidden_a_port_named_grpc_is_used_and_no_other_is_guessed() {
    let cluster = TestCluster::start().await;
    cluster.server.faults().rule(Rule::on("list").or("watch").resource("services").refuse(403));
    rollout(&cluster, "grpc").await;
    let mut watch = cluster.watch("kubernetes:///web");
    assert_eq!(describe(&watch.known().await), "10.0.0.1:8080 10.0.0.2:8081");
    rollout(&cluster, "api").await;
    let expected = "(it has several ports (api, metrics), and the target must name one)";
    until(&mut watch, expected).await;
    until(&mut cluster.watch("kubernetes:///web:api"), "10.0.0.1:8080 10.0.0.2:8081").await;
}

/// kube-apiserver accepts any number for the port of a slice. An invalid one must neither hide the
/// endpoints, nor keep old ones forever.
#[tokio::test(start_paused = true)]
async fn a_slice_with_an_invalid_port_is_followed_like_any_other() {
    let cluster = TestCluster::start().await;
    let port = json!({ "name": "grpc", "port": 80, "protocol": "TCP" });
    write(&cluster, "web-1", json!([port]), json!([pod("10.0.0.1", "n1")])).await;
    let mut watch = cluster.watch("kubernetes:///web:grpc");
    until(&mut watch, "10.0.0.1:80").await;
    let odd = json!({ "name": "odd", "port": 70_000, "protocol": "TCP" });
    write(&cluster, "web-1", json!([port, odd]), json!([pod("10.0.0.2", "n1")])).await;
    until(&mut watch, "10.0.0.2:80").await;
}

/// Virtual machines behind one object, and absent conditions.
#[tokio::test(start_paused = true)]
async fn endpoints_that_share_an_object_are_all_called_and_an_absent_condition_is_serving() {
    let cluster = TestCluster::start().await;
    let port = json!({ "name": "", "port": 80, "protocol": "TCP" });
    let machine = |address: &str, conditions: Value| {
        json!({ "addresses": [address], "conditions": conditions,
            "targetRef": { "kind": "ExternalWorkload", "name": "m", "uid": "one" } })
    };
    let all = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|it| machine(it, json!({})));
    write(&cluster, "web-1", json!([port]), json!(all)).await;
    let mut watch = cluster.watch("kubernetes:///web");
    until(&mut watch, "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80").await;
    let going = machine("10.0.0.4", json!({ "ready": false, "terminating": true }));
    write(&cluster, "web-1", json!([port]), json!([going])).await;
    until(&mut watch, "10.0.0.4:80").await;
}

#[tokio::test(start_paused = true)]
async fn a_service_with_local_traffic_policy_is_called_on_the_callers_node() {
    let cluster = TestCluster::with(ResolverOptions::default().topology(Topology::hints().node("n2"))).await;
    rollout(&cluster, "grpc").await;
    let ports = json!([{ "name": "grpc", "port": 80 }, { "name": "metrics", "port": 90 }]);
    cluster.service("web", json!({ "ports": ports, "internalTrafficPolicy": "Local" })).await;
    let mut watch = cluster.watch("kubernetes:///web:grpc");
    until(&mut watch, "10.0.0.2:8081 -10.0.0.1:8080").await;
    cluster.delete_slice("web-2").await;
    let set =
        until(&mut watch, "-10.0.0.1:8080 (its internalTrafficPolicy is Local, and node n2 has no endpoint)");
    assert_eq!(set.await.unavailable, Some(Unavailable::NotOnNode("n2".to_owned())));
    cluster.service("web", json!({ "ports": ports, "internalTrafficPolicy": "Cluster" })).await;
    until(&mut watch, "10.0.0.1:8080").await;
}

/// The token of a new program may not be valid yet, or its role not be bound. The wrong pod port
/// was called from then on, until the slices changed.
#[tokio::test(start_paused = true)]
async fn services_that_are_forbidden_at_first_are_requested_again() {
    for (code, port) in [(401, ":80"), (403, ":80"), (403, "")] {
        let cluster = TestCluster::start().await;
        rollout(&cluster, "api").await;
        let ports = json!([{ "name": "api", "port": 80 }, { "name": "metrics", "port": 90 }]);
        cluster.service("web", json!({ "ports": ports })).await;
        let denied = Rule::on("list").or("watch").resource("services").refuse(code);
        let denied = cluster.server.faults().rule(denied);
        let mut watch = cluster.watch(&format!("kubernetes:///web{port}"));
        assert_ne!(describe(&watch.known().await), "10.0.0.1:8080 10.0.0.2:8081");
        denied.remove();
        let start = Instant::now();
        until(&mut watch, "10.0.0.1:8080 10.0.0.2:8081").await;
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    }
}

/// Connections to a wrong pod port fail, and then the channel asks for a renewal: that is the time
/// to look again, even if the next attempt is minutes away.
#[tokio::test(start_paused = true)]
async fn a_renewal_requests_forbidden_services_again_at_once_but_not_too_often() {
    let cluster = TestCluster::start().await;
    rollout(&cluster, "api").await;
    cluster.service("web", json!({ "ports": [{ "name": "api", "port": 80 }] })).await;
    let denied = Rule::on("list").or("watch").resource("services").refuse(403);
    let denied = cluster.server.faults().rule(denied);
    let mut watch = cluster.watch("kubernetes:///web:80");
    watch.known().await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let before = denied.fired();
    assert!((2..=80).contains(&before), "{before} requests in an hour");
    // Just after a denial, a renewal changes nothing; ten seconds later it does.
    for _ in 0..600 {
        if denied.fired() > before {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(denied.fired() > before, "there is no further attempt");
    let before = denied.fired();
    for _ in 0..5 {
        watch.resolve_now();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(denied.fired() <= before + 1, "the request was repeated {} times", denied.fired() - before);
    tokio::time::sleep(Duration::from_secs(10)).await;
    denied.remove();
    watch.resolve_now();
    let start = Instant::now();
    until(&mut watch, "10.0.0.1:8080 10.0.0.2:8081").await;
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}
