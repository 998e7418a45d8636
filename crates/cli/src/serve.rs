//! `dogwatch serve`: the API server as a process.
//!
//! Scripts rely on one line on stdout, `ready <url>`, printed when the server answers and the kubeconfig is written.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::controllers::Controllers;
use dogwatch_apiserver::simulators::Simulators;
use secrecy::SecretString;

use crate::connection::secret;
use crate::ending;

const EXAMPLES: &str = "\
Everything is in memory and gone when the server ends. On stdout it prints one line, `ready URL`, when it serves; Ctrl-C
and SIGTERM end it.

Without a token, whoever reaches the server is its administrator; it listens on this machine only. With --token or
--tls, requests without credentials get 401.

Examples:
  Try it with kubectl, in two terminals:
    dogwatch serve --bind 127.0.0.1:8080
    kubectl --server http://127.0.0.1:8080 create deployment web --image nginx

  With TLS and a kubeconfig, as a real cluster has them:
    dogwatch serve --tls --kubeconfig-out dogwatch.kubeconfig
    kubectl --kubeconfig dogwatch.kubeconfig get namespaces

  In a script that waits until it serves:
    dogwatch serve | while read -r ready url; do kubectl --server \"$url\" get namespaces; done

  With workloads that come to life, although nothing runs them:
    dogwatch serve --simulate

kubectl sends tokens over TLS only: combine --token with --tls if kubectl is to use it.";

/// How long it can be listed how things were: as long as the original keeps it.
const HISTORY: Duration = Duration::from_secs(5 * 60);

#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// The address to listen on; port 0 is any that is free. Beyond this machine it takes --tls and --token.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    bind: SocketAddr,
    /// Write a kubeconfig for the server into this file, which only its owner can read.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// A bearer token of the administrator; with --tls and without this, one is made up for the kubeconfig.
    #[arg(long, value_parser = not_empty)]
    token: Option<SecretString>,
    /// Serve HTTPS, with certificates made for this run; clients may log in by certificate.
    #[arg(long, conflicts_with = "plain")]
    tls: bool,
    /// Serve HTTP. This is the default.
    #[arg(long)]
    plain: bool,
    /// Leave namespaces and garbage to controllers of your own.
    #[arg(long)]
    no_controllers: bool,
    /// Let workloads come to life: deployments get pods, pods become ready, services get endpoints.
    #[arg(long)]
    simulate: bool,
    /// Let pods come to life on simulated nodes, and leave what makes pods to controllers of your own.
    #[arg(long, conflicts_with = "simulate")]
    simulate_nodes: bool,
    /// Let whoever may use the server place faults over HTTP.
    #[arg(long)]
    admin: bool,
    /// Make uids and generated names the same in every run, and let time begin in 2026.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

/// Serves until somebody ends it.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    // Before anybody can know that we serve, so that nobody can end us too early for it.
    let end = ending::end().context("cannot listen for signals")?;
    let kubeconfig_out = options.kubeconfig_out.clone();
    let server = start(options).await?;
    if let Some(file) = kubeconfig_out {
        let kubeconfig = server.kubeconfig();
        let written = tokio::task::spawn_blocking({
            let file = file.clone();
            move || write_private(&file, kubeconfig.as_bytes())
        });
        written.await?.with_context(|| format!("cannot write the kubeconfig {}", file.display()))?;
    }
    writeln!(io::stdout(), "ready {}", server.url())?;
    end.await;
    server.stop().await;
    Ok(ExitCode::SUCCESS)
}

async fn start(options: Options) -> anyhow::Result<ApiServer> {
    // Nobody in this process looks at the log of requests.
    let mut builder = ApiServer::builder()
        .bind(options.bind)
        .tls(options.tls)
        .simulators(options.simulate)
        .fault_admin(options.admin)
        .request_log(0);
    if options.simulate_nodes {
        builder = builder.simulate(Simulators::only_nodes());
    }
    let mut controllers =
        if options.no_controllers { Controllers::of_server() } else { Controllers::default() };
    controllers.history = Some(HISTORY);
    builder = builder.controllers(controllers);
    if let Some(token) = options.token {
        builder = builder.token(token);
    }
    if let Some(seed) = options.seed {
        builder = builder.seed(seed);
    }
    Ok(builder.start().await?)
}

/// Writes a file that only its owner can read, whole or not at all.
fn write_private(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Temporary files are made with mode 0600.
    let mut draft = tempfile::NamedTempFile::new_in(folder)?;
    draft.write_all(bytes)?;
    draft.persist(file)?;
    Ok(())
}

fn not_empty(text: &str) -> Result<SecretString, &'static str> {
    if text.is_empty() {
        return Err("a token that is empty protects nothing");
    }
    let Ok(token) = secret(text);
    Ok(token)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn the_token_is_not_shown() {
        let flags = Flags::try_parse_from(["serve", "--token", "hunter2"]).unwrap();
        assert!(!format!("{flags:?}").contains("hunter2"));
    }

    #[test]
    fn it_stays_on_this_machine_unless_told_otherwise() {
        let flags = Flags::try_parse_from(["serve"]).unwrap();
        assert!(flags.options.bind.ip().is_loopback() && !flags.options.tls);
    }
}
