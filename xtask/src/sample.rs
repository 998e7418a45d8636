//! `cargo xtask pods`: a list of realistic pods, the same on every run.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::bench::pods::Pods;

/// A PodList as a server would send it: 12 to 14 KB a pod, half of it managed fields.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many pods.
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// Where to write it; standard output unless given.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let list = Pods::new()?.list(options.count);
    match &options.out {
        Some(file) => std::fs::write(file, list).with_context(|| format!("cannot write {}", file.display())),
        None => std::io::stdout().write_all(&list).context("cannot write to standard output"),
    }
}
