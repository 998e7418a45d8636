//! The rules for dependencies, by `cargo-deny` and deny.toml: licences, banned crates, sources.
//!
//! Advisories need a network and change daily, so they are a task of their own. `.ci/run` runs it
//! and reports what it finds; only a publication waits for it, since an old commit may have an
//! advisory of today.

use anyhow::{Context, bail};

use processes::cargo::Cargo;

/// Runs `cargo-deny`. Fails if it is not installed, with the command to install it: a silently
/// skipped check would be none.
pub(crate) fn run() -> anyhow::Result<()> {
    require_cargo_deny()?;
    Cargo::new(["deny", "check", "licenses", "bans", "sources"])
        .run()
        .context("a dependency violates a rule of deny.toml")
}

#[derive(Debug, clap::Args)]
pub(crate) struct AdvisoryOptions {
    /// Succeed, with a note, if the database cannot be downloaded.
    #[arg(long)]
    if_reachable: bool,
}

/// Runs `cargo-deny` on the database of RustSec, which it downloads first.
pub(crate) fn advisories(options: &AdvisoryOptions) -> anyhow::Result<()> {
    require_cargo_deny()?;
    // A step of its own, because only its failure can be that of the network.
    match Cargo::new(["deny", "fetch", "db"]).run() {
        Err(error) if options.if_reachable => {
            eprintln!("skipped: the database of advisories cannot be downloaded ({error:#})");
            return Ok(());
        }
        fetched => fetched.context("the database of advisories cannot be downloaded")?,
    }
    Cargo::new(["deny", "check", "--disable-fetch", "advisories"])
        .run()
        .context("a dependency has an advisory: update it, or ignore the advisory in deny.toml with a reason")
}

fn require_cargo_deny() -> anyhow::Result<()> {
    let version = std::process::Command::new("cargo-deny").arg("--version").output();
    if !version.is_ok_and(|it| it.status.success()) {
        bail!(
            "cargo-deny is missing; install it with `cargo install cargo-deny --locked` (about 3 minutes on 2 cores)"
        );
    }
    Ok(())
}
