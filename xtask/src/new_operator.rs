//! A new operator, as `dogwatch new` writes it, built and tested in a folder of its own: it has to
//! be formatted, to build without a warning, and to pass its test.
//!
//! The build shares the target directory, `Cargo.lock` and the profile of this repository, so that
//! most crates of other people are there already.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use processes::cargo::{Cargo, target_folder};

/// Neither name is the default, so that a template cannot have it by accident.
const NAME: &str = "buoy-operator";
const GROUP: &str = "sea.example";

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The `dogwatch` program that writes the project. Defaults to the one of this checkout, built
    /// now.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// Writes, builds and tests an operator. Fails if one of these does, or if there is a warning.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let project = folder.path().join(NAME);
    write(options, &project)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).context("cannot copy Cargo.lock")?;

    let mut format = cargo(&project)?;
    succeeds(format.args(["fmt", "--check"]))?;
    let mut build = cargo(&project)?;
    has_no_warning(build.arg("test").args(PROFILE).arg("--no-run"))?;
    let mut test = cargo(&project)?;
    succeeds(test.arg("test").args(PROFILE))
}

/// The profile of this repository: with another one, every crate would be built once more.
const PROFILE: [&str; 4] =
    ["--config", "profile.dev.debug='line-tables-only'", "--config", "profile.dev.package.'*'.debug=false"];

fn write(options: &Options, project: &Path) -> anyhow::Result<()> {
    let project = project.to_str().context("the temporary folder has no name in UTF-8")?;
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let arguments = ["new", NAME, "--group", GROUP, "--path", project, "--dogwatch", root];
    match &options.binary {
        Some(binary) => succeeds(Command::new(binary).args(arguments)),
        None => {
            let fixed = ["run", "--quiet", "--package", "dogwatch-cli", "--"];
            Cargo::new(fixed.into_iter().chain(arguments)).run()
        }
    }
}

/// Returns a cargo command in the project, with the target directory of this repository.
fn cargo(project: &Path) -> anyhow::Result<Command> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(project).env("CARGO_TARGET_DIR", target_folder()?);
    Ok(command)
}

fn succeeds(command: &mut Command) -> anyhow::Result<()> {
    eprintln!("$ {command:?}");
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}

/// Runs a build and looks for warnings in what it prints. `-D warnings` in RUSTFLAGS would build
/// every dependency once more.
fn has_no_warning(command: &mut Command) -> anyhow::Result<()> {
    eprintln!("$ {command:?}");
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let printed = String::from_utf8_lossy(&output.stderr);
    eprint!("{printed}");
    ensure!(output.status.success(), "{command:?} failed");
    if printed.lines().any(|it| it.starts_with("warning")) {
        bail!("the new operator has warnings");
    }
    Ok(())
}
