//! controller-runtime's test suites on our server: `cargo xtask controller-runtime --source DIR`.
//!
//! ```text
//! dogwatch serve ◄── go test PACKAGE, with USE_EXISTING_CLUSTER and KUBECONFIG
//!  (a new one for each package, as envtest starts one for each)
//! ```
//!
//! controller-runtime itself chooses protobuf for built-in kinds (`pkg/client/apiutil`).
//!
//! Every package of the checkout whose tests start a server through envtest runs, one after the
//! other, and its results are counted. The task fails if a test fails without a reason in
//! [`known_failures`]. With `--kube-apiserver-bin` the suites run on kube-apiserver, to distinguish
//! a defect of our server from one of a suite.
//!
//! The `mod` lines below are in layer order.

mod known_failures;
mod outcome;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use outcome::Outcome;
use testbed::server::{self, OwnServer};

/// The Go module of the suites.
const MODULE: &str = "sigs.k8s.io/controller-runtime";

/// Specs that create the same objects and leave them behind: each gets a server of its own.
const ISOLATED_SPECS: [(&str, [&str; 2]); 1] =
    [("pkg/manager/internal/integration", ["controller warmup enabled", "controller warmup not enabled"])];

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A checkout of controller-runtime 0.24, which matches Kubernetes 1.36. Requires Go.
    #[arg(long, value_name = "DIR")]
    source: PathBuf,
    #[command(flatten)]
    ours: OwnServer,
    /// Test kube-apiserver instead of our server: a directory with kube-apiserver and etcd.
    #[arg(long, value_name = "DIR")]
    kube_apiserver_bin: Option<PathBuf>,
    /// Run only these packages, such as `pkg/client`.
    #[arg(value_name = "PACKAGE")]
    packages: Vec<String>,
}

/// Runs the suites, and fails if a test fails without a known reason.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let source = &options.source;
    let source = source.canonicalize().with_context(|| format!("cannot find {}", source.display()))?;
    let mut failures = 0;
    for package in packages(&source, &options.packages)? {
        if let Some(why) = known_failures::package(&package) {
            println!("{package}: skipped: {why}");
            continue;
        }
        let isolated = ISOLATED_SPECS.iter().find(|(it, _)| *it == package);
        for focus in isolated.map_or(&[""] as &[&str], |(_, specs)| specs.as_slice()) {
            let server = match &options.kube_apiserver_bin {
                Some(binaries) => server::start_kube_apiserver(binaries).await?,
                None => options.ours.start(&[]).await?,
            };
            let outcome = test(&source, &package, focus, &server.kubeconfig)?;
            failures += report(&package, &outcome);
        }
    }
    ensure!(failures == 0, "{failures} tests failed without a known reason");
    Ok(())
}

/// Prints the results of a package. Returns the number of failures without a known reason.
fn report(package: &str, outcome: &Outcome) -> usize {
    let (ignored, failed): (Vec<&String>, Vec<&String>) =
        outcome.failed.iter().partition(|it| known_failures::test(package, it).is_some());
    let Outcome { passed, skipped, .. } = outcome;
    println!(
        "{package}: {passed} passed, {} failed, {} ignored, {skipped} skipped",
        failed.len(),
        ignored.len()
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
    let format = "{{.ImportPath}} {{join .TestImports \" \"}} {{join .XTestImports \" \"}}";
    let output = go(source)
        .args(["list", "-f", format, "./pkg/..."])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start go")?;
    ensure!(output.status.success(), "`go list` failed in {}", source.display());
    let envtest = format!("{MODULE}/pkg/envtest");
    let listed = String::from_utf8(output.stdout)?;
    let starting = listed.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let package = words.next()?;
        let starts = package == envtest || words.any(|it| it == envtest);
        let path = package.strip_prefix(MODULE)?.trim_start_matches('/');
        // Skipped packages are included, so that the output says why they did not run.
        (starts || known_failures::package(path).is_some()).then(|| path.to_owned())
    });
    let packages: Vec<String> = starting.collect();
    if packages.is_empty() {
        bail!("no package in {} starts a server through envtest", source.display());
    }
    Ok(packages)
}

/// Tests a package, or only those of its specs whose names contain `focus`.
fn test(source: &Path, package: &str, focus: &str, kubeconfig: &Path) -> Result<Outcome> {
    let mut command = go(source);
    command.args(["test", "-json", "-count=1", "-p=1", "-timeout=20m", &format!("./{package}")]);
    if !focus.is_empty() {
        command.args(["-args", &format!("-ginkgo.focus={focus}")]);
    }
    let output = command
        .env("USE_EXISTING_CLUSTER", "true")
        .env("KUBECONFIG", kubeconfig)
        .output()
        .context("cannot start go")?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok(Outcome::read(&stdout, &stderr))
}

fn go(source: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(source).stdin(Stdio::null());
    command
}
