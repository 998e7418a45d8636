//! The `user` entry of a kubeconfig: every credential that a file can contain, as written there.
//!
//! Mirrors the file and decides nothing; `resolve.rs` decides which credential is used.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serialize};

use super::absent::{as_default, read_secret, write_secret};
use super::opaque::{NamedExtension, OtherFields};
use super::redact;

/// The credentials of a user.
///
/// ```
/// use dogwatch_client::config::Kubeconfig;
///
/// let kubeconfig = Kubeconfig::from_yaml("users: [{name: jane, user: {token: secret}}]")?;
/// let user = kubeconfig.user("jane").expect("the text defines it");
/// assert!(user.token.is_some() && user.exec.is_none());
/// assert!(!format!("{user:?}").contains("secret"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", expecting = "a user")]
pub struct User {
    /// A file with the client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<PathBuf>,
    /// The client certificate, as base64 of PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate_data: Option<String>,
    /// A file with the key of the client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
    /// The key of the client certificate, as base64 of PEM.
    #[serde(
        default,
        deserialize_with = "read_secret",
        serialize_with = "write_secret",
        skip_serializing_if = "Option::is_none"
    )]
    pub client_key_data: Option<SecretString>,
    /// A bearer token.
    #[serde(
        default,
        deserialize_with = "read_secret",
        serialize_with = "write_secret",
        skip_serializing_if = "Option::is_none"
    )]
    pub token: Option<SecretString>,
    /// A file with a bearer token, read again periodically.
    #[serde(rename = "tokenFile", default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// The user to impersonate.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub impersonate: Option<String>,
    /// The uid to impersonate.
    #[serde(rename = "as-uid", default, skip_serializing_if = "Option::is_none")]
    pub impersonate_uid: Option<String>,
    /// The groups of the impersonated user.
    #[serde(
        rename = "as-groups",
        default,
        deserialize_with = "as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub impersonate_groups: Vec<String>,
    /// Further attributes of the impersonated user.
    #[serde(
        rename = "as-user-extra",
        default,
        deserialize_with = "as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub impersonate_extra: BTreeMap<String, Vec<String>>,
    /// The user name of basic authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The password of basic authentication.
    #[serde(
        default,
        deserialize_with = "read_secret",
        serialize_with = "write_secret",
        skip_serializing_if = "Option::is_none"
    )]
    pub password: Option<SecretString>,
    /// The legacy `auth-provider` section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_provider: Option<ProviderSection>,
    /// A credential plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecSection>,
    /// Data of other programs.
    #[serde(default, deserialize_with = "as_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<NamedExtension>,
    /// Fields that this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
    /// The file that defines this entry.
    #[serde(skip)]
    pub origin: Option<PathBuf>,
}

/// The `auth-provider` section of a user.
///
/// ```
/// use dogwatch_client::config::Kubeconfig;
///
/// let text = "users: [{name: jane, user: {auth-provider: {name: oidc, config: {client-id: a}}}}]";
/// let kubeconfig = Kubeconfig::from_yaml(text)?;
/// let provider = kubeconfig.user("jane").and_then(|it| it.auth_provider.as_ref());
/// assert_eq!(provider.map(|it| it.config["client-id"].as_str()), Some("a"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "an auth-provider section")]
pub struct ProviderSection {
    /// The provider's name.
    #[serde(default, deserialize_with = "as_default")]
    pub name: String,
    /// The provider's options. Some are secrets, so `Debug` shows only their names.
    #[serde(default, deserialize_with = "options")]
    pub config: BTreeMap<String, String>,
    /// Fields that this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The `exec` section of a user.
///
/// ```
/// use dogwatch_client::config::Kubeconfig;
///
/// let text = "users: [{name: jane, user: {exec: {command: cloud-token, args: [get]}}}]";
/// let kubeconfig = Kubeconfig::from_yaml(text)?;
/// let exec = kubeconfig.user("jane").and_then(|it| it.exec.as_ref()).expect("the text has it");
/// assert_eq!((exec.command.as_deref(), exec.args.len()), (Some("cloud-token"), 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an exec section")]
pub struct ExecSection {
    /// The version of the plugin protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The program: a name looked up in `PATH`, or a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The arguments of the program.
    #[serde(default, deserialize_with = "as_default", skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables added to the environment of this process.
    #[serde(default, deserialize_with = "as_default", skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<ExecVariable>,
    /// A hint for the user, shown if the program is not installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_hint: Option<String>,
    /// True if the plugin receives the cluster's data.
    #[serde(default, deserialize_with = "as_default", skip_serializing_if = "std::ops::Not::not")]
    pub provide_cluster_info: bool,
    /// The plugin's use of the terminal; a string, so that one invalid user does not make the whole
    /// file unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interactive_mode: Option<String>,
    /// Fields that this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// An environment variable for a credential plugin.
///
/// ```
/// use dogwatch_client::config::{ExecSection, ExecVariable};
///
/// let (name, value) = ("PROFILE".to_owned(), "staging".to_owned());
/// let variable = ExecVariable { name, value, ..ExecVariable::default() };
/// let section = ExecSection { env: vec![variable], ..ExecSection::default() };
/// assert!(!format!("{section:?}").contains("staging")); // values may be secret
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a variable")]
pub struct ExecVariable {
    /// The name of the variable.
    #[serde(default, deserialize_with = "as_default")]
    pub name: String,
    /// The value of the variable.
    #[serde(default, deserialize_with = "as_default")]
    pub value: String,
    /// Fields that this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Deserialises the options of a provider, with `null` as the empty string.
fn options<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let options = Option::<BTreeMap<String, Option<String>>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(options.into_iter().map(|(name, value)| (name, value.unwrap_or_default())).collect())
}

impl fmt::Debug for ProviderSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderSection")
            .field("name", &self.name)
            .field("config", &self.config.keys())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ExecSection {
    /// Shows only the number of the arguments and the names of the variables: both may contain
    /// secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecSection")
            .field("api_version", &self.api_version)
            .field("command", &self.command)
            .field("args", &redact::arguments(&self.args))
            .field("env", &self.env)
            .field("provide_cluster_info", &self.provide_cluster_info)
            .field("interactive_mode", &self.interactive_mode)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ExecVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        redact::variable(f, &self.name)
    }
}
