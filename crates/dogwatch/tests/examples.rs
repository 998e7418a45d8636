//! Runs every example against our own server, so that none rots: each is a program, not a listing.
#![allow(clippy::unwrap_used, reason = "a test binary")]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dogwatch::api::{DeleteParams, WriteParams};
use dogwatch::config::Overrides;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Client, Config};
use dogwatch_apiserver::ApiServer;
use serde_json::json;
use tokio::process::Command;

/// The objects that exist before an example runs.
const OBJECTS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: default, labels: {app: web}}
spec: {nodeName: node-1, containers: [{name: main, image: example.invalid/main}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: default, labels: {app: web}}
spec: {nodeName: node-1, containers: [{name: main, image: example.invalid/main}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: example.invalid/main}]}
";

/// The longest time that an example may take, on a loaded machine.
const LIMIT: Duration = Duration::from_secs(120);

/// The arguments of an example, and a line that it must print.
struct Run {
    example: &'static str,
    arguments: &'static [&'static str],
    prints: &'static str,
}

const RUNS: &[Run] = &[
    Run { example: "01_list_pods", arguments: &[], prints: "2 pods at version " },
    Run { example: "02_watch_pods", arguments: &["--events", "3"], prints: "DELETED  default/web-2" },
    Run {
        example: "03_apply_configmap",
        arguments: &["greeting", "hello=world"],
        prints: "applied greeting at version ",
    },
    Run { example: "04_discover_resources", arguments: &[], prints: "deployments.apps" },
    Run { example: "04_discover_resources", arguments: &["deploy", "po"], prints: "  2 objects at version " },
    Run {
        example: "05_test_with_a_fork",
        arguments: &[],
        prints: "expires: true, (lists, names): (2, {\"first\", \"last\"})",
    },
    // Two existing pods, and one that is created, modified and deleted.
    Run {
        example: "06_watch_with_a_handler",
        arguments: &["--events", "5"],
        prints: "default/web-2 deleted\n",
    },
    Run { example: "07_pods_by_node", arguments: &[], prints: "node-1: web-0, web-1\n" },
    Run {
        example: "08_read_your_writes",
        arguments: &["greeting", "hello"],
        prints: "now it shows Some({\"text\": \"hello\"}) at version ",
    },
    Run {
        example: "09_call_by_name",
        arguments: &["kubernetes:///nowhere:grpc"],
        prints: "kubernetes:///nowhere:grpc cannot be called: ",
    },
    Run { example: "10_rolling_restart", arguments: &[], prints: "90 calls, none failed" },
    Run {
        example: "11_packed_cache",
        arguments: &["web-1"],
        prints: "web-1: 1 containers on Some(\"node-1\")\n",
    },
    Run { example: "12_live_page", arguments: &["0"], prints: "open http://127.0.0.1:" },
];

#[test]
fn every_example_is_run() {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").read_dir().unwrap();
    let files = files.map(|it| it.unwrap().path()).filter(|it| it.extension().is_some_and(|it| it == "rs"));
    let files = files.map(|it| it.file_stem().unwrap().to_str().unwrap().to_owned());
    let run: BTreeSet<_> = RUNS.iter().map(|it| it.example.to_owned()).collect();
    assert_eq!(files.collect::<BTreeSet<_>>(), run, "the table of this test and the examples differ");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_prints_what_it_should() {
    let base = ApiServer::builder().yaml(OBJECTS).start().await.unwrap();
    for run in RUNS.iter().filter(|it| it.is_built()) {
        run.check(&base).await;
    }
}

impl Run {
    /// False for an example whose feature is off; `cargo test --workspace` has all of them on.
    fn is_built(&self) -> bool {
        let optional = [
            ("05_test_with_a_fork", cfg!(feature = "testing")),
            ("07_pods_by_node", cfg!(feature = "derive")),
            ("12_live_page", cfg!(all(feature = "diagnostics", feature = "testing"))),
        ];
        optional.iter().all(|(example, is_on)| *example != self.example || *is_on)
    }

    /// Runs the example on a fork of the cluster in which a pod is created and deleted.
    async fn check(&self, base: &ApiServer) {
        let server = Arc::new(base.fork().await.unwrap());
        let mut kubeconfig = tempfile::NamedTempFile::new().unwrap();
        kubeconfig.write_all(server.kubeconfig().as_bytes()).unwrap();
        let changes = tokio::spawn(create_and_delete_a_pod(Arc::clone(&server)));
        let mut command = Command::new(program(self.example));
        command.args(self.arguments).env("KUBECONFIG", kubeconfig.path()).kill_on_drop(true);
        let output = tokio::time::timeout(LIMIT, command.output()).await;
        changes.abort();
        let name = self.example;
        let output = output.unwrap_or_else(|_| panic!("{name} did not end within {LIMIT:?}")).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} failed: {}", errors.trim());
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains(self.prints), "{name} did not print {:?} but:\n{printed}", self.prints);
    }
}

/// The program that cargo built from an example: `target/debug/examples`, next to the folder of
/// this test.
fn program(example: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().nth(2).unwrap().join("examples");
    let program = folder.join(example).with_extension(std::env::consts::EXE_EXTENSION);
    assert!(program.exists(), "{} is not built; `cargo test` without filters builds it", program.display());
    program
}

/// Creates a pod once the example has read the others, and deletes it: ADDED, MODIFIED, DELETED.
async fn create_and_delete_a_pod(server: Arc<ApiServer>) {
    let config = Config::from_kubeconfig_str(&server.kubeconfig(), &Overrides::default()).unwrap();
    let pods = Api::<Pod>::namespaced(Client::new(config).unwrap(), "default");
    let reads = |verb: &str| verb == "list" || verb == "watch";
    let _ = server.request_log().wait_for(|it| reads(&it.verb) && it.resource == "pods", 1).await;
    let containers = json!([{ "name": "main", "image": "example.invalid/main" }]);
    let pod = json!({ "metadata": { "name": "web-2" }, "spec": { "containers": containers } });
    pods.create(&WriteParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    pods.delete("web-2", &DeleteParams::default()).await.unwrap();
}
