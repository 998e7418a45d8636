//! The whole-pipeline test suite against any server: ours, kube-apiserver, or a cloud provider's.
//!
//! The suite is an ordinary test of the facade, and one of the ingress manager. It reads the two
//! variables set here; `cargo test --workspace` does not set them. The output is cargo's own, so
//! that a script can parse its `test result` lines.

use std::path::PathBuf;

use anyhow::{Context, bail};

use processes::cargo::Cargo;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The kubeconfig of the server.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The context to use instead of the current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Arguments for the test program, for example a part of a test's name.
    #[arg(last = true, value_name = "ARGUMENT")]
    rest: Vec<String>,
}

/// Runs the suite. Fails if a test fails, or the kubeconfig does not exist.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    // Tests run in the directory of their crate, so a relative path would not resolve.
    let file = options.kubeconfig.display();
    let kubeconfig =
        options.kubeconfig.canonicalize().with_context(|| format!("cannot find the kubeconfig {file}"))?;
    let Some(kubeconfig) = kubeconfig.to_str() else {
        bail!("the path of the kubeconfig {file} is not UTF-8");
    };
    let fixed = ["test", "--package", "dogwatch", "--features", "dogwatch/derive"];
    let fixed = fixed.into_iter().chain(["--package", "ingress-manager", "--test", "conformance", "--"]);
    let mut cargo = Cargo::new(fixed.chain(options.rest.iter().map(String::as_str)))
        .env("DOGWATCH_CONFORMANCE_KUBECONFIG", kubeconfig);
    if let Some(context) = &options.context {
        cargo = cargo.env("DOGWATCH_CONFORMANCE_CONTEXT", context);
    }
    cargo.run()
}
