//! `dogwatch bench sync` against an in-process API server.

use std::time::Duration;

use dogwatch::Api;
use dogwatch::api::WriteParams;
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::running_command::{RunningCommand, client};
use crate::{run, text};

async fn cluster(maps: usize) -> ApiServer {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "bench" } });
    let mut builder = ApiServer::builder().object(&namespace);
    for at in 0..maps {
        let metadata = json!({ "name": format!("map-{at}"), "namespace": "bench" });
        builder = builder.object(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata }));
    }
    builder.start().await.expect("started")
}

fn keys(report: &Value) -> Vec<&str> {
    report.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[tokio::test]
async fn each_payload_is_measured_in_one_line() {
    let server = cluster(7).await;
    let maps = Api::<ConfigMap>::all(client(&server));
    let there = maps.list_all(&Default::default()).await.expect("listed").items.len();
    assert!(there >= 7, "{there}");
    for (payload, encoding) in [
        ("full", "json"),
        ("view", "json"),
        ("meta", "json"),
        ("packed", "json"),
        ("full", "protobuf"),
        ("packed", "protobuf"),
    ] {
        let arguments = ["bench", "sync", "cm", "--payload", payload, "--encoding", encoding];
        let (code, out, err) = RunningCommand::start(&server, &arguments).end().await;
        assert_eq!((code, out.len(), err), (Some(0), 1, Vec::new()), "{payload}");
        let report: Value = serde_json::from_str(&out[0]).expect("JSON");
        assert_eq!(keys(&report), ["cpu_s", "objects", "rss_mb", "rss_peak_mb", "sync_s"]);
        assert_eq!(report["objects"], there, "{payload}");
        assert!(report["sync_s"].as_f64().is_some_and(|it| it > 0.0), "{report}");
    }
}

#[tokio::test]
async fn it_waits_for_updates_and_reports_the_cost_of_each() {
    let server = cluster(1).await;
    let command = RunningCommand::start(&server, &["bench", "sync", "configmaps", "--updates", "5"]);
    let watches = server.request_log().wait_for(|it| it.verb == "watch" && it.resource == "configmaps", 1);
    let _ = tokio::time::timeout(Duration::from_secs(60), watches).await.expect("the command watches");
    let maps = Api::<ConfigMap>::namespaced(client(&server), "bench");
    for at in 0..5 {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("new-{at}"));
        maps.create(&WriteParams::default(), &map).await.expect("created");
    }
    let (code, out, err) = command.end().await;
    assert_eq!((code, out.len(), err), (Some(0), 1, Vec::new()));
    let report: Value = serde_json::from_str(&out[0]).expect("JSON");
    assert!(report["cpu_us_per_event"].as_f64().is_some_and(|it| it > 0.0), "{report}");
}

#[test]
fn mistakes_exit_with_2() {
    let home = tempfile::tempdir().unwrap();
    for more in [
        &[][..],
        &["sync"],
        &["sync", "pods", "--updates", "0"],
        &["sync", "pods", "--payload", "x"],
        &["sync", "pods", "--encoding", "cbor"],
    ] {
        let output = run(home.path(), &[&["bench"], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert_eq!(text(&output.stdout), "", "{more:?}");
    }
}
