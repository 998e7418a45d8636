//! The peers of an informer, as separate programs: client-go if Go is installed
//! (`bench/peers/informer-go`), and the store of kube-rs if it can be built
//! (`bench/peers/kube-rs`).
//!
//! They measure the same operations as our benchmark, in the same run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::settings::BenchSettings;
use processes::cargo::Cargo;
use processes::go;

/// The measurements of a peer.
#[derive(Debug, Deserialize)]
pub(super) struct Figures {
    pub(super) peer: String,
    #[serde(rename = "beside")]
    pub(super) contended: Vec<ContendedRates>,
    /// Empty if the peer has none.
    pub(super) notifications: Vec<Notification>,
    /// Nanoseconds to find 100 of 100,000 objects by a label.
    pub(super) label_ns: f64,
}

/// Reads and writes per second with concurrent readers.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct ContendedRates {
    pub(super) pods: usize,
    pub(super) readers: usize,
    /// Reads of all objects.
    pub(super) reads: f64,
    pub(super) writes: f64,
}

/// CPU time of one notification, by number of handlers.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Notification {
    pub(super) handlers: usize,
    pub(super) ns: f64,
}

/// Builds and runs the peers that are available. Prints those that are not.
pub(super) fn measure(settings: &BenchSettings) -> Result<Vec<Figures>> {
    let mut all = Vec::new();
    match go::build("informer-go")? {
        Some(program) => all.push(run(&program, settings)?),
        None => println!("skipping client-go: Go is not installed"),
    }
    match kube_rs() {
        Ok(program) => all.push(run(&program, settings)?),
        Err(error) => println!("skipping kube-rs, which does not build: {error}"),
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

fn run(program: &Path, settings: &BenchSettings) -> Result<Figures> {
    let output = Command::new(program)
        .arg(serde_json::to_string(settings.pods)?)
        .arg(serde_json::to_string(settings.readers)?)
        .arg(settings.time.as_millis().to_string())
        .arg(settings.events.to_string())
        .arg(settings.rounds.to_string())
        // With WatchListClient, the fake watch would have to send the initial list itself.
        .env("KUBE_FEATURE_WatchListClient", "false")
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {stderr}", program.display());
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("unexpected output of {}", program.display()))
}
