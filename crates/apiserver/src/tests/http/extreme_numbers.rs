//! Durations and quantities at the limits of their types.

use std::time::Duration;

use serde_json::json;

use super::{JSON, Server};

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn pod_on_a_node(server: &Server, name: &str, grace: i64) {
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "nodeName": "n", "terminationGracePeriodSeconds": grace,
            "containers": [{ "name": "c", "image": "i" }] } });
    let made = server.post(PODS, pod).await;
    assert_eq!(made.code, 201, "{made:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_accepts_a_huge_timeout() {
    let server = Server::start().await;
    for parameters in ["", "&allowWatchBookmarks=true"] {
        let path =
            format!("/api/v1/configmaps?watch=1&resourceVersion=0&timeoutSeconds={}{parameters}", i64::MAX);
        let mut watch = server.watch(&path).await;
        assert_eq!(watch.code, 200);
        assert_eq!(watch.next_event().await.0, "ADDED", "initial events come first");
        server.config_map("a", json!({})).await;
        while watch.next_event().await.1 != "a" {}
        server.send("DELETE", "/api/v1/namespaces/default/configmaps/a", &[], "").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_huge_grace_period_ends_at_the_largest_timestamp() {
    let server = Server::start().await;
    let huge = i64::MAX;
    pod_on_a_node(&server, "by-query", 30).await;
    pod_on_a_node(&server, "by-body", 30).await;
    pod_on_a_node(&server, "by-spec", huge).await;
    let body = json!({ "gracePeriodSeconds": huge }).to_string();
    for (path, body) in [
        (format!("{PODS}/by-query?gracePeriodSeconds={huge}"), ""),
        (format!("{PODS}/by-body"), body.as_str()),
        (format!("{PODS}/by-spec"), ""),
    ] {
        let deleted = server.send("DELETE", &path, &[JSON], body).await;
        assert_eq!(deleted.code, 200, "{deleted:?}");
        let metadata = &deleted.json()["metadata"];
        assert_eq!(metadata["deletionTimestamp"], "9999-12-30T22:00:00Z", "{metadata}");
        assert_eq!(metadata["deletionGracePeriodSeconds"], huge, "{metadata}");
    }
    // A shortened grace period counts from the first deletion request, as in k8s.io/apiserver
    // v0.36.4 pkg/registry/rest/delete.go.
    let path = format!("{PODS}/by-spec?gracePeriodSeconds=5");
    let shorter = server.send("DELETE", &path, &[], "").await;
    assert_eq!(
        (shorter.code.as_u16(), &shorter.json()["metadata"]["deletionGracePeriodSeconds"]),
        (200, &json!(5))
    );
    assert_eq!(
        server.send("DELETE", &format!("{PODS}/by-query?gracePeriodSeconds=0"), &[], "").await.code,
        200
    );
    assert_eq!(server.get(&format!("{PODS}/by-query")).await.code, 404);
    let negative = format!("{PODS}/by-body?gracePeriodSeconds={}", i64::MIN);
    assert_eq!(server.send("DELETE", &negative, &[], "").await.code, 200);
}

/// The limits are those of k8s.io/kubernetes v1.36.4
/// pkg/apis/authentication/validation/validation.go.
#[tokio::test(start_paused = true)]
async fn a_token_lasts_at_most_2_to_the_32_seconds() {
    let server = Server::start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let made = server.post(accounts, json!({ "metadata": { "name": "x" } })).await;
    assert_eq!(made.code, 201, "{made:?}");
    for (seconds, code) in [
        (i64::MIN, 422),
        (599, 422),
        (600, 201),
        (1 << 32, 201),
        ((1 << 32) + 1, 422),
        (1 << 33, 422),
        (i64::MAX, 422),
    ] {
        let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "expirationSeconds": seconds } });
        let response = server.post(&format!("{accounts}/x/token"), request).await;
        assert_eq!(response.code, code, "{seconds}: {response:?}");
        if code == 422 && seconds > 0 && seconds != 599 {
            let message =
                format!("Invalid value: {seconds}: may not specify a duration larger than 2^32 seconds");
            assert!(response.text().contains(&message), "{response:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn huge_quantities_are_kept_or_capped() {
    let server = Server::start().await;
    for (at, (written, stored)) in [
        ("0.9e29", "90e27"),
        ("1e2147483647", "10e2147483646"),
        ("99999999999999999999", "99999999999999999999"),
        ("16Ei", "9223372036854775807"),
    ]
    .into_iter()
    .enumerate()
    {
        let pod = json!({ "metadata": { "name": format!("p{at}") }, "spec": { "containers": [{ "name": "c", "image": "i",
            "resources": { "limits": { "memory": written }, "requests": { "memory": "1" } } }] } });
        let made = server.post(PODS, pod).await;
        assert_eq!(made.code, 201, "{made:?}");
        assert_eq!(made.json()["spec"]["containers"][0]["resources"]["limits"]["memory"], stored);
    }
}

#[tokio::test(start_paused = true)]
async fn settings_accept_the_largest_durations() {
    let settings = crate::http::Settings {
        watch_timeout: Duration::MAX,
        bookmark_period: Duration::MAX,
        version_wait: Duration::MAX,
        ..Default::default()
    };
    let server = Server::with(settings).await;
    let mut watch = server.watch("/api/v1/namespaces?watch=1&allowWatchBookmarks=true").await;
    assert_eq!((watch.code.as_u16(), watch.next_event().await.0.as_str()), (200, "ADDED"));
}
