//! Tests of the official Kubernetes conformance suite on our server:
//! `cargo xtask e2e --e2e-binary FILE`.
//!
//! ```text
//! dogwatch serve --simulate ◄────────── e2e.test, tests that need only our controllers
//! dogwatch serve --simulate-nodes ◄──── kube-controller-manager
//!                               ▲────── e2e.test, all selected tests
//! ```
//!
//! [`list`] reads the selected tests from a file. They are those that need no program running in a
//! container; pods that only have to become ready are simulated. With `--kube-controller-manager`,
//! kube-controller-manager runs against our server, and the tests of its controllers run too.
//! Everything is on loopback, and every process that is started here is stopped here.
//!
//! The `mod` lines below are in layer order.

mod list;
mod report;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::encoding::Encoding;
use crate::kube_controller_manager::start_manager;
use list::SelectedTests;
use processes::process::Process;
use report::Report;
use testbed::server::{OwnServer, Server};

/// The interval at which the end of the tests is polled.
const POLL: Duration = Duration::from_millis(200);
/// The timeout of the whole run. Some tests wait for minutes on purpose.
const TIMEOUT: &str = "2h";

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The tests: e2e.test of Kubernetes 1.36, built with `go test -c k8s.io/kubernetes/test/e2e`.
    #[arg(long, value_name = "FILE")]
    e2e_binary: PathBuf,
    /// The encoding for built-in kinds, of the tests and of kube-controller-manager.
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,
    #[command(flatten)]
    ours: OwnServer,
    /// kube-controller-manager, version 1.36. With it, the tests that need it run too.
    #[arg(long, value_name = "FILE")]
    kube_controller_manager: Option<PathBuf>,
    /// The kubectl that a few tests use. Without it they are skipped.
    #[arg(long, value_name = "FILE")]
    kubectl: Option<PathBuf>,
    /// Run only tests whose names contain one of these words.
    #[arg(value_name = "WORDS")]
    only: Vec<String>,
}

/// Runs the tests, and fails if one of them fails.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let binary = canonical(&options.e2e_binary)?;
    let kubectl = options.kubectl.as_deref().map(canonical).transpose()?;
    let manager = options.kube_controller_manager.as_deref().map(canonical).transpose()?;
    let selected = SelectedTests::all()?.with(manager.is_some(), kubectl.is_some()).only(&options.only);
    ensure!(!selected.is_empty(), "no selected test matches");

    let server = match &manager {
        Some(_) => options.ours.start(&["--no-controllers", "--simulate-nodes"]).await?,
        None => options.ours.start(&["--simulate"]).await?,
    };
    let mut manager = manager.map(|it| start_manager(&it, &server, options.encoding)).transpose()?;
    println!("{} is ready for {} tests of the conformance suite", server.name, selected.len());

    let results = server.folder().join("results.json");
    let mut command = tests_command(&binary, &server, &selected, &results);
    command.arg(options.encoding.flag());
    command.args(kubectl.map(|it| format!("--kubectl-path={}", it.display())));
    let mut tests = Process::start("e2e.test", &mut command, server.folder())?;
    while tests.ensure_alive().is_ok() {
        tokio::time::sleep(POLL).await;
    }
    if let Some(manager) = &mut manager {
        manager.ensure_alive()?;
    }
    let Ok(written) = std::fs::read(&results) else {
        tests.ensure_alive()?;
        anyhow::bail!("the tests wrote no results");
    };
    let report = Report::read(&written, &selected)?;
    print!("{report}");
    ensure!(report.is_success(), "some tests did not pass");
    Ok(())
}

fn canonical(program: &Path) -> Result<PathBuf> {
    program.canonicalize().with_context(|| format!("cannot find {}", program.display()))
}

fn tests_command(binary: &Path, server: &Server, selected: &SelectedTests, results: &Path) -> Command {
    let mut command = Command::new(binary);
    command.current_dir(server.folder()).args([
        format!("--kubeconfig={}", server.kubeconfig.display()),
        "--provider=skeleton".to_owned(),
        // -1 disables the wait for ready nodes (k8s.io/kubernetes v1.36.4
        // test/e2e/framework/test_context.go): ours are simulated.
        "--allowed-not-ready-nodes=-1".to_owned(),
        "--dump-logs-on-failure=false".to_owned(),
        format!("--ginkgo.focus={}", selected.pattern()),
        format!("--ginkgo.timeout={TIMEOUT}"),
        format!("--ginkgo.json-report={}", results.display()),
        "--ginkgo.no-color".to_owned(),
    ]);
    command
}
