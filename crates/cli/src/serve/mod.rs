//! `dogwatch serve`: runs the API server as a process.
//!
//! Scripts rely on one line on stdout, `ready <url>`, printed when the server accepts requests and
//! the kubeconfig is written.

mod banner;
mod credentials;

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use dogwatch_apiserver::{
    AdmissionPlugin, Anonymous, ApiServer, AuthorizationMode, Controllers, ServiceNetwork,
};
use dogwatch_simulator::{ControllerManager, Settings, Simulator};
use secrecy::SecretString;

use crate::connection::secret;
use crate::listen_address::{address, host};
use crate::private_file::write_private;
use crate::{number, signals, simulation};
use banner::{Banner, Simulated, not_enforced};
use credentials::CredentialFiles;

const EXAMPLES: &str = "\
All data is in memory and lost when the server exits. It prints one line to
stdout, `ready URL`, when it is ready; Ctrl-C and SIGTERM stop it. On a
terminal, stderr has a few lines about what to type next. With -v it logs
every request there.

Enforced: schemas with their CEL rules, admission policies and webhooks, quotas,
limit ranges and the Pod Security Standards. Pods need no service account, and
get no token, unless the admission plugin ServiceAccount is enabled; flow
schemas delay no requests.
Unless --authorization-mode is RBAC there is no authorization: every caller may
do everything, whatever roles and role bindings say.

Without a token every caller is the administrator, whose user is admin; the
server then listens on this machine only, and rejects requests from web pages:
a foreign Host or Origin gets 403. With --token, --token-file, DOGWATCH_TOKEN
or --tls, requests without credentials get 401, or, with RBAC, 403 for what
system:anonymous may not do.

Examples:
  Try it with kubectl, in two terminals:
    dogwatch serve --bind 127.0.0.1:8080 --simulate
    kubectl --server http://127.0.0.1:8080 create deployment web --image nginx
    kubectl --server http://127.0.0.1:8080 get pods

  With TLS and a kubeconfig, like a production cluster:
    dogwatch serve --tls --kubeconfig-out dogwatch.kubeconfig
    kubectl --kubeconfig dogwatch.kubeconfig get namespaces

  With roles enforced, and a request as a user who has only the role view:
    dogwatch serve --bind 127.0.0.1:8080 --authorization-mode RBAC
    kubectl --server http://127.0.0.1:8080 create clusterrolebinding bob \\
        --clusterrole view --user bob
    kubectl --server http://127.0.0.1:8080 --as bob get pods
    kubectl --server http://127.0.0.1:8080 --as bob auth can-i --list

  With the users, the keys and the network of a cluster, and pods that get the
  tokens of their service accounts:
    dogwatch serve --tls --client-ca-file ca.crt --token-auth-file users.csv \\
        --service-account-signing-key-file sa.key \\
        --service-cluster-ip-range 10.0.0.0/24 \\
        --enable-admission-plugins ServiceAccount

  In a bash script that waits until it is ready:
    exec 3< <(dogwatch serve); server=$!
    read -r ready url <&3
    kubectl --server \"$url\" get namespaces
    kill \"$server\"

  Reachable from other machines:
    dogwatch serve --bind 0.0.0.0:6443 --tls --token-file token \\
        --advertise box.lan --kubeconfig-out dogwatch.kubeconfig

kubectl sends tokens only over TLS: combine a token with --tls to use it with
kubectl.";

/// Printed if other machines can connect but their clients would not trust the certificate or find
/// the address.
const LOCAL_ONLY: &str = "the certificate and the kubeconfig name only 127.0.0.1; for clients on other machines add \
                          --advertise HOST";

/// The variable with the administrator's token, used if no flag gives one.
const TOKEN_VARIABLE: &str = "DOGWATCH_TOKEN";

/// The time that old versions can be listed: `DefaultCompactInterval` in
/// `k8s.io/apiserver v0.36.4 pkg/storage/storagebackend/config.go`.
const HISTORY: Duration = Duration::from_secs(5 * 60);

/// The interval at which the server renews its own lease: `IdentityLeaseRenewIntervalPeriod` in
/// `k8s.io/kubernetes v1.36.4 pkg/controlplane/apiserver/server.go`.
const RENEWAL: Duration = Duration::from_secs(10);

/// The interval at which simulated nodes renew their leases: a quarter of the duration of a lease,
/// as in `k8s.io/kubernetes v1.36.4 pkg/kubelet/kubelet.go` (`nodeLeaseRenewIntervalFraction`).
const HEARTBEAT: Duration = Duration::from_secs(10);

/// The time for which the ready line waits for the controller manager.
const MANAGER_START: Duration = Duration::from_secs(5);

/// Run a Kubernetes API server on this machine, without a cluster.
///
/// It serves every built-in kind, and the kinds of custom resource definitions, to kubectl and any
/// other client.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// The address to listen on: ADDR:PORT, localhost:PORT, or a PORT on loopback; port 0 selects a
    /// free one. Other addresses than loopback need --tls and a token.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0", value_parser = address)]
    bind: SocketAddr,
    /// The name or address by which other machines reach the server, for the kubeconfig and the
    /// certificate.
    #[arg(long, value_name = "HOST", value_parser = host)]
    advertise: Option<String>,
    /// Write a kubeconfig for the server to this file, replacing it; only its owner can read it.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// The administrator's bearer token. Other users of this machine can see it in the process
    /// list: prefer --token-file or the variable DOGWATCH_TOKEN. With --tls and none of these, a
    /// token is generated for the kubeconfig.
    #[arg(long, value_parser = not_empty)]
    token: Option<SecretString>,
    /// Read the administrator's bearer token from this file; surrounding whitespace is ignored.
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// Select how the server decides what users may do. RBAC: what roles and bindings permit; the
    /// administrator may do everything. AlwaysAllow: everything.
    #[arg(long, value_name = "MODE", value_enum, ignore_case = true, default_value_t = Authorization::AlwaysAllow)]
    authorization_mode: Authorization,
    /// Serve HTTPS, with certificates generated for this run; clients may authenticate with a
    /// certificate.
    #[arg(long, conflicts_with = "plain")]
    tls: bool,
    /// Treat requests without credentials as those of system:anonymous, or reject them with 401.
    /// Without authorization, system:anonymous may do everything, too.
    /// [default: true with RBAC, otherwise false]
    #[arg(long, value_name = "BOOLEAN", requires = "tls")]
    anonymous_auth: Option<bool>,
    /// The IPv4 network from which services get their addresses.
    #[arg(long, value_name = "CIDR", default_value_t)]
    service_cluster_ip_range: ServiceNetwork,
    #[command(flatten)]
    credentials: CredentialFiles,
    /// Connect to kubelets, pods and services on other machines for logs, exec, attach,
    /// port-forward and proxy. By default only loopback addresses are connected to: stored objects
    /// name them, so that clients which may write those choose the address.
    #[arg(long)]
    allow_remote_backends: bool,
    /// Enable these admission plugins, separated by commas. On by default are those of
    /// kube-apiserver except ServiceAccount.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = AdmissionPlugin::to_enable)]
    enable_admission_plugins: Vec<Switched>,
    /// Disable these admission plugins, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = AdmissionPlugin::to_disable)]
    disable_admission_plugins: Vec<Switched>,
    /// Serve HTTP. This is the default.
    #[arg(long)]
    plain: bool,
    /// Do not run the controllers for namespaces, garbage collection, claims and volumes, so that
    /// you can run your own, such as kube-controller-manager.
    #[arg(long)]
    no_controllers: bool,
    /// Simulate workloads: deployments, stateful sets, daemon sets, jobs and cron jobs get pods,
    /// which run on simulated nodes; services get endpoints, and claims get volumes. No container
    /// runs, but `kubectl logs`, `exec`, `attach` and `port-forward` get simulated answers.
    #[arg(long, group = "simulation")]
    simulate: bool,
    /// Simulate only nodes: pods become ready on them, and your own controllers create the pods.
    #[arg(long, group = "simulation", conflicts_with = "simulate")]
    simulate_nodes: bool,
    /// The number of simulated nodes, 3 if it is not set.
    #[arg(long, value_name = "N", requires = "simulation", value_parser = number::whole::<u16>(0..=5000))]
    nodes: Option<u16>,
    /// Expose the fault-injection API under /_dogwatch/faults, for `dogwatch fault`.
    #[arg(long)]
    admin: bool,
    /// Generate the same uids and names in every run, and start the clock in 2026.
    #[arg(long, value_name = "NUMBER", value_parser = number::any())]
    seed: Option<u64>,
}

/// A plugin that a flag names; `None` for one without effect here.
type Switched = Option<AdmissionPlugin>;

/// The names of authorization modes, as kube-apiserver has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Authorization {
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
    #[value(name = "RBAC")]
    Rbac,
}

impl From<Authorization> for AuthorizationMode {
    fn from(mode: Authorization) -> Self {
        match mode {
            Authorization::AlwaysAllow => Self::AlwaysAllow,
            Authorization::Rbac => Self::Rbac,
        }
    }
}

impl Options {
    /// Returns true if runs should be alike. On several threads, their order would decide which
    /// object gets the next uid of the seed.
    pub(crate) fn needs_one_thread(&self) -> bool {
        self.seed.is_some()
    }

    /// Returns the admission plugins that the flags switch.
    fn plugins(&self) -> anyhow::Result<Vec<(AdmissionPlugin, bool)>> {
        let switched = |of: &[Switched]| of.iter().flatten().copied().collect::<Vec<_>>();
        let (on, off) = (switched(&self.enable_admission_plugins), switched(&self.disable_admission_plugins));
        if let Some(both) = on.iter().find(|it| off.contains(it)) {
            anyhow::bail!("--enable-admission-plugins and --disable-admission-plugins both name {both}");
        }
        let enabled = on.into_iter().map(|it| (it, true));
        Ok(enabled.chain(off.into_iter().map(|it| (it, false))).collect())
    }

    fn simulated(&self) -> Simulated {
        match (self.simulate, self.simulate_nodes) {
            (true, _) => Simulated::Workloads,
            (false, true) => Simulated::Nodes,
            (false, false) => Simulated::Nothing,
        }
    }
}

/// Serves until a shutdown signal arrives. With `verbose`, the banner for people is printed even if
/// stderr is not a terminal.
pub(crate) async fn run(options: Options, verbose: bool) -> anyhow::Result<ExitCode> {
    // Registered before the ready line, so that a signal right after it stops the server in order.
    let end = signals::shutdown().context("cannot listen for signals")?;
    let is_local_only = options.bind.ip().is_unspecified() && options.advertise.is_none();
    let rbac = options.authorization_mode == Authorization::Rbac;
    let (tls, admin, simulated) = (options.tls, options.admin, options.simulated());
    let kubeconfig = options.kubeconfig_out.clone();
    let has_banner = verbose || io::stderr().is_terminal();
    let Started { server, manager, simulator } = start(options).await?;
    // If stderr is closed, the server still serves.
    if !has_banner {
        let _ = writeln!(io::stderr(), "{}", not_enforced(rbac));
    }
    if is_local_only {
        let _ = writeln!(io::stderr(), "{LOCAL_ONLY}");
    }
    writeln!(io::stdout(), "ready {}", server.url()).context("cannot write to stdout")?;
    if has_banner {
        // So that it can be used in another directory.
        let kubeconfig = kubeconfig.map(|it| std::path::absolute(&it).unwrap_or(it));
        let (url, token) = (server.url(), server.token().is_some());
        let banner = Banner { url, kubeconfig: kubeconfig.as_deref(), token, tls, rbac, simulated, admin };
        let _ = write!(io::stderr(), "{}", banner.lines());
    }
    end.await;
    if let Some(simulator) = simulator {
        simulator.stop().await;
    }
    if let Some(manager) = manager {
        manager.stop().await;
    }
    server.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// The server, and the programs that run on it.
struct Started {
    server: ApiServer,
    manager: Option<ControllerManager>,
    simulator: Option<Simulator>,
}

async fn start(options: Options) -> anyhow::Result<Started> {
    let (token, settings) = (token(&options)?, simulator_settings(&options));
    // Nothing in this process reads the request log.
    let mut builder = ApiServer::builder()
        .bind(options.bind)
        .tls(options.tls)
        .authorization(options.authorization_mode.into())
        .fault_admin(options.admin)
        .allow_remote_backends(options.allow_remote_backends)
        .request_log(0);
    let mut controllers = Controllers::default();
    controllers.history = Some(HISTORY);
    controllers.identity_lease = Some(RENEWAL);
    builder = builder.controllers(controllers);
    if let Some(token) = token {
        builder = builder.token(token);
    }
    if let Some(allowed) = options.anonymous_auth {
        builder = builder.anonymous(if allowed { Anonymous::Allowed } else { Anonymous::Refused });
    }
    builder = options.credentials.add_to(builder)?;
    builder = builder.service_network(options.service_cluster_ip_range);
    for (plugin, on) in options.plugins()? {
        builder = builder.admission_plugin(plugin, on);
    }
    if let Some(host) = options.advertise {
        builder = builder.advertise(host);
    }
    if let Some(seed) = options.seed {
        builder = builder.seed(seed);
    }
    let server = builder.start().await?;
    // Before the programs that would report the end of the server if this fails.
    if let Some(file) = &options.kubeconfig_out {
        let kubeconfig = server.kubeconfig();
        let written = tokio::task::spawn_blocking({
            let file = file.clone();
            move || write_private(&file, kubeconfig.as_bytes())
        });
        written.await?.with_context(|| format!("cannot write the kubeconfig {}", file.display()))?;
    }
    let manager = match options.no_controllers {
        true => None,
        false => Some(simulation::start_manager(&server, options.seed)?),
    };
    let simulator = settings.map(|it| simulation::start(&server, it, options.seed)).transpose()?;
    if let Some(manager) = &manager {
        // So that the server is ready by its own account when it says so. Requests are accepted
        // already, and a manager that fails is shown in `/readyz`.
        let _ = tokio::time::timeout(MANAGER_START, manager.ready()).await;
    }
    Ok(Started { server, manager, simulator })
}

/// Returns the settings of the simulator, if there is one.
fn simulator_settings(options: &Options) -> Option<Settings> {
    let mut settings = match (options.simulate, options.simulate_nodes) {
        (false, false) => return None,
        (true, _) => Settings::default(),
        (_, true) => {
            let mut settings = Settings::only_nodes();
            // The node lifecycle controller of kube-controller-manager may be one of the user's
            // controllers, and reports nodes without heartbeats as lost.
            settings.heartbeat = Some(HEARTBEAT);
            settings
        }
    };
    settings.kubelet_server = true;
    if let Some(nodes) = options.nodes {
        settings.nodes = nodes.into();
    }
    Some(settings)
}

/// Returns the administrator's token: from a flag, or else from the variable.
fn token(options: &Options) -> anyhow::Result<Option<SecretString>> {
    if let Some(token) = &options.token {
        return Ok(Some(token.clone()));
    }
    if let Some(file) = &options.token_file {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read the token file {}", file.display()))?;
        let token = not_empty(text.trim()).map_err(anyhow::Error::msg);
        return token.with_context(|| format!("the token file {} is not valid", file.display())).map(Some);
    }
    match std::env::var(TOKEN_VARIABLE) {
        Ok(text) => {
            let token = not_empty(text.trim()).map_err(anyhow::Error::msg);
            token.with_context(|| format!("the variable {TOKEN_VARIABLE} is not valid")).map(Some)
        }
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("the variable {TOKEN_VARIABLE} is not valid")),
    }
}

fn not_empty(text: &str) -> Result<SecretString, &'static str> {
    if text.is_empty() {
        return Err("the token is empty");
    }
    if text.contains(|it: char| it.is_whitespace() || it.is_control()) {
        return Err("the token contains whitespace or control characters");
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
    fn debug_output_hides_the_token() {
        let flags = Flags::try_parse_from(["serve", "--token", "hunter2"]).unwrap();
        assert!(!format!("{flags:?}").contains("hunter2"));
    }

    #[test]
    fn a_token_is_one_word() {
        assert!(not_empty("hunter2").is_ok());
        for text in ["", "a b", "a\nb", "a\u{0}"] {
            assert!(not_empty(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn nodes_without_our_workloads_have_heartbeats() {
        let settings =
            |flag: &str| simulator_settings(&Flags::try_parse_from(["serve", flag]).unwrap().options);
        let nodes = settings("--simulate-nodes").unwrap();
        assert_eq!((nodes.workloads, nodes.heartbeat), (false, Some(HEARTBEAT)));
        let mut all = Settings::default();
        all.kubelet_server = true;
        assert_eq!(settings("--simulate"), Some(all));
        assert_eq!(settings("--plain"), None);
    }

    #[test]
    fn plugins_are_switched_by_name_and_unknown_names_are_errors() {
        let switched = |flags: &[&str]| {
            let parsed = Flags::try_parse_from(["serve"].iter().chain(flags)).map_err(|it| it.to_string());
            parsed.and_then(|it| it.options.plugins().map_err(|it| it.to_string()))
        };
        assert_eq!(switched(&[]), Ok(Vec::new()));
        assert_eq!(
            switched(&[
                "--enable-admission-plugins=ServiceAccount,AlwaysAdmit",
                "--disable-admission-plugins=PodSecurity,EventRateLimit",
            ]),
            Ok(vec![(AdmissionPlugin::ServiceAccount, true), (AdmissionPlugin::PodSecurity, false)])
        );
        for (flags, named) in [
            (&["--enable-admission-plugins=PodSafety"][..], "\"PodSafety\""),
            (&["--disable-admission-plugins", "Priority,Prior"], "\"Prior\""),
            (&["--enable-admission-plugins=AlwaysPullImages"], "AlwaysPullImages"),
            (
                &["--enable-admission-plugins=Priority", "--disable-admission-plugins=Priority"],
                "both name Priority",
            ),
        ] {
            let error = switched(flags).expect_err("rejected");
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn client_authorities_and_extra_keys_need_what_they_add_to() {
        for flags in [&["--client-ca-file", "a"][..], &["--service-account-key-file", "a"]] {
            assert!(Flags::try_parse_from(["serve"].iter().chain(flags)).is_err(), "{flags:?}");
        }
        let range = Flags::try_parse_from(["serve", "--service-cluster-ip-range", "fd00::/108"]);
        assert!(range.unwrap_err().to_string().contains("IPv4"));
    }

    #[test]
    fn the_number_of_nodes_needs_a_simulation() {
        let parsed = |flags: &[&str]| Flags::try_parse_from(["serve"].iter().chain(flags));
        for simulation in ["--simulate", "--simulate-nodes"] {
            let options = parsed(&[simulation, "--nodes", "1000"]).unwrap().options;
            assert_eq!(simulator_settings(&options).unwrap().nodes, 1000);
        }
        assert!(parsed(&["--nodes", "3"]).is_err());
        assert!(parsed(&["--simulate", "--nodes", "5001"]).is_err());
    }

    #[test]
    fn it_listens_on_loopback_and_connects_only_to_it_by_default() {
        let flags = Flags::try_parse_from(["serve"]).unwrap();
        assert!(flags.options.bind.ip().is_loopback() && !flags.options.tls);
        assert!(!flags.options.allow_remote_backends);
    }
}
