//! Builds the libraries with the types of other versions of Kubernetes: a program chooses the
//! version by a feature of k8s-openapi, and a library may use only what all of them have.
//!
//! Everything else is built with the newest version, so that a field which is optional in an older
//! one, or missing, would be noticed only by users.

use std::process::Command;

use anyhow::{Context, ensure};
use processes::cargo::{self, Cargo};
use serde_json::Value;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only the oldest version, which differs most from the newest one.
    #[arg(long)]
    pub(crate) oldest: bool,
}

/// The facade, which depends on every library.
const FACADE: &str = "dogwatch";

/// Checks the facade with all of its features, in one version after the other.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let mut versions = all()?;
    // The newest one is that of every other build.
    versions.pop();
    versions.truncate(if options.oldest { 1 } else { versions.len() });
    let facade = cargo::packages()?.into_iter().find(|it| it.name == FACADE);
    let features = facade.context("the workspace has no facade")?.features;
    for version in versions {
        let features: Vec<_> = features.iter().filter(|it| *it != "latest").cloned().collect();
        let features = format!("{},k8s-openapi/v1_{version}", features.join(","));
        Cargo::new(["check", "--package", FACADE, "--no-default-features", "--features", &features])
            .run()
            .with_context(|| format!("a library does not build with the types of Kubernetes 1.{version}"))?;
    }
    Ok(())
}

/// Returns the newest version that k8s-openapi has, such as `1.37`: that of its feature `latest`.
pub(crate) fn newest() -> anyhow::Result<String> {
    Ok(format!("1.{}", all()?.last().context("k8s-openapi has no version")?))
}

/// Returns the minor versions of Kubernetes that k8s-openapi has, the oldest one first.
fn all() -> anyhow::Result<Vec<u32>> {
    // Without a platform, cargo would download the dependencies for all of them.
    let platform = host()?;
    let output =
        Cargo::new(["metadata", "--format-version", "1", "--filter-platform", &platform]).output()?;
    let metadata: Value = serde_json::from_slice(&output).context("`cargo metadata` did not print JSON")?;
    let versions = versions(&metadata);
    ensure!(!versions.is_empty(), "`cargo metadata` has no k8s-openapi with features such as v1_36");
    Ok(versions)
}

/// Returns the platform of this machine, such as `x86_64-unknown-linux-gnu`.
fn host() -> anyhow::Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|it| it.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` does not name its platform")?.to_owned())
}

fn versions(metadata: &Value) -> Vec<u32> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let features =
        packages.filter(|it| it["name"] == "k8s-openapi").filter_map(|it| it["features"].as_object());
    let names = features.flat_map(|it| it.keys());
    let mut versions: Vec<u32> = names.filter_map(|it| it.strip_prefix("v1_")?.parse().ok()).collect();
    versions.sort_unstable();
    versions
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_versions_of_k8s_openapi_are_its_features() {
        let features = json!({ "v1_36": [], "v1_9": [], "latest": ["v1_36"], "std": [] });
        let packages = json!([{ "name": "x", "features": { "v1_1": [] } }, { "name": "k8s-openapi", "features": features }]);
        assert_eq!(versions(&json!({ "packages": packages })), [9, 36]);
    }
}
