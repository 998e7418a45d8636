//! Passes the git commit of a checkout to the command, for `--version`.
//!
//! Reads the files of git instead of running it, so that the build needs no git. A package, or a
//! copy of the sources in another repository, has no commit.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(commit) = checkout().and_then(|it| commit(&it)) {
        println!("cargo::rustc-env=DOGWATCH_COMMIT={commit}");
    }
}

/// Returns the git directory of the checkout that this crate is a part of.
fn checkout() -> Option<PathBuf> {
    let crate_root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?);
    let root = crate_root.parent()?.parent()?;
    // Otherwise the repository two levels up is another one, for example one with vendored crates.
    if crate_root != root.join("crates/cli") {
        return None;
    }
    let entry = root.join(".git");
    if entry.is_dir() {
        return Some(entry);
    }
    // In a linked worktree, `.git` is a file with the path of the git directory.
    let link = fs::read_to_string(entry).ok()?;
    Some(root.join(link.strip_prefix("gitdir:")?.trim()))
}

/// Returns the commit of `HEAD`, and lets Cargo run this again when it changes.
fn commit(git: &Path) -> Option<String> {
    let common = match fs::read_to_string(git.join("commondir")) {
        Ok(relative) => git.join(relative.trim()),
        Err(_) => git.to_owned(),
    };
    let head = read(&git.join("HEAD"))?;
    // Every commit and checkout adds a line, also if the branch is in `packed-refs`.
    watch(&git.join("logs/HEAD"));
    let commit = match head.trim().strip_prefix("ref: ") {
        None => head.trim().to_owned(),
        Some(branch) => match read(&common.join(branch)) {
            Some(commit) => commit.trim().to_owned(),
            None => packed(&read(&common.join("packed-refs"))?, branch)?,
        },
    };
    let is_id = commit.len() >= 40 && commit.bytes().all(|it| it.is_ascii_hexdigit());
    is_id.then_some(commit)
}

/// Returns the commit of a branch in `packed-refs`, whose lines are `COMMIT NAME`.
fn packed(refs: &str, branch: &str) -> Option<String> {
    let mut pairs = refs.lines().filter_map(|it| it.split_once(' '));
    pairs.find(|(_, name)| *name == branch).map(|(commit, _)| commit.to_owned())
}

fn read(file: &Path) -> Option<String> {
    watch(file);
    fs::read_to_string(file).ok()
}

/// Lets Cargo watch a file. It would run this on every build if the file did not exist.
fn watch(file: &Path) {
    if file.exists() {
        println!("cargo::rerun-if-changed={}", file.display());
    }
}
