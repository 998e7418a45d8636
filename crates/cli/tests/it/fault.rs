//! `dogwatch fault` against an in-process API server.

use dogwatch::Api;
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::running_command::{RunningCommand, client};
use crate::{assert_failure, run, server, text};

async fn cluster(admin: bool) -> ApiServer {
    ApiServer::builder().fault_admin(admin).start().await.expect("started")
}

/// Returns the output of an action; checks that it succeeds.
async fn fault(server: &ApiServer, arguments: &[&str]) -> Vec<String> {
    let (code, out, err) = RunningCommand::start(server, &[&["fault"], arguments].concat()).end().await;
    assert_eq!((code, err), (Some(0), Vec::new()), "{arguments:?}");
    out
}

/// Returns the error of an action; checks that it fails.
async fn failure(server: &ApiServer, arguments: &[&str]) -> String {
    let (code, out, err) = RunningCommand::start(server, &[&["fault"], arguments].concat()).end().await;
    assert_eq!((code, out), (Some(1), Vec::new()), "{arguments:?}");
    let printed = err.join("\n") + "\n";
    assert_failure(&printed);
    printed
}

#[tokio::test]
async fn a_rule_is_added_fires_is_listed_and_removed() {
    let server = cluster(true).await;
    let added =
        fault(&server, &["add", "--verb", "list", "--resource", "configmaps", "--refuse", "403"]).await;
    assert_eq!(added, ["added rule 1: list configmaps: refuse with 403, always"]);
    let maps = Api::<ConfigMap>::all(client(&server));
    assert!(maps.list(&Default::default()).await.is_err_and(|it| it.is_forbidden()));
    let listed = fault(&server, &["list"]).await;
    assert_eq!(
        listed,
        [
            "ID  ON               FAULT            WHEN    MATCHED  FIRED",
            "1   list configmaps  refuse with 403  always  1        1",
            "injected so far: 1 refused",
        ]
    );
    let as_json = fault(&server, &["list", "-o", "json"]).await;
    let as_json: Value = serde_json::from_str(&as_json[0]).expect("one line of JSON");
    assert_eq!(as_json["rules"][0]["rule"]["refuse"], json!({ "code": 403 }));
    assert_eq!(fault(&server, &["remove", "1"]).await, ["removed rule 1, which fired once"]);
    assert!(maps.list(&Default::default()).await.is_ok());
    let listed = fault(&server, &["list"]).await;
    assert!(listed[0].starts_with("no rules; ") && listed[0].contains("fault add --help"), "{listed:?}");
}

#[tokio::test]
async fn watches_are_dropped_paused_and_resumed_and_history_expires() {
    let server = cluster(true).await;
    let dropped = fault(&server, &["drop-watches", "--resource", "pods", "--cut"]).await;
    assert_eq!(dropped, ["cut open watches: pods"]);
    fault(&server, &["bookmark"]).await;
    fault(&server, &["pause"]).await;
    assert!(server.faults().is_paused());
    let listed = fault(&server, &["list"]).await;
    assert!(listed.iter().any(|it| it.starts_with("all watches are paused; ")), "{listed:?}");
    fault(&server, &["resume"]).await;
    assert!(!server.faults().is_paused());
    assert!(fault(&server, &["compact"]).await[0].starts_with("dropped the history before version "));
    fault(&server, &["compact", "--to", "1"]).await;
    assert!(fault(&server, &["expire"]).await[0].starts_with("expired the history before version "));
    fault(&server, &["add", "--verb", "watch", "--pause"]).await;
    fault(&server, &["remove", "--all"]).await;
    assert!(server.faults().rules().is_empty());
}

#[tokio::test]
async fn a_rule_that_does_not_exist_is_reported_with_the_command_that_lists_them() {
    let server = cluster(true).await;
    let printed = failure(&server, &["remove", "7"]).await;
    assert_eq!(
        printed,
        "error: there is no rule 7\nhint: `dogwatch fault list` shows the rules and their numbers\n"
    );
}

#[tokio::test]
async fn a_server_without_the_flag_is_reported_with_the_flag() {
    let server = cluster(false).await;
    for arguments in [&["list"][..], &["add", "--refuse", "500"], &["remove", "1"], &["pause"]] {
        let printed = failure(&server, arguments).await;
        assert!(printed.contains("started without --admin"), "{printed}");
        assert!(printed.contains("hint: restart the server with `dogwatch serve --admin`"), "{printed}");
    }
}

#[tokio::test]
async fn another_server_is_reported_by_its_version() {
    let version = json!({ "major": "1", "minor": "36", "gitVersion": "v1.36.4", "gitCommit": "0123abc" });
    let forbidden = json!({ "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
                            "message": "forbidden: cannot get path" });
    for answers in
        [vec![("/version", version.clone())], vec![("/version", version), ("/_dogwatch/faults", forbidden)]]
    {
        let home = tempfile::tempdir().expect("a temporary directory");
        let url = format!("http://{}", server::serve(answers).await);
        let output =
            tokio::task::spawn_blocking(move || run(home.path(), &["fault", "list", "--server", &url]));
        let output = output.await.expect("no panic");
        assert_eq!(output.status.code(), Some(1));
        let printed = text(&output.stderr);
        assert_failure(printed);
        assert!(printed.contains("cause: it is not `dogwatch serve`, but Kubernetes v1.36.4\n"), "{printed}");
    }
}

#[test]
fn help_teaches_with_examples_and_bad_usage_exits_with_2() {
    let home = tempfile::tempdir().unwrap();
    let help = run(home.path(), &["fault", "--help"]);
    for part in ["dogwatch serve --admin", "--refuse 429", "drop-watches", "dogwatch fault remove --all"] {
        assert!(text(&help.stdout).contains(part), "{part}: {}", text(&help.stdout));
    }
    for arguments in [
        &["add", "--refuse", "200"][..],
        &["add", "--verb", "lst"],
        &["add", "--verb", "get", "--pause"],
        &["add", "--lag", "1s", "--delay", "1s"],
        &["remove"],
        &["remove", "1", "--all"],
        &[],
    ] {
        let output = run(home.path(), &[&["fault"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    }
}
