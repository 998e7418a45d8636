//! Builds the peers written in Go (`bench/peers/NAME`), if Go is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::cargo::target_folder;

/// Builds the peer of that name. Returns `None` if Go is not installed.
///
/// # Errors
/// If it does not build.
pub fn build(name: &str) -> Result<Option<PathBuf>> {
    if !Command::new("go").arg("version").output().is_ok_and(|it| it.status.success()) {
        return Ok(None);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peers").join(name);
    let program = target_folder()?.join(name);
    eprintln!("$ go build (in bench/peers/{name})");
    let status =
        Command::new("go").arg("build").arg("-o").arg(&program).arg(".").current_dir(folder).status()?;
    ensure!(status.success(), "bench/peers/{name} does not build");
    Ok(Some(program))
}
