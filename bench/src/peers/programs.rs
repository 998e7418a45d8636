//! The contenders that are programs: this one itself, and the peers below `bench/` that can be
//! built here.
//!
//! Every program in Rust is built twice: the second one counts its allocations, which would distort
//! times. Both are copied, because cargo puts them in the same place.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use processes::cargo::{Cargo, target_folder};
use processes::go;

use super::names::{CLIENT_GO, KUBE_RS};
use super::own::OWN;

/// A program that keeps a cache of pods.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) path: PathBuf,
    /// The program that measures the heap.
    pub(super) heap_path: PathBuf,
    /// The arguments before those that all contenders get.
    pub(super) arguments: Vec<String>,
}

/// Returns the programs that can be built, and prints those that cannot. They are put into
/// `folder`.
///
/// # Errors
/// If this program or a peer in Go does not build.
pub(super) fn find(folder: &Path, alone: bool) -> Result<Vec<Program>> {
    // First of all: a build replaces the file.
    let itself = std::env::current_exe().context("cannot find the path of this program")?;
    let own = copy(&itself, folder, "bench")?;
    let mut programs = Vec::new();
    if !alone {
        programs.extend(client_go()?);
        match kube_rs(folder) {
            Ok(program) => programs.push(program),
            Err(error) => println!("skipping kube-rs, which does not build: {error}"),
        }
    }
    Cargo::new(["build", "--quiet", "--release", "--package", "bench", "--features", "heap"]).run()?;
    let own_heap = copy(&target_folder()?.join("release/bench"), folder, "bench-heap")?;
    programs.extend(OWN.iter().map(|it| Program {
        name: it.name,
        path: own.clone(),
        heap_path: own_heap.clone(),
        arguments: ["peers", "contend", it.name].map(str::to_owned).to_vec(),
    }));
    Ok(programs)
}

fn client_go() -> Result<Option<Program>> {
    let Some(path) = go::build("client-go")? else {
        println!("skipping client-go: Go is not installed");
        return Ok(None);
    };
    // Go reports its heap without another allocator.
    let (heap_path, arguments) = (path.clone(), vec!["sync".to_owned()]);
    Ok(Some(Program { name: CLIENT_GO, path, heap_path, arguments }))
}

fn kube_rs(folder: &Path) -> Result<Program> {
    let target = "bench/peers/kube-rs/target";
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(target).join("release/sync");
    let manifest = "bench/peers/kube-rs/Cargo.toml";
    let fixed = ["build", "--quiet", "--release", "--locked", "--manifest-path", manifest];
    let fixed = fixed.into_iter().chain(["--target-dir", target, "--bin", "sync"]);
    Cargo::new(fixed.clone()).run()?;
    let path = copy(&built, folder, "kube-rs")?;
    Cargo::new(fixed.chain(["--features", "heap"])).run()?;
    let heap_path = copy(&built, folder, "kube-rs-heap")?;
    Ok(Program { name: KUBE_RS, path, heap_path, arguments: Vec::new() })
}

fn copy(from: &Path, folder: &Path, name: &str) -> Result<PathBuf> {
    let to = folder.join(name);
    std::fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(to)
}
