//! The original kube-controller-manager on our server: `cargo xtask original-controllers --kube-controller-manager FILE`.
//!
//! ```text
//! dogwatch serve (own controllers off) ◄── kube-controller-manager
//!          ▲    ▲
//!          │    └── the node: binds pods, says that they run, confirms that they ended
//!          └─────── the story: creates, waits for what the controllers make of it, and says so
//! ```
//!
//! There is no kubelet and no scheduler, so the task plays both for one node. Everything is on loopback, and what is started
//! here ends here. With `--kube-apiserver-bin` the same story is told on the original server, to tell a fault of ours from
//! one of the story.
//!
//! The `mod` lines below are in layer order.

mod objects;
mod report;
mod node;
mod story;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use objects::Objects;
use processes::process::Process;
use report::Report;
use testbed::server::{self, Ours, Server};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The original program, version 1.36.
    #[arg(long, value_name = "FILE")]
    kube_controller_manager: PathBuf,
    #[command(flatten)]
    ours: Ours,
    /// Use the original server instead of ours: a folder with kube-apiserver and etcd.
    #[arg(long, value_name = "DIR")]
    kube_apiserver_bin: Option<PathBuf>,
}

/// Tells the story; fails if anything in it did not happen.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let program = &options.kube_controller_manager;
    let program = program.canonicalize().with_context(|| format!("cannot find {}", program.display()))?;
    let server = match &options.kube_apiserver_bin {
        Some(binaries) => server::start_original(binaries).await?,
        None => options.ours.start(&["--no-controllers"]).await?,
    };
    let mut manager = start_manager(&program, &server)?;
    let objects = Objects::new(server.client()?);
    let mut report = Report::new();
    report.note(&format!("{} is ready, and kube-controller-manager is started against it", server.name));

    let told = tokio::select! {
        told = story::tell(&objects, &mut report) => told,
        ended = node::run(&objects) => ended,
    };
    for (line, count) in complaints(&manager.said()?).into_iter().take(10) {
        report.note(&format!("the controllers complained {count}x: {line}"));
    }
    manager.ensure_alive()?;
    told?;
    ensure!(report.finish(), "not everything was seen");
    Ok(())
}

/// Starts the original controllers against a server. They end when the guard is dropped.
pub(crate) fn start_manager(program: &Path, server: &Server) -> Result<Process> {
    let file = |name: &str| server.folder().join(name).display().to_string();
    let key = rcgen::KeyPair::generate()?;
    std::fs::write(file("service-accounts.key"), key.serialize_pem())?;
    let mut command = Command::new(program);
    command.args([
        format!("--kubeconfig={}", server.kubeconfig.display()),
        format!("--service-account-private-key-file={}", file("service-accounts.key")),
        format!("--root-ca-file={}", server.ca.display()),
        // There are nodes in name only.
        "--controllers=*,-node-lifecycle-controller".to_owned(),
        "--kube-api-content-type=application/json".to_owned(),
        "--leader-elect=true".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", server::free_port()?),
        format!("--cert-dir={}", file("manager")),
    ]);
    Process::start("kube-controller-manager", &mut command, server.folder())
}

/// The errors in the log of the controllers, without what makes each of them unique, most frequent first.
fn complaints(log: &str) -> Vec<(String, usize)> {
    let mut counts = BTreeMap::new();
    for line in log.lines().filter(|it| it.starts_with('E')) {
        let Some((_, said)) = line.split_once("] ") else { continue };
        *counts.entry(said.to_owned()).or_insert(0) += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_counted_and_the_rest_is_left_out() {
        let log = "I1 x 1 a.go:1] fine\nE1 x 1 a.go:1] bad\nE2 y 2 b.go:2] worse\nE3 z 1 a.go:1] bad\nplain";
        assert_eq!(complaints(log), [("bad".to_owned(), 2), ("worse".to_owned(), 1)]);
    }
}
