//! Runs the examples against our own server, so that none rots: each is a program, not a listing.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use dogwatch::config::Overrides;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Client, Config, DeleteParams, WriteParams};
use dogwatch_apiserver::ApiServer;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::cargo::{self, Cargo};

/// What is there before an example runs.
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

/// How an example is started without a cluster of one's own, and a line it must print.
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
    // Two pods that are there, and one that comes, changes and goes.
    Run { example: "06_watch_with_a_handler", arguments: &["--events", "5"], prints: "default/web-2 deleted\n" },
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
];

/// Runs every example of every crate, one after the other, each with a cluster of its own, and stops at the first that fails
/// or says nothing of what it should. An example that is in no row of the table is a failure too.
pub(crate) fn run() -> Result<()> {
    let runtime = Runtime::new().context("cannot start a runtime for the server")?;
    let base = runtime.block_on(ApiServer::builder().simulators(false).yaml(OBJECTS).start())?;
    // Tests are built with examples; after `cargo test --workspace` there is nothing to do, whereas a build of the examples alone has
    // other features and begins anew.
    Cargo::new(["test", "--workspace", "--no-run", "--quiet"]).run()?;
    let folder = cargo::target_folder()?.join("debug").join("examples");
    let mut count = 0;
    for package in cargo::packages()? {
        for example in &package.examples {
            let runs: Vec<_> = RUNS.iter().filter(|it| it.example == example).collect();
            ensure!(
                !runs.is_empty(),
                "xtask/src/examples.rs does not say how to run the example `{example}`"
            );
            for run in runs {
                run.with_server(&folder, &runtime, &base)?;
                count += 1;
            }
        }
    }
    eprintln!("{count} runs of examples");
    Ok(())
}

impl Run {
    /// Runs it while something happens in a copy of the cluster.
    fn with_server(&self, folder: &Path, runtime: &Runtime, base: &ApiServer) -> Result<()> {
        let server = Arc::new(runtime.block_on(base.fork())?);
        let mut kubeconfig = tempfile::NamedTempFile::new().context("cannot make a temporary kubeconfig")?;
        kubeconfig
            .write_all(server.kubeconfig().as_bytes())
            .context("cannot write the temporary kubeconfig")?;
        let living = a_short_life(Arc::clone(&server));
        let life = runtime.spawn(async move {
            if let Err(error) = living.await {
                eprintln!("the pod that the examples should see fails: {error:#}");
            }
        });
        let checked = self.check(folder, kubeconfig.path());
        life.abort();
        checked
    }

    fn check(&self, folder: &Path, kubeconfig: &Path) -> Result<()> {
        let program = folder.join(self.example);
        let output = Command::new(&program)
            .args(self.arguments)
            .env("KUBECONFIG", kubeconfig)
            .output()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the example `{}` fails: {}", self.example, complaint.trim());
        let printed = output.stdout;
        let printed = String::from_utf8_lossy(&printed);
        if !printed.contains(self.prints) {
            bail!("the example `{}` does not print {:?}, but:\n{printed}", self.example, self.prints);
        }
        Ok(())
    }
}

/// A pod comes and goes, once somebody has seen the others: added, modified when it is about to go, deleted.
async fn a_short_life(server: Arc<ApiServer>) -> Result<()> {
    let config = Config::from_kubeconfig_str(&server.kubeconfig(), &Overrides::default())?;
    let pods = Api::<Pod>::namespaced(Client::new(config)?, "default");
    let reads = |verb: &str| verb == "list" || verb == "watch";
    let _ = server.request_log().wait_for(|it| reads(&it.verb) && it.resource == "pods", 1).await;
    let containers = json!([{ "name": "main", "image": "example.invalid/main" }]);
    let pod = json!({ "metadata": { "name": "web-2" }, "spec": { "containers": containers } });
    pods.create(&WriteParams::default(), &serde_json::from_value(pod)?).await?;
    pods.delete("web-2", &DeleteParams::default()).await?;
    Ok(())
}
