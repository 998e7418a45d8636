//! The suites of this repository through `dogwatch proxy`, which caches every resource of the
//! server behind it: `cargo xtask proxied`.
//!
//! ```text
//! scenarios   ─┐
//! kubectl     ─┤                ┌── answers from memory
//! conformance ─┼──► dogwatch proxy ──► our server, or the one of a kubeconfig
//! follow      ─┘
//! ```
//!
//! A suite does not know that there is a proxy: what passes on the server passes through the proxy.
//! Each suite has a proxy of its own, which must have answered reads from memory.
//!
//! The `mod` lines below are in layer order.

mod relay;
mod proxied_server;
mod cuts;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use dogwatch::Config;
use dogwatch::config::Overrides;
use processes::cargo::Cargo;
use testbed::connector::{Connector, token_of};
use testbed::server::{OwnServer, Server};

use crate::follow::{self, Faults};
use crate::kubectl;
use cuts::Cuts;
use proxied_server::{Counts, ProxiedServer};
use relay::Relay;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The suites to run. All of them by default.
    #[arg(value_name = "SUITE", value_enum)]
    suites: Vec<Suite>,
    #[command(flatten)]
    ours: OwnServer,
    /// Use the server of this kubeconfig, whose user has a bearer token and may do everything. It
    /// must be for tests only. The conformance suite also needs a user with a client certificate.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The server of --kubeconfig authorizes requests by roles: replay the scenarios about these.
    #[arg(long, requires = "kubeconfig")]
    rbac: bool,
    /// Run the suites on the server itself, to see which failures are not due to the proxy.
    #[arg(long)]
    direct: bool,
    /// The kubectl to use, 1.36.
    #[arg(long, value_name = "FILE", default_value = "kubectl")]
    kubectl: PathBuf,
    /// Write the log of each proxy, with every request, to this directory.
    #[arg(long, value_name = "DIRECTORY")]
    logs: Option<PathBuf>,
    #[command(flatten)]
    load: follow::Load,
}

/// Requests whose outcome is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Suite {
    /// The requests recorded from kube-apiserver.
    Scenarios,
    /// The recorded session of kubectl.
    Kubectl,
    /// The test suite of our client.
    Conformance,
    /// kube-rs, client-go and our client, while connections are cut and history expires.
    Follow,
}

/// A server to run a suite on.
#[derive(Debug)]
struct Upstream {
    kubeconfig: PathBuf,
    connector: Connector,
    /// The process, if it is our own.
    own: Option<Server>,
}

/// Runs the suites, prints what each asked of its proxy, and fails if one failed or if nothing was
/// answered from memory.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let all = [Suite::Scenarios, Suite::Kubectl, Suite::Conformance, Suite::Follow];
    let suites = if options.suites.is_empty() { &all[..] } else { &options.suites };
    ensure!(
        !(options.direct && options.suites.contains(&Suite::Follow)),
        "the followers of a server without a proxy are `cargo xtask follow`"
    );
    if let Some(logs) = &options.logs {
        std::fs::create_dir_all(logs).with_context(|| format!("cannot create {}", logs.display()))?;
    }
    let binary = options.ours.binary()?;
    let mut lines = Vec::new();
    let mut failed = 0;
    for suite in suites.iter().filter(|it| !(options.direct && **it == Suite::Follow)) {
        println!("=== {suite:?}");
        let outcome = suite.run(options, &binary).await;
        failed += usize::from(outcome.is_err());
        lines.push(match outcome {
            Ok(None) => format!("{:12} passed, without a proxy", format!("{suite:?}")),
            Ok(Some(Counts { cached, forwarded, reviews })) => format!(
                "{:12} passed: {cached} reads answered from memory, {forwarded} requests passed on, {reviews} \
                 reviews",
                format!("{suite:?}")
            ),
            Err(error) => format!("{:12} FAILED: {error:#}", format!("{suite:?}")),
        });
    }
    println!("===\n{}", lines.join("\n"));
    ensure!(failed == 0, "{failed} of {} suites failed", lines.len());
    Ok(())
}

impl Suite {
    /// Runs the suite, and returns the counts of its proxy.
    async fn run(self, options: &Options, binary: &Path) -> Result<Option<Counts>> {
        let upstream = Upstream::new(options, self).await?;
        if options.direct {
            self.run_on(options, &upstream.kubeconfig)?;
            return Ok(None);
        }
        let back = Relay::to(upstream.connector.authority().to_owned()).await?;
        let relay = (self == Self::Follow).then_some(&back);
        let logs = options.logs.as_deref();
        let mut proxied = ProxiedServer::start(binary, &upstream.kubeconfig, relay, logs).await?;
        println!("the proxy caches {} resources", proxied.resources());
        if self == Self::Follow {
            follow_through(&options.load, &upstream, &mut proxied, &back).await?;
        } else {
            self.run_on(options, &proxied.kubeconfig)?;
        }
        let counts = proxied.counts().await?;
        ensure!(counts.cached > 0, "the proxy answered nothing from memory");
        Ok(Some(counts))
    }

    /// Runs a suite that needs no more than a server.
    fn run_on(self, options: &Options, kubeconfig: &Path) -> Result<()> {
        match self {
            Self::Scenarios => scenarios(kubeconfig, options.rbac),
            Self::Kubectl => kubectl::compare(&options.kubectl, kubeconfig),
            Self::Conformance => {
                let path = kubeconfig.display().to_string();
                let task = ["run", "--quiet", "--package", "xtask", "--", "conformance", "--kubeconfig"];
                Cargo::new(task.into_iter().chain([path.as_str()])).run()
            }
            // It disturbs the connections of a proxy.
            Self::Follow => Ok(()),
        }
    }

    /// Returns the arguments of our own server.
    fn server_arguments(self) -> &'static [&'static str] {
        match self {
            // As the server of the recording, which ran without controllers.
            Self::Scenarios => &["--no-controllers"],
            Self::Kubectl | Self::Conformance => &[],
            Self::Follow => &["--admin"],
        }
    }
}

impl Upstream {
    async fn new(options: &Options, suite: Suite) -> Result<Self> {
        let own = match &options.kubeconfig {
            Some(_) => None,
            None => Some(options.ours.start(suite.server_arguments()).await?),
        };
        let kubeconfig = own.as_ref().map(|it| &it.kubeconfig).or(options.kubeconfig.as_ref());
        let kubeconfig = kubeconfig.context("there is no server")?;
        let kubeconfig =
            kubeconfig.canonicalize().with_context(|| format!("cannot find {}", kubeconfig.display()))?;
        let connector =
            Connector::from_config(&Config::from_kubeconfig(&kubeconfig, &Overrides::default())?)?;
        Ok(Self { kubeconfig, connector, own })
    }
}

/// Replays the recorded scenarios on the server of this kubeconfig.
fn scenarios(kubeconfig: &Path, rbac: bool) -> Result<()> {
    let config = Config::from_kubeconfig(kubeconfig, &Overrides::default())?;
    let token = token_of(&config)?;
    // A fresh server is without the objects of other scenarios, which run at the same time.
    for filter in [&["fresh_"][..], &["--skip", "fresh_"]] {
        let test = ["test", "--package", "dogwatch-apiserver", "--test", "oracle", "--"];
        let cargo = Cargo::new(test.into_iter().chain(filter.iter().copied()))
            .env("DOGWATCH_ORACLE_SERVER", config.server.as_str())
            .secret_env("DOGWATCH_ORACLE_TOKEN", &token);
        let cargo = if rbac { cargo.env("DOGWATCH_ORACLE_AUTHORIZATION", "RBAC") } else { cargo };
        cargo.run()?;
    }
    Ok(())
}

/// Runs the followers on the proxy, and disturbs both of its sides.
async fn follow_through(
    load: &follow::Load,
    upstream: &Upstream,
    proxied: &mut ProxiedServer,
    back: &Relay,
) -> Result<()> {
    let front = Relay::to(proxied.authority()).await?;
    let followed = proxied.kubeconfig_through(&front)?;
    let written = Connector::from_config(&Config::from_kubeconfig(&followed, &Overrides::default())?)?;
    let logs = proxied.folder().to_owned();
    let servers =
        follow::Servers { stored: &upstream.connector, written: &written, followed: &followed, logs: &logs };
    let disturb = async {
        let faults = match &upstream.own {
            Some(_) => Some(Faults::begin(&upstream.connector).await?),
            None => None,
        };
        Ok(Cuts { front: &front, back, proxied, faults, replaced: 0 })
    };
    follow::follow(load, &servers, disturb).await
}
