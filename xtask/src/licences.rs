//! The rules for dependencies, by `cargo-deny` and deny.toml: licences, banned crates, sources.
//!
//! Advisories need a network and change daily, so they are not part of this.

use anyhow::{Context, bail};

use processes::cargo::Cargo;

/// Runs `cargo-deny`. Fails if it is not installed, with the command to install it: a silently
/// skipped check would be none.
pub(crate) fn run() -> anyhow::Result<()> {
    if !is_installed() {
        bail!(
            "cargo-deny is missing; install it with `cargo install cargo-deny --locked` (about 3 minutes on 2 cores)"
        );
    }
    Cargo::new(["deny", "check", "licenses", "bans", "sources"])
        .run()
        .context("a dependency violates a rule of deny.toml")
}

fn is_installed() -> bool {
    let version = std::process::Command::new("cargo-deny").arg("--version").output();
    version.is_ok_and(|it| it.status.success())
}
