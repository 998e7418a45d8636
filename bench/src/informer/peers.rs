//! The peers of an informer, as programs of their own: client-go where Go is installed (`bench/peers/informer-go`), and the store of kube-rs
//! where cargo can get it (`bench/peers/kube-rs`).
//!
//! They are asked for the same things that are measured of ours, in the same run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::effort::Effort;
use processes::cargo::Cargo;
use processes::go;

/// What a peer was measured to do.
#[derive(Debug, Deserialize)]
pub(super) struct Figures {
    pub(super) peer: String,
    pub(super) beside: Vec<Beside>,
    /// Empty where there is nothing to compare.
    pub(super) notifications: Vec<Notification>,
    /// Nanoseconds to find 100 of 100,000 objects by a label.
    pub(super) label_ns: f64,
}

/// What is done beside readers, per second.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Beside {
    pub(super) pods: usize,
    pub(super) readers: usize,
    /// Of all objects each.
    pub(super) reads: f64,
    pub(super) writes: f64,
}

/// CPU time of one notification, with so many handlers.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Notification {
    pub(super) handlers: usize,
    pub(super) ns: f64,
}

/// Builds and runs the peers that can be had, and says which cannot.
pub(super) fn measure(effort: &Effort) -> Result<Vec<Figures>> {
    let mut all = Vec::new();
    match go::build("informer-go")? {
        Some(program) => all.push(run(&program, effort)?),
        None => println!("Go is not installed: there is no client-go to compare with"),
    }
    match kube_rs() {
        Ok(program) => all.push(run(&program, effort)?),
        Err(error) => println!("kube-rs cannot be built, and is not compared with: {error}"),
    }
    Ok(all)
}

fn kube_rs() -> Result<PathBuf> {
    let folder = "bench/peers/kube-rs/target";
    Cargo::new([
        "build",
        "--release",
        "--locked",
        "--manifest-path",
        "bench/peers/kube-rs/Cargo.toml",
        "--target-dir",
        folder,
        "--bin",
        "store",
    ])
    .run()?;
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("release/store"))
}

fn run(program: &Path, effort: &Effort) -> Result<Figures> {
    let output = Command::new(program)
        .arg(serde_json::to_string(effort.pods)?)
        .arg(serde_json::to_string(effort.readers)?)
        .arg(effort.time.as_millis().to_string())
        .arg(effort.events.to_string())
        .arg(effort.rounds.to_string())
        // With it, a fake watch would have to send the initial list itself.
        .env("KUBE_FEATURE_WatchListClient", "false")
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {said}", program.display());
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{} says something else", program.display()))
}
