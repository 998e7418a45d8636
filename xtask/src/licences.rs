//! The rules for dependencies, by `cargo-deny` and deny.toml: licences, banned crates, sources.
//!
//! Advisories need a network and change daily, so they are a task of their own and not part of CI: a
//! run on an old commit would fail for something that was published after it.

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

/// Runs `cargo-deny` on the database of RustSec, which it downloads first.
pub(crate) fn advisories() -> anyhow::Result<()> {
    require_cargo_deny()?;
    Cargo::new(["deny", "check", "advisories"])
        .run()
        .context("a dependency has an advisory, or the database cannot be downloaded")
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
