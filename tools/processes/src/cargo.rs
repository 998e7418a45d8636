//! Runs cargo: the same one that runs us, at the root of the repository, with its command line
//! printed first.
//!
//! Every task uses it. It knows nothing about the tasks.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

/// A cargo command to run.
#[derive(Debug)]
pub struct Cargo {
    command: Command,
    shown: String,
}

impl Cargo {
    /// Creates the command `cargo ARGUMENTS…`. It inherits our standard output and error.
    pub fn new<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        let mut shown = String::from("cargo");
        for argument in arguments {
            command.arg(argument);
            shown.push(' ');
            shown.push_str(argument);
        }
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
        Self { command, shown }
    }

    /// Sets an environment variable for this command only. It is printed in front of the command.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self.shown = format!("{name}={value:?} {}", self.shown);
        self
    }

    /// Sets an environment variable for this command only, and prints its name without the value.
    #[must_use]
    pub fn secret_env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self.shown = format!("{name}=… {}", self.shown);
        self
    }

    /// Prints the command and runs it.
    ///
    /// # Errors
    /// If it cannot be started, or fails.
    pub fn run(mut self) -> anyhow::Result<()> {
        eprintln!("$ {}", self.shown);
        let status = self.command.status().with_context(|| format!("cannot start `{}`", self.shown))?;
        if !status.success() {
            bail!("`{}` failed", self.shown);
        }
        Ok(())
    }

    /// Runs the command without printing it, and returns its output.
    ///
    /// # Errors
    /// If it cannot be started, or fails. The error contains its standard error.
    pub fn output(mut self) -> anyhow::Result<Vec<u8>> {
        let output = self.command.output().with_context(|| format!("cannot start `{}`", self.shown))?;
        if !output.status.success() {
            bail!("`{}` failed: {}", self.shown, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(output.stdout)
    }
}

/// Runs this program again with the same arguments, built in release mode. `package` is its name.
///
/// # Errors
/// If it does not build, or fails.
pub fn in_release(package: &str) -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let fixed = ["run", "--quiet", "--release", "--package", package, "--"];
    Cargo::new(fixed.into_iter().chain(arguments.iter().map(String::as_str))).run()
}

/// One crate of the workspace, as its manifest describes it.
#[derive(Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its features without `default`, ordered by name.
    pub features: Vec<String>,
    /// Its examples, ordered by name.
    pub examples: Vec<String>,
    /// True if registries may have it.
    pub is_published: bool,
}

/// Returns the crates of the workspace.
pub fn packages() -> anyhow::Result<Vec<Package>> {
    Ok(read(&metadata()?))
}

/// Returns cargo's target directory.
pub fn target_folder() -> anyhow::Result<PathBuf> {
    let metadata = metadata()?;
    let folder = metadata["target_directory"].as_str().context("`cargo metadata` has no target directory")?;
    Ok(PathBuf::from(folder))
}

fn metadata() -> anyhow::Result<Value> {
    let output = Cargo::new(["metadata", "--no-deps", "--format-version", "1"]).output()?;
    serde_json::from_slice(&output).context("`cargo metadata` did not print JSON")
}

fn read(metadata: &Value) -> Vec<Package> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let package = |package: &Value| {
        let features = package["features"].as_object();
        let targets = list(&package["targets"]);
        let mut examples: Vec<String> = targets
            .iter()
            .filter(|it| list(&it["kind"]).iter().any(|kind| kind == "example"))
            .map(|it| text(&it["name"]))
            .collect();
        examples.sort();
        Package {
            name: text(&package["name"]),
            features: features
                .into_iter()
                .flat_map(|it| it.keys())
                .filter(|it| *it != "default")
                .cloned()
                .collect(),
            examples,
            is_published: !package["publish"].as_array().is_some_and(Vec::is_empty),
        }
    };
    list(&metadata["packages"]).iter().map(package).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn features_exclude_default_and_examples_exclude_other_targets() {
        let metadata = json!({ "packages": [{
            "name": "p",
            "publish": [],
            "features": { "default": ["b"], "b": [], "a": ["dep:x"] },
            "targets": [
                { "name": "z", "kind": ["example"] },
                { "name": "p", "kind": ["lib"] },
                { "name": "y", "kind": ["example"] },
            ],
        }]});
        let names = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let (features, examples) = (names(&["a", "b"]), names(&["y", "z"]));
        let expected = Package { name: "p".into(), features, examples, is_published: false };
        assert_eq!(read(&metadata), [expected]);
    }

    #[test]
    fn variables_are_printed_in_front_of_the_command() {
        let cargo = Cargo::new(["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(cargo.shown, "RUSTDOCFLAGS=\"-D warnings\" cargo doc --no-deps");
    }

    #[test]
    fn a_secret_variable_is_printed_without_its_value() {
        let cargo = Cargo::new(["test"]).secret_env("TOKEN", "hush");
        assert_eq!(cargo.shown, "TOKEN=… cargo test");
        assert!(!cargo.shown.contains("hush"));
    }

    #[test]
    fn this_workspace_has_its_facade() {
        assert!(packages().unwrap().iter().any(|it| it.name == "dogwatch"));
    }
}
