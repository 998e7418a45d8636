//! `dogwatch demo` against a server with fixed responses.

use std::path::Path;
use std::process::{Output, Stdio};

use dogwatch_apiserver::ApiServer;
use serde_json::json;

use crate::server::{Answers, serve};
use crate::{assert_failure, dogwatch, text};

fn small_cluster() -> Answers {
    let forbidden = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "no",
    });
    vec![
        (
            "/version",
            json!({
                "major": "1", "minor": "36", "gitVersion": "v1.36.4", "gitCommit": "", "gitTreeState": "", "buildDate": "",
                "goVersion": "", "compiler": "", "platform": "",
            }),
        ),
        ("/api", json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })),
        (
            "/apis",
            json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [
                {
                    "name": "apps",
                    "versions": [
                        { "groupVersion": "apps/v1beta1", "version": "v1beta1" },
                        { "groupVersion": "apps/v1", "version": "v1" },
                    ],
                    "preferredVersion": { "groupVersion": "apps/v1", "version": "v1" },
                },
                { "name": "gone.example", "versions": [{ "groupVersion": "gone.example/v1", "version": "v1" }] },
            ]}),
        ),
        (
            "/api/v1",
            json!({ "kind": "APIResourceList", "groupVersion": "v1", "resources": [
                { "name": "nodes", "singularName": "node", "namespaced": false, "kind": "Node", "verbs": ["list"], "shortNames": ["no"] },
                { "name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": ["list"], "shortNames": ["po"] },
                { "name": "pods/log", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get"] },
            ]}),
        ),
        (
            "/apis/apps/v1",
            json!({ "kind": "APIResourceList", "groupVersion": "apps/v1", "resources": [
                { "name": "replicasets", "singularName": "replicaset", "namespaced": true, "kind": "ReplicaSet", "verbs": ["list"], "shortNames": ["rs"] },
            ]}),
        ),
        ("/api/v1/nodes?limit=1", forbidden),
        ("/api/v1/pods?limit=1", pods(41)),
        ("/api/v1/namespaces/web/pods?limit=1", pods(2)),
    ]
}

/// A page of one pod, with this many remaining.
fn pods(left: u32) -> serde_json::Value {
    json!({
        "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
        "metadata": { "resourceVersion": "7", "continue": "next", "remainingItemCount": left },
        "items": [{ "metadata": { "name": "a", "namespace": "web" } }],
    })
}

async fn demo(arguments: &[&str], reader_stays: bool) -> Output {
    let server = format!("http://{}", serve(small_cluster()).await);
    let arguments = [&["demo", "--server", &server], arguments]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    let home = tempfile::tempdir().expect("a temporary directory");
    let started = move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = dogwatch(Path::new(home.path()), &arguments);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
        if !reader_stays {
            drop(child.stdout.take());
        }
        child.wait_with_output().expect("the command ends")
    };
    tokio::task::spawn_blocking(started).await.expect("no panic")
}

#[tokio::test]
async fn it_prints_version_groups_resources_and_counts() {
    let output = demo(&[], true).await;
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(printed.contains(" runs Kubernetes v1.36.4\n"), "{printed}");
    let rows: Vec<Vec<&str>> = printed.lines().map(|it| it.split_whitespace().collect()).collect();
    for row in [
        &["(core)", "v1"][..],
        &["apps", "v1,", "v1beta1"],
        &["nodes", "no", "v1", "Node", "cluster", "forbidden"],
        &["pods", "po", "v1", "Pod", "namespaced", "42"],
        &["replicasets", "rs", "apps/v1", "ReplicaSet", "namespaced"],
    ] {
        assert!(rows.iter().any(|it| it == row), "{row:?} in\n{printed}");
    }
    assert!(!printed.contains("pods/log"), "{printed}");
}

#[tokio::test]
async fn a_group_that_does_not_respond_is_reported_and_the_others_are_shown() {
    let output = demo(&[], true).await;
    assert!(text(&output.stderr).contains("gone.example"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn a_namespace_narrows_the_counts() {
    let output = demo(&["-n", "web"], true).await;
    let printed = text(&output.stdout);
    assert!(printed.lines().any(|it| it.starts_with("pods ") && it.ends_with(" 3")), "{printed}");
}

#[tokio::test]
async fn a_server_without_tls_is_named_as_such() {
    let server = format!("https://{}", serve(small_cluster()).await);
    let run = move || {
        let home = tempfile::tempdir().expect("a temporary directory");
        crate::run(home.path(), &["demo", "--server", &server])
    };
    let output = tokio::task::spawn_blocking(run).await.expect("no panic");
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stderr);
    assert!(
        printed.contains("hint: the server does not speak TLS: use an address with http://"),
        "{printed}"
    );
    assert!(
        printed.contains(" does not speak TLS\n") && !printed.contains("InvalidContentType"),
        "{printed}"
    );
}

#[tokio::test]
async fn a_server_that_expects_tls_is_named_as_such() {
    let cluster = ApiServer::builder().tls(true).start().await.expect("started");
    let server = cluster.url().replacen("https://", "http://", 1);
    let run = move || {
        let home = tempfile::tempdir().expect("a temporary directory");
        crate::run(home.path(), &["demo", "--server", &server])
    };
    let output = tokio::task::spawn_blocking(run).await.expect("no panic");
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stderr);
    assert_failure(printed);
    assert!(printed.contains("cause: the response is not HTTP\n"), "{printed}");
    assert!(printed.ends_with("use an address with https://\n"), "{printed}");
}

#[tokio::test]
async fn a_closed_stdout_is_not_an_error() {
    let output = demo(&[], false).await;
    assert_eq!(output.status.code(), Some(0));
    assert!(!text(&output.stderr).contains("error: "), "{}", text(&output.stderr));
}

#[tokio::test]
async fn no_colours_without_a_terminal() {
    let output = demo(&["-vvv"], true).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b));
    assert!(!output.stderr.is_empty(), "-vvv logs something");
}
