//! The `exec` section of a user: the credential plugin and its parameters.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::redact;

/// The parameters of a credential plugin (rule AU-3).
///
/// ```
/// use dogwatch_client::config::{ExecConfig, InteractiveMode};
///
/// let plugin = ExecConfig {
///     api_version: "client.authentication.k8s.io/v1".to_owned(),
///     command: "cloud-token".to_owned(),
///     interactive_mode: Some(InteractiveMode::Never),
///     ..ExecConfig::default()
/// };
/// assert!(plugin.args.is_empty() && !plugin.provide_cluster_info);
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecConfig {
    /// `client.authentication.k8s.io/v1` or `…/v1beta1`.
    #[serde(default)]
    pub api_version: String,
    /// The program: a name looked up in `PATH`, or a path.
    #[serde(default)]
    pub command: String,
    /// The arguments of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "super::absent::as_default")]
    pub args: Vec<String>,
    /// Variables added to the environment of this process.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "super::absent::as_default")]
    pub env: Vec<ExecEnv>,
    /// A hint for the user, shown if the program is not installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_hint: Option<String>,
    /// True if the plugin receives the cluster's data.
    #[serde(default)]
    pub provide_cluster_info: bool,
    /// The plugin's use of the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interactive_mode: Option<InteractiveMode>,
    /// The cluster's data for the plugin; filled in from the cluster of the context.
    #[serde(skip)]
    pub cluster: Option<ExecCluster>,
}

/// An environment variable for a plugin.
///
/// ```
/// use dogwatch_client::config::{ExecConfig, ExecEnv};
///
/// let mut plugin = ExecConfig::default();
/// plugin.env.push(ExecEnv { name: "PROFILE".to_owned(), value: "staging".to_owned() });
/// assert!(!format!("{plugin:?}").contains("staging")); // values may be secret
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecEnv {
    /// The name of the variable.
    pub name: String,
    /// The value of the variable.
    pub value: String,
}

/// A plugin's use of the terminal.
///
/// ```
/// use dogwatch_client::config::InteractiveMode;
///
/// let mode: InteractiveMode = serde_json::from_str(r#""IfAvailable""#)?;
/// assert_eq!(mode, InteractiveMode::IfAvailable);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum InteractiveMode {
    /// The plugin never uses standard input.
    Never,
    /// The plugin uses standard input if it is a terminal.
    IfAvailable,
    /// The plugin needs a terminal; without one it is not started.
    Always,
}

/// The cluster's data for a plugin (`spec.cluster` of an ExecCredential).
///
/// ```
/// use dogwatch_client::config::ExecCluster;
///
/// let cluster = ExecCluster { server: "https://10.0.0.1".to_owned(), ..ExecCluster::default() };
/// assert_eq!(serde_json::to_value(&cluster)?["server"], "https://10.0.0.1");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ExecCluster {
    /// The address of the server.
    pub server: String,
    /// The name expected in the server's certificate.
    #[serde(rename = "tls-server-name", default, skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    /// True if the server is not verified.
    #[serde(rename = "insecure-skip-tls-verify", default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure_skip_tls_verify: bool,
    /// The trusted roots, as base64 of PEM.
    #[serde(rename = "certificate-authority-data", default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority_data: Option<String>,
    /// The proxy of the cluster.
    #[serde(rename = "proxy-url", default, skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
    /// True if responses are requested without compression.
    #[serde(rename = "disable-compression", default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_compression: bool,
    /// The cluster extension `client.authentication.k8s.io/exec`, passed on unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<serde_json::Value>,
}

impl fmt::Debug for ExecCluster {
    /// Hides the proxy, which may contain a password, and the extension, which may contain
    /// anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecCluster")
            .field("server", &redact::address(&self.server))
            .field("tls_server_name", &self.tls_server_name)
            .field("insecure_skip_tls_verify", &self.insecure_skip_tls_verify)
            .field("disable_compression", &self.disable_compression)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ExecConfig {
    /// Shows only the number of the arguments and the names of the variables: both may contain
    /// secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecConfig")
            .field("api_version", &self.api_version)
            .field("command", &self.command)
            .field("args", &redact::arguments(&self.args))
            .field("env", &self.env)
            .field("provide_cluster_info", &self.provide_cluster_info)
            .field("interactive_mode", &self.interactive_mode)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ExecEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        redact::variable(f, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let cluster = ExecCluster {
            proxy_url: Some("http://me:hush@proxy".to_owned()),
            config: Some("hush".into()),
            ..ExecCluster::default()
        };
        let config = ExecConfig {
            args: vec!["hush".to_owned()],
            env: vec![ExecEnv { name: "NAME".to_owned(), value: "hush".to_owned() }],
            cluster: Some(cluster.clone()),
            ..ExecConfig::default()
        };
        let shown = format!("{config:?} {cluster:?}");
        assert!(shown.contains("NAME=[REDACTED]") && !shown.contains("hush"), "{shown}");
    }
}
