//! `dogwatch demo` in a process of its own, whose page is looked at too.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use processes::process::Process;
use tempfile::TempDir;
use testbed::server::OwnServer;
use tokio::time::Instant;

/// The words after the address of the page.
const MARK: &str = " in a browser";
/// The words after the last act.
const END: &str = "The cluster keeps running";
/// The words about an act that gave up.
const UNFINISHED: &str = "not finished";
/// The time for all acts of the demo, on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(100);

/// The names of the buttons.
pub(super) const CUT: &str = "Cut the watches";
pub(super) const KILL: &str = "Kill a gRPC server";

/// A running demo. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Demo {
    process: Process,
    _folder: TempDir,
}

impl Demo {
    pub(super) fn start(program: &OwnServer) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(program.binary()?);
        command.arg("demo").env("HOME", folder.path()).env_remove("KUBECONFIG");
        let process = Process::start("demo", &mut command, folder.path())?;
        Ok(Self { process, _folder: folder })
    }

    /// Waits for the last act, and returns the address of the page.
    pub(super) async fn played(&mut self) -> Result<String> {
        let begun = Instant::now();
        loop {
            self.process.ensure_alive()?;
            let output = self.process.output()?;
            if output.contains(END) {
                ensure!(!output.contains(UNFINISHED), "an act of the demo did not finish:\n{output}");
                return page_of(&output).context("the demo prints no address of a page");
            }
            if begun.elapsed() >= LIMIT {
                bail!("the demo did not play all acts within {LIMIT:?}:\n{output}");
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Returns the address in the output of a demo.
fn page_of(output: &str) -> Option<String> {
    let (before, _) = output.split_once(MARK)?;
    before.split_whitespace().next_back().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_page_is_found() {
        let output = "ready. Look around:\n  http://127.0.0.1:80/ in a browser: the live page\n";
        assert_eq!(page_of(output).as_deref(), Some("http://127.0.0.1:80/"));
        assert_eq!(page_of("nothing"), None);
    }
}
