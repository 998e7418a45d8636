//! The program `kube-apiserver` of `envtest`: the flags of kube-apiserver become those of
//! `dogwatch serve`, which then runs.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;
use dogwatch_apiserver::KUBERNETES_VERSION;

use super::flag_table::{self, Treatment};
use super::go_flags::{self, Given};
use super::program_runtime::block_on;
use crate::logging::{self, Detail};
use crate::serve;

/// The name of the program.
pub(super) const NAME: &str = "kube-apiserver";

/// The variable that starts the controllers of `dogwatch serve`. It is not a flag, because a test
/// suite that passed one could not run on kube-apiserver.
const CONTROLLERS: &str = "DOGWATCH_CONTROLLERS";

/// The port of kube-apiserver (`DefaultOptions` in k8s.io/kubernetes v1.36.4
/// pkg/kubeapiserver/options/serving.go).
const PORT: u16 = 6443;

/// Flags that `dogwatch serve` has with the same name and meaning.
const SAME: [&str; 10] = [
    "anonymous-auth",
    "client-ca-file",
    "disable-admission-plugins",
    "enable-admission-plugins",
    "service-account-issuer",
    "service-cluster-ip-range",
    "service-account-signing-key-file",
    "tls-cert-file",
    "tls-private-key-file",
    "token-auth-file",
];

/// The command line of the server, with the options of `dogwatch serve`.
#[derive(Debug, Parser)]
#[command(name = NAME, disable_help_flag = true)]
struct Arguments {
    #[command(flatten)]
    options: serve::Options,
}

/// Runs the server until a signal ends it.
pub(super) fn main(words: Vec<String>) -> anyhow::Result<ExitCode> {
    let given = go_flags::read(words, |name| flag_table::find(name).map(|it| it.is_switch))?;
    if given.iter().any(|it| it.name == "help") {
        io::stdout().write_all(help().as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    if given.iter().any(|it| it.name == "version") {
        writeln!(io::stdout(), "Kubernetes {KUBERNETES_VERSION} (dogwatch {})", crate::version::short())?;
        return Ok(ExitCode::SUCCESS);
    }
    logging::start(logging::Verbosity::of(verbosity(&given)), Detail::WithRequests);
    let plan = Plan::of(&given, |file| file.exists())?;
    for note in &plan.notes {
        let _ = writeln!(io::stderr(), "{note}");
    }
    let mut arguments = plan.arguments;
    if std::env::var_os(CONTROLLERS).is_none_or(|it| it.is_empty() || it == "0") {
        arguments.push("--no-controllers".into());
    }
    let arguments = Arguments::try_parse_from([OsString::from(NAME)].into_iter().chain(arguments))
        .map_err(|error| anyhow::Error::msg(error.render().to_string().trim_end().to_owned()))?;
    block_on(async move { serve::run(arguments.options, false).await })
}

/// The command line of `dogwatch serve` for flags of kube-apiserver.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    arguments: Vec<OsString>,
    /// Lines about flags that have no effect.
    notes: Vec<String>,
}

impl Plan {
    /// Translates flags. `exists` returns true for the path of a file that is there.
    fn of(given: &[Given], exists: impl Fn(&Path) -> bool) -> anyhow::Result<Self> {
        let mut plan = Self::default();
        let mut network = Network::default();
        for Given { name, value } in given {
            let flag = flag_table::find(name).with_context(|| format!("unknown flag: --{name}"))?;
            match flag.treatment {
                Treatment::Unneeded => {}
                Treatment::Ignored => plan.note(&format!("--{name} has no effect: this is dogwatch")),
                Treatment::Refused => bail!(
                    "--{name} is not supported by dogwatch, and without it more would be permitted than you want"
                ),
                Treatment::Used if SAME.contains(&flag.name) => plan.add(flag.name, value),
                Treatment::Used => plan.add_other(flag.name, value, &mut network)?,
            }
        }
        plan.add("bind", &network.address().to_string());
        plan.arguments.push("--tls".into());
        // As in kube-apiserver, requests without credentials are those of `system:anonymous`.
        plan.add_default("anonymous-auth", "true");
        plan.add_default("service-cluster-ip-range", "10.0.0.0/24");
        plan.add_service_accounts(given);
        plan.add_certificate(network.certificates.as_deref(), exists);
        Ok(plan)
    }

    fn add(&mut self, name: &str, value: &str) {
        self.arguments.push(format!("--{name}={value}").into());
    }

    fn add_default(&mut self, name: &str, value: &str) {
        if !self.has(name) {
            self.add(name, value);
        }
    }

    fn has(&self, name: &str) -> bool {
        let prefix = format!("--{name}=");
        self.arguments.iter().any(|it| it.to_string_lossy().starts_with(&prefix))
    }

    fn note(&mut self, text: &str) {
        if !self.notes.iter().any(|it| it == text) {
            self.notes.push(text.to_owned());
        }
    }

    /// Adds a flag that `dogwatch serve` has under another name, or with other values.
    fn add_other(&mut self, name: &str, value: &str, network: &mut Network) -> anyhow::Result<()> {
        match name {
            "bind-address" => {
                network.ip =
                    value.parse().with_context(|| format!("--{name}={value:?} is not an IP address"))?;
            }
            "secure-port" => {
                network.port = value.parse().with_context(|| format!("--{name}={value:?} is not a port"))?;
            }
            "cert-dir" => network.certificates = Some(PathBuf::from(value)),
            // The public keys of the signing key, or of other issuers.
            "service-account-key-file" => self.add(name, value),
            "authorization-mode" => self.add_authorization(value)?,
            _ => bail!("--{name} is in the table of flags as used, and is not used"),
        }
        Ok(())
    }

    /// Adds the modes of authorization: a request is permitted if one of them permits it.
    fn add_authorization(&mut self, modes: &str) -> anyhow::Result<()> {
        let modes: Vec<&str> = modes.split(',').filter(|it| !it.is_empty()).collect();
        for mode in &modes {
            match *mode {
                "RBAC" | "AlwaysAllow" => {}
                "Node" => self.note(
                    "--authorization-mode: Node has no effect: kubelets need roles to be permitted anything",
                ),
                other => bail!("--authorization-mode: dogwatch supports RBAC and AlwaysAllow, not {other:?}"),
            }
        }
        // `Node` alone would permit next to nothing.
        let mode = if modes.contains(&"AlwaysAllow") { "AlwaysAllow" } else { "RBAC" };
        self.add("authorization-mode", mode);
        Ok(())
    }

    /// Enables the plugin that `dogwatch serve` has only on request, unless a flag disables it.
    fn add_service_accounts(&mut self, given: &[Given]) {
        const PLUGIN: &str = "ServiceAccount";
        let names_it = |it: &Given| it.value.split(',').any(|name| name == PLUGIN);
        let switches =
            |it: &&Given| matches!(&*it.name, "enable-admission-plugins" | "disable-admission-plugins");
        if !given.iter().filter(switches).any(names_it) {
            self.add("enable-admission-plugins", PLUGIN);
        }
    }

    /// Uses the certificate in the folder of certificates, if no flag names one, as kube-apiserver
    /// does (`MaybeDefaultWithSelfSignedCerts` in k8s.io/apiserver v0.36.4
    /// pkg/server/options/serving.go).
    fn add_certificate(&mut self, folder: Option<&Path>, exists: impl Fn(&Path) -> bool) {
        let Some(folder) = folder.filter(|_| !self.has("tls-cert-file")) else { return };
        let (certificate, key) = (folder.join("apiserver.crt"), folder.join("apiserver.key"));
        if exists(&certificate) && exists(&key) {
            for (name, file) in [("tls-cert-file", certificate), ("tls-private-key-file", key)] {
                self.arguments.extend([format!("--{name}").into(), file.into_os_string()]);
            }
        } else {
            self.note("--cert-dir has no apiserver.crt and apiserver.key: a certificate is generated");
        }
    }
}

/// The address to listen on, and the folder of certificates.
#[derive(Debug)]
struct Network {
    ip: IpAddr,
    port: u16,
    certificates: Option<PathBuf>,
}

impl Network {
    fn address(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.port)
    }
}

impl Default for Network {
    /// On loopback, where kube-apiserver listens on all addresses: this server is for tests.
    fn default() -> Self {
        Self { ip: Ipv4Addr::LOCALHOST.into(), port: PORT, certificates: None }
    }
}

/// Returns the number of `-v` for the log: kube-apiserver logs requests from level 3 on.
fn verbosity(given: &[Given]) -> u8 {
    let level = given.iter().rev().find(|it| it.name == "v").and_then(|it| it.value.parse().ok());
    match level.unwrap_or(0_u32) {
        0..=2 => 0,
        3..=4 => 1,
        5..=7 => 2,
        _ => 3,
    }
}

/// Returns the help. Test suites look for flags in it, each at the beginning of a line.
fn help() -> String {
    let mut text = "\
dogwatch as kube-apiserver, for test suites that use envtest. All data is in memory.

Usage:
  kube-apiserver [flags]

Flags:
"
    .to_owned();
    for flag in flag_table::flags().values() {
        let effect = match flag.treatment {
            Treatment::Used => "as in kube-apiserver",
            Treatment::Unneeded => "accepted; it is about a part that dogwatch does not have",
            Treatment::Ignored => "accepted, with a note that it has no effect",
            Treatment::Refused => "not supported: an error",
        };
        text.push_str(&format!("      --{:<50} {effect}\n", flag.name));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str, files: &[&str]) -> anyhow::Result<Plan> {
        let words = line.split_whitespace().map(str::to_owned);
        let given = go_flags::read(words, |name| flag_table::find(name).map(|it| it.is_switch))?;
        Plan::of(&given, |file| files.iter().any(|it| Path::new(it) == file))
    }

    fn arguments(plan: &Plan) -> String {
        plan.arguments.iter().map(|it| it.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    /// The flags of `envtest` in controller-runtime v0.25.2.
    const ENVTEST: &str = "--allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 \
        --cert-dir=/k --client-ca-file=/k/ca.crt --disable-admission-plugins=ServiceAccount \
        --etcd-servers=http://127.0.0.1:2 --secure-port=34567 --service-account-issuer=https://127.0.0.1:1/ \
        --service-account-key-file=/k/sa.crt --service-account-signing-key-file=/k/sa.key \
        --service-cluster-ip-range=10.0.0.0/24";

    #[test]
    fn the_flags_of_envtest_become_those_of_serve_without_a_note() {
        let plan = plan(ENVTEST, &["/k/apiserver.crt", "/k/apiserver.key"]).unwrap();
        assert_eq!(plan.notes, [""; 0]);
        assert_eq!(
            arguments(&plan),
            "--authorization-mode=RBAC --client-ca-file=/k/ca.crt --disable-admission-plugins=ServiceAccount \
             --service-account-issuer=https://127.0.0.1:1/ --service-account-key-file=/k/sa.crt \
             --service-account-signing-key-file=/k/sa.key --service-cluster-ip-range=10.0.0.0/24 \
             --bind=127.0.0.1:34567 --tls --anonymous-auth=true --tls-cert-file /k/apiserver.crt \
             --tls-private-key-file /k/apiserver.key"
        );
        Arguments::try_parse_from([OsString::from(NAME)].into_iter().chain(plan.arguments)).unwrap();
    }

    #[test]
    fn every_flag_of_the_table_that_is_used_is_known_to_serve() {
        let values = [
            ("bind-address", "127.0.0.1"),
            ("secure-port", "1"),
            ("anonymous-auth", "false"),
            ("authorization-mode", "RBAC"),
            ("service-cluster-ip-range", "10.0.0.0/24"),
            ("enable-admission-plugins", "PodSecurity"),
            ("disable-admission-plugins", "LimitRanger"),
        ];
        let used = flag_table::flags().values().filter(|it| it.treatment == Treatment::Used);
        let used = used.filter(|it| !matches!(it.name, "help" | "version"));
        let value = |name| values.iter().find(|it| it.0 == name).map_or("/file", |it| it.1);
        let line: Vec<_> = used.map(|it| format!("--{}={}", it.name, value(it.name))).collect();
        let plan = plan(&line.join(" "), &[]).unwrap();
        Arguments::try_parse_from([OsString::from(NAME)].into_iter().chain(plan.arguments)).unwrap();
    }

    #[test]
    fn flags_without_effect_are_named_once_and_dangerous_ones_are_errors() {
        let found =
            plan("--feature-gates=A=true --feature-gates B=true --audit-log-path=/x -v=4", &[]).unwrap();
        let expected = [
            "--feature-gates has no effect: this is dogwatch",
            "--audit-log-path has no effect: this is dogwatch",
        ];
        assert_eq!(found.notes, expected);
        for (line, part) in [
            ("--authorization-mode=RBAC,Webhook", "not \"Webhook\""),
            ("--authorization-config=/x", "--authorization-config is not supported"),
            ("--insecure-port=0", "unknown flag: --insecure-port"),
            ("--secure-port=70000", "--secure-port=\"70000\" is not a port"),
        ] {
            let error = format!("{:#}", plan(line, &[]).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn service_accounts_are_admitted_unless_a_flag_disables_them() {
        let enables = |line: &str| {
            arguments(&plan(line, &[]).unwrap()).contains("--enable-admission-plugins=ServiceAccount")
        };
        assert!(enables("") && enables("--disable-admission-plugins=LimitRanger"));
        assert!(!enables("--disable-admission-plugins=LimitRanger,ServiceAccount"));
    }

    #[test]
    fn one_of_several_modes_decides() {
        for (modes, expected, notes) in
            [("Node,RBAC", "RBAC", 1), ("RBAC,AlwaysAllow", "AlwaysAllow", 0), ("Node", "RBAC", 1)]
        {
            let plan = plan(&format!("--authorization-mode={modes}"), &[]).unwrap();
            assert!(arguments(&plan).contains(&format!("--authorization-mode={expected} ")), "{modes}");
            assert_eq!(plan.notes.len(), notes, "{modes}");
        }
    }

    /// `CheckFlag` of envtest searches the help for `^\s*--NAME\b`.
    #[test]
    fn the_help_has_each_flag_at_the_beginning_of_a_line() {
        let help = help();
        let has = |name: &str| {
            help.lines().any(|it| it.trim_start().split(' ').next() == Some(&*format!("--{name}")))
        };
        assert!(has("etcd-servers") && has("secure-port") && !has("insecure-port"));
    }
}
