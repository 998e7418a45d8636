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
