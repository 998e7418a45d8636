//! A publication without its last step: cargo packages every crate, in the order of their
//! dependencies, and checks the metadata that a registry requires.
//!
//! Metadata beyond that, and the order in CONTRIBUTING.md, are checked by
//! `xtask/tests/house/publishing.rs` with every `cargo test`.

use anyhow::{Context, ensure};
use processes::cargo::Cargo;

use crate::kubernetes_versions;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Also build each package as users will get it, which takes as long as a first build.
    #[arg(long)]
    verify: bool,
    /// Fail if the address of the repository in Cargo.toml is still a placeholder.
    #[arg(long = "final")]
    is_final: bool,
}

/// Runs `cargo publish --dry-run` for all crates that are published.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let mut arguments = vec!["publish", "--dry-run", "--workspace", "--allow-dirty"];
    if !options.verify {
        arguments.push("--no-verify");
    }
    // Libraries leave the version to programs. The facade has a feature for the newest one, which
    // must not meet another.
    let kubernetes = kubernetes_versions::newest()?;
    let cargo = Cargo::new(arguments).env("K8S_OPENAPI_ENABLED_VERSION", &kubernetes);
    cargo.run().context("a crate cannot be published as it is")?;
    if is_placeholder(&repository()?) {
        ensure!(!options.is_final, "the `repository` in Cargo.toml is a placeholder: set the address");
        eprintln!("note: the `repository` in Cargo.toml is a placeholder; set it before a publication");
    }
    Ok(())
}

/// Returns the address of the repository in the manifest of the workspace.
fn repository() -> anyhow::Result<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let manifest = std::fs::read_to_string(path).context("cannot read Cargo.toml")?;
    let value = manifest.lines().find_map(|it| it.strip_prefix("repository = "));
    Ok(value.context("Cargo.toml has no `repository`")?.trim_matches('"').to_owned())
}

fn is_placeholder(address: &str) -> bool {
    !address.starts_with("https://") || address.starts_with("https://example.com/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_has_an_address_for_its_repository() {
        assert!(repository().unwrap().starts_with("https://"));
    }

    #[test]
    fn an_address_of_a_reserved_domain_is_a_placeholder() {
        assert!(is_placeholder("https://example.com/dogwatch") && is_placeholder(""));
        assert!(!is_placeholder("https://git.example.org/dogwatch"));
    }
}
