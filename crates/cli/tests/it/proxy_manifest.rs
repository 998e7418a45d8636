//! The manifest of the book for the proxy, and its rules: the command accepts its arguments and
//! files.

use std::path::Path;

use dogwatch_apiserver::{ApiServer, Certificates};
use secrecy::ExposeSecret;

use crate::assert_failure;
use crate::running_command::RunningCommand;

const MANIFEST: &str = include_str!("../../../../docs/book/manifests/proxy.yaml");
const RULES: &str = include_str!("../../../../docs/book/manifests/rules.yaml");

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

#[tokio::test]
async fn the_command_starts_with_the_rules_of_the_book_if_it_caches_their_resources() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("rules.yaml");
    std::fs::write(&file, RULES).unwrap();
    let file = file.to_str().unwrap();
    let server = ApiServer::start().await.unwrap();
    let cached = "services,secrets,endpointslices.discovery.k8s.io,ingresses,configmaps";
    let mut command = RunningCommand::start(&server, &["proxy", "--cache", cached, "--rules", file]);
    let line = command.line().await;
    assert!(line.starts_with("ready https://127.0.0.1:"), "{line}");

    let fewer = cached.replace(",secrets", "");
    let command = RunningCommand::start(&server, &["proxy", "--cache", &fewer, "--rules", file]);
    let (code, out, err) = command.end().await;
    assert_eq!((code, out), (Some(1), Vec::new()));
    let printed = err.join("\n") + "\n";
    assert_failure(&printed);
    assert!(printed.contains("secrets") && printed.contains(file), "{printed}");
}
