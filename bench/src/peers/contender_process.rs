//! The handle on the process of a contender: starts it, and reads the lines that it prints.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::programs::Program;
use super::report::{Report, Synced};
use crate::server_pods::NAMESPACE;

/// The time within which a contender has to print its next line. It is longer than any of them
/// takes.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Times and resident memory, with this many changes after the sync.
    Times { updates: u64 },
    /// The heap after the sync.
    Heap,
}

/// A running contender. Dropping this kills the process.
pub(super) struct ContenderProcess {
    name: &'static str,
    output: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl ContenderProcess {
    pub(super) fn start(program: &Program, kubeconfig: &Path, purpose: Purpose) -> Result<Self> {
        let (path, updates) = match purpose {
            Purpose::Times { updates } => (&program.path, updates),
            Purpose::Heap => (&program.heap_path, 0),
        };
        let mut command = Command::new(path);
        command.args(&program.arguments).arg("--kubeconfig").arg(kubeconfig);
        command.args(["--namespace", NAMESPACE, "--updates", &updates.to_string()]);
        if purpose == Purpose::Heap {
            command.arg("--heap");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.name))?;
        let output = BufReader::new(child.stdout.take().context("standard output is not piped")?).lines();
        Ok(Self { name: program.name, output, _child: child })
    }

    /// Waits until its cache is synced. Returns the number of objects.
    pub(super) async fn synced(&mut self) -> Result<usize> {
        Ok(self.line::<Synced>().await?.synced)
    }

    /// Waits for its report.
    pub(super) async fn report(&mut self) -> Result<Report> {
        self.line().await
    }

    async fn line<T: DeserializeOwned>(&mut self) -> Result<T> {
        let name = self.name;
        let line = tokio::time::timeout(TIMEOUT, self.output.next_line()).await;
        let line = line.with_context(|| format!("{name} prints nothing within {TIMEOUT:?}"))??;
        let line = line.with_context(|| format!("{name} exited"))?;
        serde_json::from_str(&line).with_context(|| format!("unexpected line from {name}: {line}"))
    }
}
