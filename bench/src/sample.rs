//! `cargo xtask bench pods`: a list of realistic pods, the same on every run.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;

use crate::pods::Pods;

/// Writes a PodList as a server would send it: 12 to 14 KB for each pod, half of it managed fields.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench pods")]
struct Options {
    /// The number of pods.
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// The file to write. Defaults to standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Writes the list.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let name = "cargo xtask bench pods".to_owned();
    let options = Options::parse_from(std::iter::once(&name).chain(arguments));
    let list = Pods::new()?.list(options.count);
    match &options.out {
        Some(file) => std::fs::write(file, list).with_context(|| format!("cannot write {}", file.display())),
        None => std::io::stdout().write_all(&list).context("cannot write to standard output"),
    }
}
