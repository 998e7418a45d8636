//! Checks the signatures of the published libraries against an earlier revision, by
//! `cargo-semver-checks`.
//!
//! It builds the documentation of both revisions, which takes minutes, so that it is a step of a
//! release and not of CI. Removed items are found by `cargo test`:
//! `xtask/tests/house/public_items.rs`.

use anyhow::{Context, bail};
use processes::cargo::{self, Cargo};

use crate::kubernetes_versions;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The revision to compare with: the tag of the last release.
    #[arg(long, value_name = "REVISION")]
    since: String,
}

/// Runs `cargo-semver-checks` for every published library. Fails if it is not installed, with the
/// command to install it.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let version = std::process::Command::new("cargo-semver-checks").arg("--version").output();
    if !version.is_ok_and(|it| it.status.success()) {
        bail!(
            "cargo-semver-checks is missing; install it with `cargo install cargo-semver-checks --locked` (about 10 minutes on 2 cores)"
        );
    }
    let published: Vec<_> = cargo::packages()?.into_iter().filter(|it| it.is_published).collect();
    let mut arguments = vec!["semver-checks", "--baseline-rev", &options.since];
    for package in &published {
        arguments.extend(["--package", &package.name]);
    }
    // The facade enables the newest version by a feature; the others have none.
    let kubernetes = kubernetes_versions::newest()?;
    Cargo::new(arguments).env("K8S_OPENAPI_ENABLED_VERSION", &kubernetes).run().with_context(|| {
        format!("interfaces have changed since {} in ways that need another version", options.since)
    })
}
