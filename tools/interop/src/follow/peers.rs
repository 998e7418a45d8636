//! The followers that use other libraries: separate programs below bench/.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::time::Instant;

use super::cache::Outcome;
use super::objects::{END, TIMEOUT};
use processes::cargo::Cargo;
use processes::process::Process;

/// The interval at which their output is read.
const POLL: Duration = Duration::from_millis(20);

/// The command to start a follower.
#[derive(Debug)]
pub(super) struct Program {
    name: &'static str,
    /// The label that distinguishes it from another run of the same program.
    variant: &'static str,
    path: PathBuf,
    arguments: &'static [&'static str],
}

/// A running follower. Dropping it stops it.
#[derive(Debug)]
pub(super) struct Peer {
    name: &'static str,
    variant: &'static str,
    process: Process,
}

/// Builds the programs. client-go's is built only if Go is installed.
pub(super) fn build() -> Result<Vec<Program>> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peers");
    let manifest = "bench/peers/kube-rs/Cargo.toml";
    Cargo::new([
        "build",
        "--release",
        "--locked",
        "--manifest-path",
        manifest,
        "--target-dir",
        "bench/peers/kube-rs/target",
    ])
    .run()?;
    let kube = bench.join("kube-rs/target/release/peer-kube-rs");
    let mut programs = vec![
        Program { name: "kube-rs", variant: "", path: kube.clone(), arguments: &[] },
        Program {
            name: "kube-rs-watch-list",
            variant: "WatchList",
            path: kube,
            arguments: &["--watch-list"],
        },
    ];
    if Command::new("go").arg("version").output().is_ok_and(|it| it.status.success()) {
        let folder = bench.join("client-go");
        let path = folder.join("client-go");
        eprintln!("$ go build (in bench/peers/client-go)");
        let status =
            Command::new("go").arg("build").arg("-o").arg(&path).arg(".").current_dir(folder).status()?;
        ensure!(status.success(), "the client-go follower does not build");
        programs.push(Program { name: "client-go", variant: "", path, arguments: &[] });
    } else {
        println!("skipping client-go: Go is not installed");
    }
    Ok(programs)
}

impl Peer {
    /// Starts a program that follows this namespace. Its output is in a log file in `logs`.
    pub(super) fn start(program: &Program, kubeconfig: &Path, namespace: &str, logs: &Path) -> Result<Self> {
        let mut command = Command::new(&program.path);
        command.arg("--kubeconfig").arg(kubeconfig);
        command.args(["--namespace", namespace, "--until", END]).args(program.arguments);
        let process = Process::start(program.name, &mut command, logs)?;
        Ok(Self { name: program.name, variant: program.variant, process })
    }

    /// Waits until it has its initial list.
    pub(super) async fn wait_until_synced(&mut self) -> Result<()> {
        self.wait_for("synced").await.map(drop)
    }

    /// Waits until it exits, and returns its report.
    pub(super) async fn outcome(mut self) -> Result<Outcome> {
        let line = self.wait_for("digest").await?;
        let mut outcome: Outcome = serde_json::from_value(line)?;
        self.process.wait()?;
        if !self.variant.is_empty() {
            outcome.peer = format!("{}, {}", outcome.peer, self.variant);
        }
        Ok(outcome)
    }

    /// Waits for a line of JSON with this field.
    async fn wait_for(&mut self, field: &str) -> Result<Value> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let ended = self.process.ensure_alive();
            let output = self.process.output()?;
            let lines = output.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok());
            if let Some(line) = lines.into_iter().find(|it| !it[field].is_null()) {
                return Ok(line);
            }
            ended.with_context(|| format!("while waiting for {}", self.name))?;
            ensure!(Instant::now() < deadline, "{} did not print `{field}` in time:\n{output}", self.name);
            tokio::time::sleep(POLL).await;
        }
    }
}
