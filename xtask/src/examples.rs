//! Runs the examples against a stand-in server, so that none rots: each is a program, not a listing.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, bail, ensure};

use crate::cargo::{self, Cargo};
use crate::standin;

/// How an example is started without a cluster, and a line it must print.
struct Run {
    example: &'static str,
    arguments: &'static [&'static str],
    prints: &'static str,
}

const RUNS: &[Run] = &[
    Run { example: "01_list_pods", arguments: &[], prints: "2 pods at version 100" },
    Run { example: "02_watch_pods", arguments: &["--events", "3"], prints: "DELETED  default/web-2" },
    Run {
        example: "03_apply_configmap",
        arguments: &["greeting", "hello=world"],
        prints: "applied greeting at version 101",
    },
    Run { example: "04_discover_resources", arguments: &[], prints: "deployments.apps" },
    Run {
        example: "04_discover_resources",
        arguments: &["deploy", "po"],
        prints: "  2 objects at version 100",
    },
    Run {
        example: "05_test_with_a_fork",
        arguments: &[],
        prints: "expires: true, (lists, names): (2, {\"first\", \"last\"})",
    },
];

/// Runs every example of every crate, one after the other, and stops at the first that fails or says nothing of what it
/// should. An example that is in no row of the table is a failure too.
pub(crate) fn run() -> anyhow::Result<()> {
    let (address, _guard) = standin::start()?;
    let kubeconfig = kubeconfig(address)?;
    let mut count = 0;
    for package in cargo::packages()? {
        for example in &package.examples {
            let runs: Vec<_> = RUNS.iter().filter(|it| it.example == example).collect();
            ensure!(
                !runs.is_empty(),
                "xtask/src/examples.rs does not say how to run the example `{example}`"
            );
            for run in runs {
                run.check(&package.name, kubeconfig.path())?;
                count += 1;
            }
        }
    }
    eprintln!("{count} runs of examples");
    Ok(())
}

impl Run {
    fn check(&self, package: &str, kubeconfig: &Path) -> anyhow::Result<()> {
        let fixed = ["run", "--quiet", "--package", package, "--example", self.example, "--"];
        let kubeconfig = kubeconfig.to_str().context("the path of the temporary kubeconfig is not UTF-8")?;
        let cargo =
            Cargo::new(fixed.into_iter().chain(self.arguments.iter().copied())).env("KUBECONFIG", kubeconfig);
        let printed = cargo.output().with_context(|| format!("the example `{}` fails", self.example))?;
        let printed = String::from_utf8_lossy(&printed);
        if !printed.contains(self.prints) {
            bail!("the example `{}` does not print {:?}, but:\n{printed}", self.example, self.prints);
        }
        Ok(())
    }
}

/// A kubeconfig that leads to the stand-in server; it goes with the handle.
fn kubeconfig(address: SocketAddr) -> anyhow::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new().context("cannot make a temporary kubeconfig")?;
    write!(
        file,
        "apiVersion: v1\nkind: Config\ncurrent-context: standin\n\
         clusters: [{{name: standin, cluster: {{server: \"http://{address}\"}}}}]\n\
         users: []\ncontexts: [{{name: standin, context: {{cluster: standin}}}}]\n"
    )
    .context("cannot write the temporary kubeconfig")?;
    Ok(file)
}
