//! Validation of entries (rule KC-8): all problems, each with its entry and field.
//!
//! Checks whether files are readable, and changes nothing. `select.rs` validates the entries it
//! chose; [`Kubeconfig::validate`] validates all of them.

use std::path::PathBuf;

use dogwatch_core::names;

use super::absent::{Absent as _, given};
use super::error::{ConfigEntry, ConfigError, ConfigProblem, EntryKind, NoCluster};
use super::kubeconfig::{Cluster, Context, Kubeconfig};
use super::user::{ExecSection, User};
use super::{material, server};

/// The supported versions of the plugin protocol.
pub(super) const EXEC_VERSIONS: [&str; 2] =
    ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

impl Kubeconfig {
    /// Validates every entry, used or not, and reports every problem. An empty kubeconfig is
    /// [`ConfigError::NoCluster`].
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.clusters.is_empty() && self.users.is_empty() && self.contexts.is_empty() {
            let looked_at = vec!["the given kubeconfig (names no cluster)".to_owned()];
            return Err(ConfigError::NoCluster(NoCluster { looked_at, ..NoCluster::default() }));
        }
        let mut problems = Vec::new();
        if let Some(name) = given(&self.current_context).filter(|name| self.context(name).is_none()) {
            problems.push(missing_current_context(name));
        }
        for entry in &self.contexts {
            problems.extend(self.context_problems(&entry.name, &entry.context));
        }
        for entry in &self.users {
            let name = ConfigEntry::new(EntryKind::User, &entry.name, entry.user.origin.as_ref());
            problems.extend(user(&name, &entry.user));
        }
        for entry in &self.clusters {
            let name = ConfigEntry::new(EntryKind::Cluster, &entry.name, entry.cluster.origin.as_ref());
            problems.extend(cluster(&name, &entry.cluster));
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::Invalid(problems)) }
    }

    fn context_problems(&self, name: &str, context: &Context) -> Vec<ConfigProblem> {
        let entry = ConfigEntry::new(EntryKind::Context, name, context.origin.as_ref());
        let mut problems = Vec::new();
        if name.is_empty() {
            problems.push(entry.problem("name", "is missing"));
        }
        match given(&context.user) {
            None => problems.push(entry.problem("user", "is missing")),
            Some(user) if self.user(user).is_none() => problems.push(dangling(&entry, "user", user)),
            Some(_) => {}
        }
        match given(&context.cluster) {
            None => problems.push(entry.problem("cluster", "is missing")),
            Some(cluster) if self.cluster(cluster).is_none() => {
                problems.push(dangling(&entry, "cluster", cluster))
            }
            Some(_) => {}
        }
        problems.extend(namespace(&entry, given(&context.namespace)));
        problems
    }
}

/// Returns the problem of a `current-context` that does not exist.
pub(super) fn missing_current_context(name: &str) -> ConfigProblem {
    ConfigEntry::new(EntryKind::Context, name, None).problem("current-context", "there is no such context")
}

/// Returns the problem of a reference of a context to an entry that does not exist.
pub(super) fn dangling(context: &ConfigEntry, field: &'static str, name: &str) -> ConfigProblem {
    context.problem(field, format!("there is no {field} {name:?}"))
}

/// Validates a namespace: it must be a DNS label, since it becomes part of a path.
pub(super) fn namespace(entry: &ConfigEntry, namespace: Option<&String>) -> Option<ConfigProblem> {
    let wrong = namespace.filter(|namespace| !names::is_label(namespace))?;
    let message =
        format!("{wrong:?} is not a DNS label: at most 63 of a-z, 0-9 and -, with no - at either end");
    Some(entry.problem("namespace", message))
}

/// Validates a cluster.
pub(super) fn cluster(entry: &ConfigEntry, cluster: &Cluster) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    match given(&cluster.server) {
        None => problems.push(entry.problem("server", "is missing")),
        Some(text) => check(&mut problems, entry, "server", server::server(text, true)),
    }
    if let Some(text) = given(&cluster.proxy_url) {
        check(&mut problems, entry, "proxy-url", server::proxy(text));
    }
    let (file, data) = (given(&cluster.certificate_authority), given(&cluster.certificate_authority_data));
    if file.is_some() && data.is_some() {
        problems.push(
            entry.problem(
                "certificate-authority",
                "excludes certificate-authority-data; set only one of them",
            ),
        );
    }
    if cluster.insecure_skip_tls_verify && (file.is_some() || data.is_some()) {
        problems.push(
            entry.problem(
                "insecure-skip-tls-verify",
                "excludes a certificate authority; set only one of them",
            ),
        );
    }
    check_file(&mut problems, entry, "certificate-authority", file);
    if let Some(data) = data {
        check(&mut problems, entry, "certificate-authority-data", material::pem(data));
    }
    problems
}

/// Validates a user.
pub(super) fn user(entry: &ConfigEntry, user: &User) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    if given(&user.token).is_some() && user.has_basic() {
        problems.push(entry.problem("token", "excludes username and password; set only one of them"));
    }
    if given(&user.token).is_none() {
        // With a token, the file is only read later, and may appear later.
        if let Some(path) = given(&user.token_file) {
            check(&mut problems, entry, "tokenFile", material::token(path));
        }
    }
    if user.has_certificate() {
        certificate(&mut problems, entry, user);
    }
    if let Some(exec) = &user.exec {
        if user.auth_provider.is_some() {
            problems.push(entry.problem("exec", "excludes auth-provider; set only one of them"));
        }
        plugin(&mut problems, entry, exec);
    }
    let acts = given(&user.impersonate_uid).is_some()
        || !user.impersonate_groups.is_empty()
        || !user.impersonate_extra.is_empty();
    if acts && given(&user.impersonate).is_none() {
        problems.push(entry.problem("as", "is missing: as-uid, as-groups and as-user-extra need it"));
    }
    problems
}

fn certificate(problems: &mut Vec<ConfigProblem>, entry: &ConfigEntry, user: &User) {
    use secrecy::ExposeSecret as _;

    let (file, data) = (given(&user.client_certificate), given(&user.client_certificate_data));
    let (key_file, key_data) = (given(&user.client_key), given(&user.client_key_data));
    if file.is_some() && data.is_some() {
        problems.push(
            entry.problem("client-certificate", "excludes client-certificate-data; set only one of them"),
        );
    }
    if key_file.is_some() && key_data.is_some() {
        problems.push(entry.problem("client-key", "excludes client-key-data; set only one of them"));
    }
    if key_file.is_none() && key_data.is_none() {
        let message = "is missing: client-certificate needs client-key or client-key-data";
        problems.push(entry.problem("client-key", message));
    }
    check_file(problems, entry, "client-certificate", file);
    check_file(problems, entry, "client-key", key_file);
    if let Some(data) = data {
        check(problems, entry, "client-certificate-data", material::pem(data));
    }
    if let Some(data) = key_data {
        check(problems, entry, "client-key-data", material::pem(data.expose_secret()));
    }
}

fn plugin(problems: &mut Vec<ConfigProblem>, entry: &ConfigEntry, exec: &ExecSection) {
    if given(&exec.command).is_none() {
        problems.push(entry.problem("exec.command", "is missing"));
    }
    match given(&exec.api_version) {
        None => problems.push(entry.problem("exec.apiVersion", "is missing")),
        Some(version) if !EXEC_VERSIONS.contains(&version.as_str()) => {
            let message = format!("{version:?} is not supported; use {}", EXEC_VERSIONS.join(" or "));
            problems.push(entry.problem("exec.apiVersion", message));
        }
        Some(_) => {}
    }
    if exec.env.iter().any(|variable| variable.name.is_absent()) {
        problems.push(entry.problem("exec.env", "has a variable without a name"));
    }
    match given(&exec.interactive_mode).map(String::as_str) {
        Some("Never" | "IfAvailable" | "Always") => {}
        Some(mode) => {
            let message = format!("{mode:?} is not one of Never, IfAvailable and Always");
            problems.push(entry.problem("exec.interactiveMode", message));
        }
        // v1beta1 defaults to IfAvailable; v1 has no default.
        None if exec.api_version.as_deref() == Some(EXEC_VERSIONS[0]) => {
            problems
                .push(entry.problem("exec.interactiveMode", "is missing; use Never, IfAvailable or Always"));
        }
        None => {}
    }
}

fn check_file(
    problems: &mut Vec<ConfigProblem>,
    entry: &ConfigEntry,
    field: &'static str,
    path: Option<&PathBuf>,
) {
    if let Some(path) = path {
        check(problems, entry, field, material::readable(path));
    }
}

fn check<T>(
    problems: &mut Vec<ConfigProblem>,
    entry: &ConfigEntry,
    field: &'static str,
    result: Result<T, String>,
) {
    if let Err(message) = result {
        problems.push(entry.problem(field, message));
    }
}
