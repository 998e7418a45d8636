//! `dogwatch new`: writes the project of a small operator.
//!
//! ```text
//! arguments ─► names, dependency ─► templates ─► files in a new folder
//! ```
//!
//! Nothing is built or downloaded. `cargo xtask new-operator` builds such a project and runs its
//! tests.

mod error;
mod names;
mod dependency;
mod template;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;

pub(crate) use error::NewError;
use names::Names;
use template::{File, RUST_ROOTS};

const EXAMPLES: &str = "\
Examples:
  An operator for Website.example.com, in ./website-operator:
    dogwatch new website-operator --dogwatch ../dogwatch

  With another group and kind, in another folder:
    dogwatch new shop --group shop.example.com --kind WebShop \\
      --path ../shop --dogwatch ../dogwatch

  On a git repository of dogwatch instead of a checkout:
    dogwatch new website-operator --dogwatch https://example.com/dogwatch.git

A checkout is named in Cargo.toml by its absolute path: commit a git URL
instead.";

/// Write the project of a small operator, with a test and manifests.
///
/// The operator has a custom resource and a controller. Each object of the kind gets a Deployment
/// that it owns, with a status, Events and a clean-up by a finalizer. The test runs the operator on
/// an API server in its own process, with the permissions of the manifests.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// The name of the operator, for example website-operator. Its package, its image and its
    /// namespace have this name too.
    name: String,
    /// The folder for the project: a new one, or an empty one. Defaults to ./NAME.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// The API group of the custom resource, a domain.
    #[arg(long, default_value = "example.com")]
    group: String,
    /// The kind of the custom resource. Defaults to the name without -operator, here Website.
    #[arg(long)]
    kind: Option<String>,
    /// The plural name of the resource. Defaults to the regular English plural, here websites.
    #[arg(long)]
    plural: Option<String>,
    /// The dogwatch to depend on: a checkout, or a git URL. Required until there is a release.
    #[arg(long, value_name = "PATH-OR-GIT")]
    dogwatch: Option<String>,
}

/// Writes the project, and prints what to type next.
///
/// # Errors
/// If an argument is invalid, or a file cannot be written. Nothing is written in the first case.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let names = Names::new(&options.name, options.kind.as_deref(), &options.group)?;
    let names = match &options.plural {
        Some(plural) => names.with_plural(plural)?,
        None => names,
    };
    let folder = options.path.clone().unwrap_or_else(|| PathBuf::from(&options.name));
    if !is_free(&folder) {
        return Err(NewError::Occupied { path: folder }.into());
    }
    let dogwatch = dependency::entry(options.dogwatch.as_deref())?;
    let files = template::files(&names, &dogwatch);
    write_all(&folder, &files)?;
    format_sources(&folder);
    let mut out = io::stdout().lock();
    out.write_all(summary(&names, &folder, &files).as_bytes())?;
    if dogwatch.starts_with("path") {
        writeln!(
            out,
            "Cargo.toml has the path of the checkout: replace it before others build the operator."
        )?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Returns true if there is nothing at this path, or an empty folder.
fn is_free(folder: &Path) -> bool {
    match folder.read_dir() {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn write_all(folder: &Path, files: &[File]) -> anyhow::Result<()> {
    for file in files {
        let path = folder.join(file.path);
        let parent = path.parent().unwrap_or(folder);
        let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, &file.text));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Formats the sources with rustfmt, if there is one, as `cargo new` does: the place of some line
/// breaks depends on the length of the kind.
fn format_sources(folder: &Path) {
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024"]).args(RUST_ROOTS).current_dir(folder);
    let _ = rustfmt.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Returns the text with the files and the next steps.
fn summary(names: &Names, folder: &Path, files: &[File]) -> String {
    let shown = folder.display();
    let listed: String = files.iter().map(|it| format!("  {}\n", it.path)).collect();
    format!(
        "wrote {name}, an operator for {kind} ({plural}.{group}), to {shown}:\n\
         {listed}\n\
         next:\n\
         \x20 cd {shown}\n\
         \x20 cargo test            # with an API server in the process: needs no cluster\n\
         \x20 $EDITOR src/resource.rs src/controller.rs\n\n\
         README.md shows how to run it on your machine and in a cluster.\n",
        name = names.name,
        kind = names.kind,
        plural = names.plural(),
        group = names.group,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_or_empty_folder_is_free_and_a_file_or_a_full_folder_is_not() {
        let folder = tempfile::tempdir().unwrap();
        assert!(is_free(folder.path()));
        assert!(is_free(&folder.path().join("new/folder")));
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(!is_free(folder.path()));
        assert!(!is_free(&file));
    }

    #[test]
    fn the_summary_names_every_file_and_the_next_step() {
        let names = Names::new("buoy-operator", None, "sea.example").unwrap();
        let files = template::files(&names, "git = \"https://example.com/dogwatch.git\"");
        let summary = summary(&names, Path::new("b"), &files);
        assert!(
            summary.starts_with("wrote buoy-operator, an operator for Buoy (buoys.sea.example), to b:\n")
        );
        assert!(files.iter().all(|it| summary.contains(&format!("  {}\n", it.path))), "{summary}");
        assert!(summary.contains("\n  cd b\n  cargo test "), "{summary}");
    }
}
