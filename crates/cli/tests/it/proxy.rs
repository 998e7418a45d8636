//! `dogwatch proxy` as scripts use it.

use dogwatch::config::Overrides;
use dogwatch::{Client, Config};
use dogwatch_apiserver::ApiServer;
use serde_json::Value;

use crate::running_command::RunningCommand;
use crate::{assert_failure, run, text};

#[tokio::test]
async fn it_prints_its_address_writes_a_kubeconfig_and_passes_requests_on() {
    let server = ApiServer::start().await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("proxy.kubeconfig");
    let mut command = RunningCommand::start(&server, &["proxy", "--kubeconfig-out", file.to_str().unwrap()]);
    let line = command.line().await;
    assert!(line.starts_with("ready https://127.0.0.1:"), "{line}");
    let config = Config::from_kubeconfig(&file, &Overrides::default()).unwrap();
    assert_eq!(line.strip_prefix("ready "), Some(config.server.as_str().trim_end_matches('/')));
    let version: Value = Client::new(config).unwrap().get().path(&["version"]).send().await.unwrap();
    assert_eq!(version["minor"], "36");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_shows_objects_by_its_rules_and_names_the_line_of_an_invalid_one() {
    let server = ApiServer::builder().token("admin").start().await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let (rules, clients) = (home.path().join("rules.yaml"), home.path().join("proxy.kubeconfig"));
    let [rules_path, clients_path] = [&rules, &clients].map(|it| it.to_str().unwrap());
    let flags = ["proxy", "--token", "admin", "--cache", "namespaces", "--rules", rules_path];
    std::fs::write(&rules, "rules:\n- match: {resource: namespaces}\n  hid: true\n").unwrap();
    let output = run(home.path(), &[&flags[..], &["--server", server.url()]].concat());
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("error: cannot use the rules in {rules_path}\ncause: line 3: unknown field `hid`");
    assert!(text(&output.stderr).starts_with(&expected), "{}", text(&output.stderr));

    std::fs::write(&rules, "rules:\n- match: {resource: namespaces}\n  annotations: {seen: here}\n").unwrap();
    let mut command =
        RunningCommand::start(&server, &[&flags[..], &["--kubeconfig-out", clients_path]].concat());
    command.line().await;
    let mut config = Config::from_kubeconfig(&clients, &Overrides::default()).unwrap();
    config.auth.token = Some("admin".into());
    let path = ["api", "v1", "namespaces", "default"];
    let namespace: Value = Client::new(config).unwrap().get().path(&path).send().await.unwrap();
    assert_eq!(namespace["metadata"]["annotations"]["seen"], "here");
}

#[test]
fn it_does_not_serve_http_to_other_machines() {
    let home = tempfile::tempdir().unwrap();
    let arguments = ["proxy", "--plain", "--bind", "0.0.0.0:0", "--server", "http://127.0.0.1:1"];
    let output = run(home.path(), &arguments);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert_failure(text(&output.stderr));
    assert!(text(&output.stderr).contains("--plain"), "{}", text(&output.stderr));
}
