//! kube-controller-manager on our server:
//! `cargo xtask original-controllers --kube-controller-manager FILE`.
//!
//! ```text
//! dogwatch serve (own controllers disabled) ◄── kube-controller-manager
//!          ▲    ▲
//!          │    └── the node: binds pods, reports them as running, confirms their deletion
//!          └─────── the scenario: creates objects, waits for the controllers' reaction, and reports it
//! ```
//!
//! There is no kubelet and no scheduler, so the task simulates both for one node. Everything is on
//! loopback, and every process that is started here is stopped here. With `--kube-apiserver-bin`
//! the same scenario runs on kube-apiserver, to distinguish a defect of our server from one of the
//! scenario.
//!
//! The `mod` lines below are in layer order.

mod objects;
mod report;
mod node;
mod scenario;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::encoding::Encoding;
use objects::Objects;
use processes::process::Process;
use report::Report;
use testbed::server::{self, OwnServer, Server};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// kube-controller-manager, version 1.36.
    #[arg(long, value_name = "FILE")]
    kube_controller_manager: PathBuf,
    /// The encoding for built-in kinds.
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,
    #[command(flatten)]
    ours: OwnServer,
    /// Test kube-apiserver instead of our server: a directory with kube-apiserver and etcd.
    #[arg(long, value_name = "DIR")]
    kube_apiserver_bin: Option<PathBuf>,
}

/// Runs the scenario, and fails if an expected reaction of the controllers is missing.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let program = &options.kube_controller_manager;
    let program = program.canonicalize().with_context(|| format!("cannot find {}", program.display()))?;
    let server = match &options.kube_apiserver_bin {
        Some(binaries) => server::start_kube_apiserver(binaries).await?,
        None => options.ours.start(&["--no-controllers"]).await?,
    };
    let mut manager = start_manager(&program, &server, options.encoding)?;
    let objects = Objects::new(server.client()?);
    let mut report = Report::new();
    report.note(&format!("{} is ready; kube-controller-manager is started", server.name));

    let outcome = tokio::select! {
        outcome = scenario::run(&objects, &mut report) => outcome,
        ended = node::run(&objects) => ended,
    };
    for (line, count) in logged_errors(&manager.output()?).into_iter().take(10) {
        report.note(&format!("logged by kube-controller-manager {count}x: {line}"));
    }
    manager.ensure_alive()?;
    outcome?;
    ensure!(report.finish(), "some expectations were missed");
    Ok(())
}

/// Starts kube-controller-manager against a server. Dropping the result stops it.
pub(crate) fn start_manager(program: &Path, server: &Server, encoding: Encoding) -> Result<Process> {
    let file = |name: &str| server.folder().join(name).display().to_string();
    let key = rcgen::KeyPair::generate()?;
    std::fs::write(file("service-accounts.key"), key.serialize_pem())?;
    let mut command = Command::new(program);
    command.args([
        format!("--kubeconfig={}", server.kubeconfig.display()),
        format!("--service-account-private-key-file={}", file("service-accounts.key")),
        format!("--root-ca-file={}", server.ca.display()),
        // There is no kubelet that renews node leases.
        "--controllers=*,-node-lifecycle-controller".to_owned(),
        encoding.flag(),
        "--leader-elect=true".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", server::free_port()?),
        format!("--cert-dir={}", file("manager")),
    ]);
    Process::start("kube-controller-manager", &mut command, server.folder())
}

/// Returns the errors in the log of kube-controller-manager with their counts, most frequent first.
/// The prefix that makes each line unique is removed.
fn logged_errors(log: &str) -> Vec<(String, usize)> {
    let mut counts = BTreeMap::new();
    for line in log.lines().filter(|it| it.starts_with('E')) {
        let Some((_, message)) = line.split_once("] ") else { continue };
        *counts.entry(message.to_owned()).or_insert(0) += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_and_other_lines_are_ignored() {
        let log = "I1 x 1 a.go:1] fine\nE1 x 1 a.go:1] bad\nE2 y 2 b.go:2] worse\nE3 z 1 a.go:1] bad\nplain";
        assert_eq!(logged_errors(log), [("bad".to_owned(), 2), ("worse".to_owned(), 1)]);
    }
}
