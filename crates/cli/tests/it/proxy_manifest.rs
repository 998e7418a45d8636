//! The manifest of the book for the proxy: the command accepts its arguments.

use std::path::Path;

use dogwatch_apiserver::{ApiServer, Certificates};
use secrecy::ExposeSecret;

use crate::running_command::RunningCommand;

const MANIFEST: &str = include_str!("../../../../docs/book/manifests/proxy.yaml");

/// Returns the arguments in the manifest, with the files and ports of this test.
fn arguments(files: &Path) -> Vec<String> {
    let (_, list) = MANIFEST.split_once("        args:\n").expect("the container has arguments");
    let list = list.lines().map_while(|it| it.strip_prefix("        - "));
    let files = files.to_str().expect("the path is UTF-8");
    let replaced = list.map(|it| {
        let it = it.replace("/etc/dogwatch-proxy/tls", files).replace("/etc/dogwatch-proxy/rules", files);
        it.replace("0.0.0.0:8443", "127.0.0.1:0").replace("0.0.0.0:9090", "127.0.0.1:0")
    });
    replaced.collect()
}

#[tokio::test]
async fn the_command_starts_with_the_arguments_of_the_manifest() {
    let home = tempfile::tempdir().unwrap();
    let made = Certificates::throwaway([127, 0, 0, 1].into()).unwrap().client("proxy", "tests").unwrap();
    std::fs::write(home.path().join("tls.crt"), made.certificate).unwrap();
    std::fs::write(home.path().join("tls.key"), made.key.expose_secret()).unwrap();
    assert!(MANIFEST.contains("  rules.yaml: |\n    rules: []\n"));
    std::fs::write(home.path().join("rules.yaml"), "rules: []\n").unwrap();

    let server = ApiServer::start().await.unwrap();
    let arguments = arguments(home.path());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = RunningCommand::start(&server, &arguments);
    let line = command.line().await;
    assert!(line.starts_with("ready https://127.0.0.1:"), "{line}");
}
