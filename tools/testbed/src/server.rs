//! API servers for tasks: our own, started as a user starts it, and kube-apiserver, if its programs
//! are given.
//!
//! Both run on loopback with TLS and a bearer token, persist nothing, and stop when the guard is
//! dropped. The tasks decide which requests they send.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dogwatch::config::Overrides;
use dogwatch::{Client, Config};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::Instant;

use processes::cargo::{Cargo, target_folder};
use processes::process::Process;

use crate::connector::{Connector, ca_of};

/// The bearer token of the administrator.
pub const TOKEN: &str = "admin-token";
/// The time within which a server has to become ready.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The interval at which readiness is polled, which is the resolution of `ready_after`.
const POLL: Duration = Duration::from_millis(1);

/// A running server. Dropping it stops the server.
#[derive(Debug)]
pub struct Server {
    /// The name of the program.
    pub name: &'static str,
    /// A kubeconfig for the administrator.
    pub kubeconfig: PathBuf,
    /// The file with the CA certificate.
    pub ca: PathBuf,
    /// Opens plain connections to it.
    pub connector: Connector,
    /// The time from its start to the first `ok` of `/readyz`.
    pub ready_after: Duration,
    processes: Vec<Process>,
    /// The directory of all files. Dropped last.
    folder: TempDir,
}

/// The program of our server.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct OwnServer {
    /// The dogwatch program to use. Without it, one is built in release mode.
    #[arg(long, value_name = "FILE")]
    server_binary: Option<PathBuf>,
}

impl OwnServer {
    /// Starts our server with these arguments, in addition to those for its address and
    /// credentials.
    pub async fn start(&self, arguments: &[&str]) -> Result<Server> {
        let mut command = Command::new(self.binary()?);
        command.args(["serve", "--bind", "127.0.0.1:0", "--tls"]).args(arguments);
        start_program("dogwatch", command).await
    }

    /// Returns the path of the program, and builds it if none is given.
    pub fn binary(&self) -> Result<PathBuf> {
        if let Some(binary) = &self.server_binary {
            return binary.canonicalize().with_context(|| format!("cannot find {}", binary.display()));
        }
        Cargo::new(["build", "--release", "--package", "dogwatch-cli"]).run()?;
        Ok(target_folder()?.join("release/dogwatch"))
    }
}

/// Starts our server in another program, which gets the arguments `--token TOKEN` and
/// `--kubeconfig-out FILE`. It serves with TLS, and prints `ready URL` once the file is written.
pub async fn start_program(name: &'static str, mut command: Command) -> Result<Server> {
    let folder = tempfile::tempdir().context("cannot create a directory for the server")?;
    let kubeconfig = folder.path().join("kubeconfig");
    command.args(["--token", TOKEN, "--kubeconfig-out"]).arg(&kubeconfig);

    let start = Instant::now();
    let mut process = Process::start(name, &mut command, folder.path())?;
    let url = loop {
        process.ensure_alive()?;
        let output = process.output()?;
        if let Some(url) = output.lines().find_map(|it| it.strip_prefix("ready ")) {
            break url.trim().to_owned();
        }
        ensure!(start.elapsed() < TIMEOUT, "our server did not print `ready` within {TIMEOUT:?}");
        tokio::time::sleep(POLL).await;
    };
    let authority =
        url.strip_prefix("https://").with_context(|| format!("unexpected URL {url}, which is not https"))?;
    let authority = authority.trim_end_matches('/').to_owned();
    let pem = ca_of(&Config::from_kubeconfig(&kubeconfig, &Overrides::default())?)?;
    Server::ready(name, authority, &pem, kubeconfig, vec![process], folder, start).await
}

/// Starts kube-apiserver over etcd, both from `binaries`, without fsync and without authorization.
pub async fn start_kube_apiserver(binaries: &Path) -> Result<Server> {
    let folder = tempfile::tempdir().context("cannot create a directory for the server")?;
    let file = |name: &str| folder.path().join(name);
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    std::fs::write(file("server.crt"), &pem)?;
    std::fs::write(file("server.key"), &key)?;
    std::fs::write(file("server.pub"), made.signing_key.public_key_pem())?;
    std::fs::write(file("tokens.csv"), format!("{TOKEN},admin,1,\"system:masters\"\n"))?;
    let (port, etcd, peer) = (free_port()?, free_port()?, free_port()?);
    let (etcd, peer) = (format!("http://127.0.0.1:{etcd}"), format!("http://127.0.0.1:{peer}"));
    let path = |name: &str| file(name).display().to_string();

    let start = Instant::now();
    let mut command = Command::new(binaries.join("etcd"));
    command.args(["--unsafe-no-fsync", "--log-level", "error", "--data-dir", &path("etcd")]);
    command.args(["--listen-client-urls", &etcd, "--advertise-client-urls", &etcd]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("default={peer}")]);
    let storage = Process::start("etcd", &mut command, folder.path())?;

    let mut command = Command::new(binaries.join("kube-apiserver"));
    command.args([
        format!("--etcd-servers={etcd}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        // An endpoint must not have a loopback address (k8s.io/kubernetes v1.36.4
        // pkg/apis/core/validation/validation.go, ValidateEndpointIP).
        "--advertise-address=10.255.255.1".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        format!("--tls-cert-file={}", path("server.crt")),
        format!("--tls-private-key-file={}", path("server.key")),
        format!("--service-account-issuer=https://127.0.0.1:{port}/"),
        format!("--service-account-key-file={}", path("server.pub")),
        format!("--service-account-signing-key-file={}", path("server.key")),
        format!("--token-auth-file={}", path("tokens.csv")),
        "--authorization-mode=AlwaysAllow".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
    ]);
    let server = Process::start("kube-apiserver", &mut command, folder.path())?;

    let kubeconfig = file("kubeconfig");
    let authority = format!("127.0.0.1:{port}");
    std::fs::write(&kubeconfig, kubeconfig_of(&authority))?;
    Server::ready("kube-apiserver", authority, &pem, kubeconfig, vec![server, storage], folder, start).await
}

impl Server {
    /// Waits until a server that was just started is ready.
    async fn ready(
        name: &'static str,
        authority: String,
        pem: &str,
        kubeconfig: PathBuf,
        processes: Vec<Process>,
        folder: TempDir,
        start: Instant,
    ) -> Result<Self> {
        let ca = folder.path().join("ca.crt");
        std::fs::write(&ca, pem)?;
        let connector = Connector::new(authority, pem, TOKEN)?;
        let mut server =
            Self { name, kubeconfig, ca, connector, ready_after: Duration::ZERO, processes, folder };
        while !server.connector.is_ready().await {
            server.processes.iter_mut().try_for_each(Process::ensure_alive)?;
            ensure!(start.elapsed() < TIMEOUT, "{name} is not ready within {TIMEOUT:?}");
            tokio::time::sleep(POLL).await;
        }
        server.ready_after = start.elapsed();
        Ok(server)
    }

    /// Returns a client of ours for it, as the administrator.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::new(Config::from_kubeconfig(&self.kubeconfig, &Overrides::default())?)?)
    }

    /// The directory for files that belong to it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the CPU seconds it has used, including its etcd if it has one.
    pub fn cpu_seconds(&self) -> Result<f64> {
        self.processes.iter().map(Process::cpu_seconds).sum()
    }

    /// Returns its resident memory in MB, including its etcd if it has one.
    pub fn resident_mb(&self) -> Result<f64> {
        self.processes.iter().map(Process::resident_mb).sum()
    }
}

fn kubeconfig_of(authority: &str) -> String {
    let cluster = json!({ "server": format!("https://{authority}"), "certificate-authority": "ca.crt" });
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{ "name": "it", "cluster": cluster }],
        "users": [{ "name": "it", "user": { "token": TOKEN } }],
        "contexts": [{ "name": "it", "context": { "cluster": "it", "user": "it" } }],
    })
    .to_string()
}

/// Returns a port that was free a moment ago.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on loopback")?;
    Ok(listener.local_addr()?.port())
}
