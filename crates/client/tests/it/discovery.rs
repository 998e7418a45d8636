//! Discovery of a server's resources (rules DI-1 and DI-2).

use std::time::Duration;

use dogwatch_client::Discovery;
use dogwatch_client::discovery::{DiscoveryFormat, FailureReason, GroupFailure};
use tokio::time::Instant;

use crate::discovery_server::{AGGREGATED, DiscoveryServer, groups, items, resources};
use crate::scripted::{Script, json};

fn names(discovery: &Discovery) -> Vec<String> {
    discovery.resources().map(|it| it.resource.gvr().to_string()).collect()
}

fn failures(discovery: &Discovery) -> Vec<String> {
    discovery.failures.iter().map(GroupFailure::group_version).collect()
}

#[tokio::test]
async fn di_1_aggregated_server_groups_and_resources_in_two_requests() {
    let server = DiscoveryServer::aggregated();
    let found = server.client().discover().await.expect("discovered");
    assert_eq!(names(&found), ["pods.v1", "deployments.v1.apps", "jobs.v1.batch"]);
    assert!(found.is_complete());
    let scale = found.groups[1].versions[0].resources[0].subresource("scale").expect("served").clone();
    assert_eq!(scale.gvk.to_string(), "Scale.v1.autoscaling");
    let asked = server.asked();
    assert_eq!(asked.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["/api", "/apis"]);
    for ask in asked {
        assert_eq!(ask.accept, format!("{AGGREGATED},application/json"));
        assert_eq!(ask.query, "timeout=32s");
        assert_eq!(ask.if_none_match, None);
    }
}

#[tokio::test]
async fn di_1_resources_of_peers_can_be_left_out() {
    let server = DiscoveryServer::aggregated();
    let format = DiscoveryFormat::AggregatedNoPeer;
    Discovery::fetch_as(&server.client(), format).await.expect("discovered");
    let expected = format!("{AGGREGATED};profile=nopeer,{AGGREGATED},application/json");
    assert!(server.asked().iter().all(|it| it.accept == expected));
}

#[tokio::test]
async fn di_1_the_content_type_decides_whatever_a_proxy_added() {
    let server = DiscoveryServer::aggregated();
    let content_type =
        "application/json; as=APIGroupDiscoveryList; charset=utf-8;v=v2; g=apidiscovery.k8s.io";
    let api = items(&[("", "v1", "Current", &["pods Pod"])]);
    server.set("/api", 200, content_type, None, &api);
    server.set("/apis", 200, content_type, None, &items(&[]));
    let found = server.client().discover().await.expect("discovered");
    assert_eq!(names(&found), ["pods.v1"]);
}

#[tokio::test]
async fn di_1_discovery_tolerates_a_missing_core_group() {
    let apis = items(&[("apps", "v1", "Current", &["deployments Deployment"])]);
    let server = DiscoveryServer::new().document("/apis", &apis, "\"1\"");
    let found = server.client().discover().await.expect("discovered");
    assert_eq!(names(&found), ["deployments.v1.apps"]);
    assert_eq!(server.paths().len(), 2, "aggregated documents are used although one is missing");
}

#[tokio::test]
async fn di_1_discovery_fails_when_the_other_groups_are_missing() {
    let server = DiscoveryServer::legacy().code("/apis", 404);
    let error = server.client().discover().await.expect_err("no /apis");
    assert!(error.is_not_found());
}

#[tokio::test]
async fn di_1_a_broken_server_is_an_error() {
    for code in [400, 401, 403, 500, 503] {
        let server = DiscoveryServer::legacy().code("/api", code);
        let error = server.client().discover().await.expect_err("refused");
        assert_eq!(error.status().map(|it| it.code), Some(code));
    }
    let server = DiscoveryServer::legacy().json("/apis", "<html>");
    assert!(server.client().discover().await.is_err());
}

#[tokio::test]
async fn di_1_resources_count_only_if_both_documents_are_aggregated() {
    for (aggregated, path) in [("/api", "/apis"), ("/apis", "/api")] {
        let server = DiscoveryServer::legacy();
        let body = match aggregated {
            "/api" => items(&[("", "v1", "Current", &["lies Lie"])]),
            _ => items(&[("apps", "v1", "Current", &["lies Lie"]), ("m", "v1", "Stale", &[])]),
        };
        server.set(aggregated, 200, AGGREGATED, None, &body);
        let found = server.client().discover().await.expect("discovered");
        assert!(names(&found).contains(&"pods.v1".to_owned()), "{path} is not aggregated");
        assert!(!names(&found).iter().any(|it| it.starts_with("lies")), "{path} is not aggregated");
    }
}

#[tokio::test]
async fn di_1_aggregated_server_groups_and_resources_with_errors() {
    let apis = items(&[
        ("m.k8s.io", "v2", "Stale", &[]),
        ("m.k8s.io", "v1", "Current", &["nodes NodeMetrics"]),
        ("gone", "v1", "Stale", &["things Thing"]),
    ]);
    let server = DiscoveryServer::aggregated().document("/apis", &apis, "\"1\"");
    let found = server.client().discover().await.expect("discovered");
    assert_eq!(names(&found), ["pods.v1", "nodes.v1.m.k8s.io"]);
    assert_eq!(failures(&found), ["m.k8s.io/v2", "gone/v1"]);
    assert!(found.failures.iter().all(|it| matches!(it.reason, FailureReason::Stale)));
    let preferred = found.group("m.k8s.io").and_then(|it| it.preferred()).map(|it| it.version.as_str());
    assert_eq!(preferred, Some("v1"));
    assert_eq!(server.paths().len(), 2);
}

#[tokio::test]
async fn di_2_server_groups_with_v1_server() {
    let server = DiscoveryServer::legacy();
    let found = server.client().discover().await.expect("discovered");
    assert_eq!(names(&found), ["pods.v1", "deployments.v1.apps", "jobs.v1.batch", "cronjobs.v1beta1.batch"]);
    let pods = &found.groups[0].versions[0].resources[0];
    assert_eq!(pods.subresources.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["status"]);
    let expected = ["/api", "/apis", "/api/v1", "/apis/apps/v1", "/apis/batch/v1", "/apis/batch/v1beta1"];
    assert_eq!(server.paths(), expected);
}

#[tokio::test]
async fn di_2_use_legacy_discovery() {
    let server = DiscoveryServer::legacy();
    let found = Discovery::fetch_as(&server.client(), DiscoveryFormat::Legacy).await.expect("discovered");
    assert_eq!(found.resources().count(), 4);
    assert!(server.asked().iter().all(|it| it.accept == "application/json"));
}

#[tokio::test]
async fn di_2_both_formats_give_the_same_result() {
    let legacy = DiscoveryServer::legacy()
        .json("/apis", &groups(&[("apps", &["v1"])]))
        .json("/api/v1", &resources("v1", &["pods Pod po"]));
    let aggregated = DiscoveryServer::aggregated().document(
        "/apis",
        &items(&[("apps", "v1", "Current", &["deployments Deployment deploy"])]),
        "\"1\"",
    );
    let mut one = aggregated.client().discover().await.expect("discovered");
    for group in &mut one.groups {
        group.versions[0].resources[0].subresources.clear();
    }
    let other = legacy.client().discover().await.expect("discovered");
    assert_eq!(one.groups, other.groups);
}

#[tokio::test]
async fn di_2_a_version_that_fails_twice_is_recorded_as_a_failure() {
    let server = DiscoveryServer::legacy().code("/apis/apps/v1", 503);
    let found = server.client().discover().await.expect("discovered");
    assert_eq!(names(&found), ["pods.v1", "jobs.v1.batch", "cronjobs.v1beta1.batch"]);
    assert_eq!(failures(&found), ["apps/v1"]);
    assert!(found.failures[0].reason.is_transient());
    assert!(found.serves("apps", "v1"), "it is served, but not known");
    let asked = server.paths();
    assert_eq!(asked.iter().filter(|it| *it == "/apis/apps/v1").count(), 2);
    assert_eq!(
        asked.iter().filter(|it| *it == "/api/v1").count(),
        1,
        "a known version is not requested again"
    );
}

#[tokio::test]
async fn di_2_server_preferred_resources_retries() {
    let script = Script::new([
        json(200, r#"{"versions":["v1"]}"#),
        json(200, groups(&[("gone", &["v1"]), ("apps", &["v1"])])),
        json(200, resources("v1", &["pods Pod"])),
        json(404, "{}"),
        json(200, resources("apps/v1", &["deployments Deployment"])),
        json(200, r#"{"versions":["v1"]}"#),
        json(200, groups(&[("apps", &["v1"])])),
    ]);
    let found = script.client().discover().await.expect("discovered");
    assert!(found.is_complete(), "a group that disappeared is no failure: {:?}", found.failures);
    assert_eq!(names(&found), ["pods.v1", "deployments.v1.apps"]);
    assert_eq!(script.seen().len(), 7);
}

#[tokio::test]
async fn di_2_core_v1_not_found_is_an_empty_list_and_any_other_version_a_failure() {
    let server = DiscoveryServer::legacy().code("/api/v1", 404).code("/apis/batch/v1", 404);
    let found = server.client().discover().await.expect("discovered");
    assert_eq!(failures(&found), ["batch/v1"]);
    assert_eq!(names(&found), ["deployments.v1.apps", "cronjobs.v1beta1.batch"]);
    assert!(!found.failures[0].reason.is_transient());
}

#[tokio::test]
async fn di_2_versions_are_requested_concurrently_up_to_a_limit() {
    let names: Vec<_> = (0..100).map(|it| format!("group{it}")).collect();
    let list: Vec<(&str, &[&str])> = names.iter().map(|it| (it.as_str(), ["v1"].as_slice())).collect();
    let mut server = DiscoveryServer::new().json("/apis", &groups(&list));
    for name in &names {
        let body = resources(&format!("{name}/v1"), &["things Thing"]);
        server = server.json(&format!("/apis/{name}/v1"), &body);
    }
    let found = server.client().discover().await.expect("discovered");
    assert_eq!(found.resources().count(), 100);
    assert!(found.groups.iter().map(|it| &it.name).eq(&names), "in the server's order");
    assert_eq!(server.max_in_flight(), 16);
}

#[tokio::test(start_paused = true)]
async fn di_2_timeout_is_set() {
    let server = DiscoveryServer::legacy();
    server.close();
    let start = Instant::now();
    assert!(server.client().discover().await.is_err());
    assert_eq!(start.elapsed(), Duration::from_secs(32));
}

#[tokio::test]
async fn di_2_get_server_version() {
    let script = Script::new([json(
        200,
        r#"{"major":"1","minor":"36","gitVersion":"v1.36.4","gitCommit":"c","gitTreeState":"clean","buildDate":"d","goVersion":"g","compiler":"gc","platform":"linux/amd64"}"#,
    )]);
    let version = script.client().server_version().await.expect("a version");
    assert_eq!(version.git_version, "v1.36.4");
    assert_eq!(script.targets(), ["/base/version?timeout=32s"]);
}
