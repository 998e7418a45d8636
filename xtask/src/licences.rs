//! What may enter the build, by `cargo-deny` and deny.toml: licences, banned crates, sources.
//!
//! Advisories need a network and change by the day, so they are not part of this.

use anyhow::{Context, bail};

use processes::cargo::Cargo;

/// Fails, with the way to install it, where `cargo-deny` is missing: a check that is skipped in silence is none.
pub(crate) fn run() -> anyhow::Result<()> {
    if !is_installed() {
        bail!(
            "cargo-deny is missing; install it with `cargo install cargo-deny --locked` (about 3 minutes on 2 cores)"
        );
    }
    Cargo::new(["deny", "check", "licenses", "bans", "sources"])
        .run()
        .context("a dependency breaks a rule of deny.toml")
}

fn is_installed() -> bool {
    let asked = std::process::Command::new("cargo-deny").arg("--version").output();
    asked.is_ok_and(|it| it.status.success())
}
