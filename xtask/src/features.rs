//! Builds with each feature alone and with none: a feature must not depend on another that happens
//! to be enabled.
//!
//! `--all-targets` includes the dev-dependencies, and with them a Kubernetes version for
//! k8s-openapi, which libraries leave to their users.

use processes::cargo::{self, Cargo};

/// Checks every crate that has features, first without any, then with each alone.
pub(crate) fn run() -> anyhow::Result<()> {
    for package in cargo::packages()? {
        let name = package.name.as_str();
        let alone = ["check", "--all-targets", "--package", name, "--no-default-features"];
        if !package.features.is_empty() {
            Cargo::new(alone).run()?;
        }
        for feature in &package.features {
            Cargo::new(alone.into_iter().chain(["--features", feature.as_str()])).run()?;
        }
    }
    Ok(())
}
