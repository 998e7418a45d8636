//! `dogwatch resolve` as people and scripts use it, against an in-process API server.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Output, Stdio};

use dogwatch::api::PatchParams;
use dogwatch::config::Overrides;
use dogwatch::k8s_openapi::api::discovery::v1::EndpointSlice;
use dogwatch::{Api, Client, Config};
use dogwatch_apiserver::ApiServer;
use serde_json::json;

use crate::{assert_failure, dogwatch, run, text};

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec: { ports: [{ name: grpc, port: 80, targetPort: 8080 }] }
";

async fn serve() -> (ApiServer, Client) {
    let server = ApiServer::builder().yaml(SERVICE).start().await.expect("started");
    let mut overrides = Overrides::default();
    overrides.cluster_info.server = Some(server.url().to_owned());
    let config = Config::infer(&dogwatch::config::Environment::empty(), &overrides).expect("a server");
    (server, Client::new(config).expect("a client"))
}

async fn write_slice(client: &Client, endpoints: &[(&str, &str, bool)]) {
    let endpoint = |(address, pod, ready): &(&str, &str, bool)| {
        json!({ "addresses": [address], "conditions": { "ready": ready }, "zone": "z1", "nodeName": "n1",
            "targetRef": { "kind": "Pod", "name": pod, "uid": pod } })
    };
    let slice = json!({
        "metadata": { "labels": { "kubernetes.io/service-name": "web" } }, "addressType": "IPv4",
        "ports": [{ "name": "grpc", "port": 8080 }],
        "endpoints": endpoints.iter().map(endpoint).collect::<Vec<_>>(),
    });
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), "default");
    slices.apply("web-1", &PatchParams::apply("test").force(), &slice).await.expect("applied");
}

/// Runs the command against the server of this runtime.
async fn resolve(server: &ApiServer, arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut all: Vec<String> = ["resolve", "--server", server.url()].map(str::to_owned).to_vec();
    all.extend(arguments.iter().map(|it| (*it).to_owned()));
    let running = tokio::task::spawn_blocking(move || {
        run(home.path(), &all.iter().map(String::as_str).collect::<Vec<_>>())
    });
    running.await.expect("no panic")
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_are_shown_with_their_state_and_location() {
    let (server, client) = serve().await;
    write_slice(&client, &[("10.0.0.1", "web-a", true), ("10.0.0.2", "web-b", false)]).await;
    for target in ["kubernetes:///web:80", "kubernetes://default/web:grpc", "web"] {
        let output = resolve(&server, &[target]).await;
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let lines: Vec<Vec<&str>> =
            text(&output.stdout).lines().map(|it| it.split_whitespace().collect()).collect();
        assert_eq!(
            lines,
            [
                vec!["ADDRESS", "STATE", "ZONE", "NODE", "POD"],
                vec!["10.0.0.1:8080", "ready", "z1", "n1", "web-a"],
                vec!["10.0.0.2:8080", "not", "ready", "z1", "n1", "web-b"],
            ]
        );
        assert_eq!(text(&output.stderr), "");
    }
    let output = resolve(&server, &["kubernetes:///web:80?port=pod"]).await;
    assert!(text(&output.stdout).contains("10.0.0.1:80 "), "{}", text(&output.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_result_is_explained() {
    let (server, client) = serve().await;
    for (arguments, expected) in [
        (
            &["web:grpc"][..],
            "error: kubernetes://default/web:grpc has no endpoint to call\ncause: it has no endpoints\nhint: ",
        ),
        (&["nothing"], "\ncause: there is no such service\nhint: `kubectl get services --namespace default`"),
        (
            &["web", "--namespace", "other"],
            "error: kubernetes://other/web has no endpoint to call\ncause: there is no such service\n",
        ),
        (&["web:http"], "none of its endpoints has a port \"http\""),
    ] {
        let output = resolve(&server, arguments).await;
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let printed = text(&output.stderr);
        assert_failure(printed);
        assert!(printed.contains(expected), "{printed}");
        assert_eq!(text(&output.stdout), "");
    }
    write_slice(&client, &[("10.0.0.1", "web-a", false)]).await;
    let output = resolve(&server, &["web"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("not ready"), "the endpoints are still shown");
    assert!(text(&output.stderr).contains("none of its 1 endpoints is ready"), "{}", text(&output.stderr));
}

#[test]
fn an_invalid_target_is_bad_usage() {
    let home = tempfile::tempdir().unwrap();
    for (target, expected) in
        [("dns:///web", "it names no Service"), ("kubernetes:///web:0", "0 is not a port")]
    {
        let output = run(home.path(), &["resolve", target]);
        assert_eq!(output.status.code(), Some(2), "{target}");
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    assert_eq!(run(home.path(), &["resolve"]).status.code(), Some(2));
}

#[test]
fn an_unreachable_server_is_reported_with_a_hint() {
    let home = tempfile::tempdir().unwrap();
    // The port was free a moment ago, and nothing listens on it now.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let output = run(home.path(), &["resolve", "web", "--server", &format!("http://127.0.0.1:{port}")]);
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stderr);
    assert_failure(printed);
    assert!(
        printed.contains("\ncause: cannot reach the API server at http://127.0.0.1:")
            && printed.contains("refused")
            && printed.contains("check that the server runs"),
        "{printed}"
    );
}

/// A running command, and its lines.
struct RunningCommand {
    child: Child,
    /// `None` after stdout was closed.
    lines: Option<BufReader<ChildStdout>>,
}

impl RunningCommand {
    fn start(home: &Path, server: &str) -> Self {
        let arguments = ["resolve", "kubernetes:///web:grpc", "--watch", "--server", server];
        let mut command = dogwatch(home, &arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the command starts");
        let lines = BufReader::new(child.stdout.take().expect("the stream is piped"));
        Self { child, lines: Some(lines) }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let lines = self.lines.as_mut().expect("stdout is not closed");
        lines.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_printed_as_they_happen() {
    let (server, client) = serve().await;
    let home = tempfile::tempdir().unwrap();
    let mut command = RunningCommand::start(home.path(), server.url());
    let mut next = || tokio::task::block_in_place(|| command.line());
    let first = next();
    assert!(first.starts_with("! kubernetes://default/web:grpc has no endpoint to call: it has"), "{first}");
    write_slice(&client, &[("10.0.0.1", "web-a", true)]).await;
    assert_eq!(next(), "+ 10.0.0.1:8080  ready  zone=z1  node=n1  pod=web-a");
    write_slice(&client, &[("10.0.0.1", "web-a", false), ("10.0.0.2", "web-b", true)]).await;
    assert_eq!(next(), "~ 10.0.0.1:8080  not ready  zone=z1  node=n1  pod=web-a");
    assert_eq!(next(), "+ 10.0.0.2:8080  ready  zone=z1  node=n1  pod=web-b");
    write_slice(&client, &[("10.0.0.2", "web-b", true)]).await;
    assert_eq!(next(), "- 10.0.0.1:8080");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn it_runs_until_a_signal_or_until_stdout_is_closed() {
    let (server, _client) = serve().await;
    let home = tempfile::tempdir().unwrap();
    for signal in [None, Some("INT"), Some("TERM")] {
        let mut command = RunningCommand::start(home.path(), server.url());
        let code = tokio::task::block_in_place(|| {
            command.line();
            match signal {
                // The exit does not depend on a further write.
                None => command.lines = None,
                Some(signal) => {
                    let pid = command.child.id().to_string();
                    let sent = std::process::Command::new("kill").args(["-s", signal, &pid]).status();
                    assert!(sent.expect("`kill` exists").success());
                }
            }
            command.child.wait().expect("it exits").code()
        });
        assert_eq!(code, Some(0), "{signal:?}");
    }
}
