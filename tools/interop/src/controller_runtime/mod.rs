//! Go test suites that use envtest, on our server: `cargo xtask controller-runtime --source DIR`.
//!
//! ```text
//! dogwatch envtest install ─► folder ◄── go test PACKAGE, with KUBEBUILDER_ASSETS
//!                               └─ kube-apiserver and etcd: links to dogwatch
//! ```
//!
//! The suites are unchanged, and start the programs in the folder themselves, as often as they do
//! with kube-apiserver and etcd. controller-runtime chooses protobuf for built-in kinds by itself
//! (`pkg/client/apiutil`).
//!
//! Every package of the checkout whose tests start a server through envtest runs, one after the
//! other, and its results are counted. The task fails if a test fails without a reason in
//! [`known_failures`]. With `--compare` each package then runs with kube-apiserver and etcd too,
//! and both times are printed. Packages are compiled before their time is measured.
//!
//! The `mod` lines below are in layer order.

mod known_failures;
mod outcome;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use outcome::Outcome;
use testbed::server::OwnServer;
use tokio::time::Instant;

/// The packages of controller-runtime that start the programs without the package envtest.
const STARTING: [&str; 2] = ["/pkg/envtest", "/pkg/internal/testing/controlplane"];

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A checkout of controller-runtime 0.24, which matches Kubernetes 1.36, or of another module
    /// whose tests use envtest. Requires Go.
    #[arg(long, value_name = "DIR")]
    source: PathBuf,
    #[command(flatten)]
    ours: OwnServer,
    /// Run each package again with the programs kube-apiserver and etcd in this folder, and print
    /// both times.
    #[arg(long, value_name = "DIR")]
    compare: Option<PathBuf>,
    /// Run only the programs of --compare, to distinguish a defect of our server from one of a
    /// suite.
    #[arg(long, requires = "compare")]
    only_compared: bool,
    /// Run only these packages, such as `pkg/client`.
    #[arg(value_name = "PACKAGE")]
    packages: Vec<String>,
}

/// Runs the suites, and fails if a test fails without a known reason.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let source = &options.source;
    let source = source.canonicalize().with_context(|| format!("cannot find {}", source.display()))?;
    let scratch = tempfile::tempdir().context("cannot create a folder for the programs")?;
    let mut assets = Vec::new();
    if !options.only_compared {
        assets.push(("dogwatch", install(&options.ours.binary()?, scratch.path())?));
    }
    if let Some(folder) = &options.compare {
        let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
        assets.push(("kube-apiserver", folder));
    }
    let mut failures = 0;
    let mut totals = vec![Duration::ZERO; assets.len()];
    for package in packages(&source, &options.packages)? {
        let program = compile(&source, &package, scratch.path())?;
        for ((server, folder), total) in assets.iter().zip(&mut totals) {
            let start = Instant::now();
            let outcome = test(&source, &package, &program, folder)?;
            *total += start.elapsed();
            failures += report(&package, server, start.elapsed(), &outcome);
        }
    }
    for ((server, _), total) in assets.iter().zip(totals) {
        println!("all packages on {server}: {:.1} s", total.as_secs_f64());
    }
    ensure!(failures == 0, "{failures} tests failed without a known reason");
    Ok(())
}

/// Creates a folder for `KUBEBUILDER_ASSETS`, as a user does.
fn install(dogwatch: &Path, scratch: &Path) -> Result<PathBuf> {
    let folder = scratch.join("assets");
    let output = Command::new(dogwatch).args(["envtest", "install"]).arg(&folder).output()?;
    ensure!(
        output.status.success(),
        "`dogwatch envtest install` failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// Prints the results of a package. Returns the number of failures without a known reason.
fn report(package: &str, server: &str, time: Duration, outcome: &Outcome) -> usize {
    let (ignored, failed): (Vec<&String>, Vec<&String>) =
        outcome.failed.iter().partition(|it| known_failures::test(package, it).is_some());
    let Outcome { passed, skipped, .. } = outcome;
    println!(
        "{package} on {server}: {passed} passed, {} failed, {} ignored, {skipped} skipped, {:.1} s",
        failed.len(),
        ignored.len(),
        time.as_secs_f64()
    );
    for name in ignored {
        println!("  ignored: {name}: {}", known_failures::test(package, name).unwrap_or_default());
    }
    for name in &failed {
        println!("  FAILED: {name}");
    }
    if outcome.passed == 0 && outcome.failed.is_empty() {
        println!("  FAILED: no test ran:\n{}", outcome.last_lines());
        return 1;
    }
    failed.len()
}

/// Returns the packages whose tests start a server, as paths inside the checkout; or the named
/// ones.
fn packages(source: &Path, named: &[String]) -> Result<Vec<String>> {
    if !named.is_empty() {
        return Ok(named.iter().map(|it| it.trim_start_matches("./").to_owned()).collect());
    }
    let format = "{{.Dir}} {{.ImportPath}} {{join .TestImports \" \"}} {{join .XTestImports \" \"}}";
    let output = go(source)
        .args(["list", "-f", format, "./..."])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start go")?;
    ensure!(output.status.success(), "`go list` failed in {}", source.display());
    let starts = |import: &str| STARTING.iter().any(|it| import.ends_with(it));
    let listed = String::from_utf8(output.stdout)?;
    let starting = listed.lines().filter_map(|line| {
        let (folder, imports) = line.split_once(' ')?;
        let path = Path::new(folder).strip_prefix(source).ok()?.to_str()?;
        imports.split(' ').any(starts).then(|| path.to_owned())
    });
    let packages: Vec<String> = starting.collect();
    if packages.is_empty() {
        bail!("no package in {} starts a server through envtest", source.display());
    }
    Ok(packages)
}

/// Compiles the tests of a package, so that the time of a run is that of the tests alone. Returns
/// the program.
fn compile(source: &Path, package: &str, scratch: &Path) -> Result<PathBuf> {
    let program = scratch.join("compiled.test");
    let status = go(source).args(["test", "-c", "-o"]).arg(&program).arg(format!("./{package}")).status()?;
    ensure!(status.success(), "`go test -c ./{package}` failed in {}", source.display());
    Ok(program)
}

/// Runs the tests of a package as `go test -json` does, with the programs in a folder.
fn test(source: &Path, package: &str, program: &Path, assets: &Path) -> Result<Outcome> {
    let output = go(&source.join(package))
        .args(["tool", "test2json"])
        .arg(program)
        .args(["-test.v=test2json", "-test.timeout=20m"])
        .env("KUBEBUILDER_ASSETS", assets)
        .output()
        .context("cannot start go")?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok(Outcome::read(&stdout, &stderr))
}

fn go(source: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(source).stdin(Stdio::null());
    // They would lead the suites to another server.
    for variable in ["USE_EXISTING_CLUSTER", "KUBECONFIG", "TEST_ASSET_KUBE_APISERVER", "TEST_ASSET_ETCD"] {
        command.env_remove(variable);
    }
    command
}
