//! `dogwatch envtest`: our server in the place of the programs that `envtest` of controller-runtime
//! starts.
//!
//! `envtest` finds kube-apiserver and etcd in the folder that `KUBEBUILDER_ASSETS` names. `install`
//! creates such a folder with two links to this program, which looks at the name that it is called
//! by before it parses its command line.
//!
//! ```text
//! go test ─► kube-apiserver --flags… ─► go_flags ─► flag_table ─► kube_apiserver ─► our server
//!        └─► etcd --flags…           ─► go_flags ────────────────► etcd: only GET /health
//! ```

mod flag_table;
mod go_flags;
mod install;
mod program_runtime;
mod kube_apiserver;
mod etcd;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

/// The names by which this program is called as another one.
const PROGRAMS: [&str; 2] = [kube_apiserver::NAME, etcd::NAME];

const NOTES: &str = "\
In the folder of a Go project whose tests use envtest:
  KUBEBUILDER_ASSETS=$(dogwatch envtest install) go test ./...

kube-apiserver is then a `dogwatch serve` that understands the flags of
kube-apiserver 1.36: those without an effect are named on its stderr, and
unknown ones are errors. etcd only answers the health checks of envtest: the
server keeps all objects in memory, and they are lost when it stops.

As with kube-apiserver in envtest, no controllers run: nothing deletes the
dependents of an owner, and namespaces stay Terminating. With the variable
DOGWATCH_CONTROLLERS=1, the controllers of `dogwatch serve` do both.";

/// Run Go test suites that use envtest on dogwatch's API server.
///
/// Test suites of controller-runtime, kubebuilder and Operator SDK start the programs
/// kube-apiserver and etcd through envtest. `install` creates links of these names to dogwatch,
/// which the test suites then start instead.
#[derive(Debug, clap::Args)]
#[command(after_long_help = NOTES)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Create a folder with the links for KUBEBUILDER_ASSETS, and print its path.
    Install {
        /// The folder. Defaults to dogwatch/envtest in the data folder of the user, such as
        /// ~/.local/share.
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

/// Performs the action.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let Action::Install { folder } = &options.action;
    let folder = match folder {
        Some(folder) => folder.clone(),
        None => install::default_folder(|name| std::env::var_os(name).map(PathBuf::from))?,
    };
    let program = std::env::current_exe().context("the path of this program is not known")?;
    let folder = install::install(&folder, &program, &PROGRAMS)?;
    writeln!(io::stdout(), "{}", folder.display()).context("cannot write to stdout")?;
    Ok(ExitCode::SUCCESS)
}

/// Runs as one of the other programs if this one was called by its name.
pub(crate) fn run_as_called() -> Option<ExitCode> {
    let mut words = std::env::args_os();
    let called = words.next()?;
    let name = Path::new(&called).file_stem()?.to_str()?;
    let run = match name {
        kube_apiserver::NAME => kube_apiserver::main,
        etcd::NAME => etcd::main,
        _ => return None,
    };
    // Flags are ASCII, and values that are not UTF-8 can only be paths of files.
    let words = words.map(|it| it.to_string_lossy().into_owned()).collect();
    Some(run(words).unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "Error: {error:#}");
        ExitCode::FAILURE
    }))
}
