//! The `user` of a kubeconfig: every way to log in that a file can hold, as it is written there.
//!
//! Mirrors the file and decides nothing; which way is used is decided in `resolve.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serialize};

use super::absent::{as_default, read_secret, write_secret};
use super::other::{NamedExtension, OtherFields};
use super::redact;

/// How to log in.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", expecting = "a user")]
pub struct User {
    /// A file with our certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<PathBuf>,
    /// Our certificate, as base64 of PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate_data: Option<String>,
    /// A file with the key of our certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
    /// The key of our certificate, as base64 of PEM.
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
    /// A file with a bearer token that is read again and again.
    #[serde(rename = "tokenFile", default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// The user to act as.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub impersonate: Option<String>,
    /// The uid to act as.
    #[serde(rename = "as-uid", default, skip_serializing_if = "Option::is_none")]
    pub impersonate_uid: Option<String>,
    /// The groups to act as a member of.
    #[serde(
        rename = "as-groups",
        default,
        deserialize_with = "as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub impersonate_groups: Vec<String>,
    /// Further attributes to act with.
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
    /// The legacy way to name a provider of credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_provider: Option<ProviderSection>,
    /// A credential plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecSection>,
    /// Data of other programs.
    #[serde(default, deserialize_with = "as_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<NamedExtension>,
    /// Fields this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
    /// The file that defines this entry.
    #[serde(skip)]
    pub origin: Option<PathBuf>,
}

/// The `auth-provider` section of a user.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "an auth-provider section")]
pub struct ProviderSection {
    /// The provider's name.
    #[serde(default, deserialize_with = "as_default")]
    pub name: String,
    /// Its options; some are secrets, so `Debug` shows their names only.
    #[serde(default, deserialize_with = "options")]
    pub config: BTreeMap<String, String>,
    /// Fields this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The `exec` section of a user.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an exec section")]
pub struct ExecSection {
    /// The version of the protocol the plugin speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The program: a name looked up in `PATH`, or a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default, deserialize_with = "as_default", skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables added to our own environment.
    #[serde(default, deserialize_with = "as_default", skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<ExecVariable>,
    /// What to tell a person whose machine lacks the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_hint: Option<String>,
    /// Whether the plugin is told about the cluster.
    #[serde(default, deserialize_with = "as_default", skip_serializing_if = "std::ops::Not::not")]
    pub provide_cluster_info: bool,
    /// Whether the plugin may ask questions; text, so that one odd user does not make the whole file unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interactive_mode: Option<String>,
    /// Fields this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// A variable for a credential plugin.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a variable")]
pub struct ExecVariable {
    /// Its name.
    #[serde(default, deserialize_with = "as_default")]
    pub name: String,
    /// Its value.
    #[serde(default, deserialize_with = "as_default")]
    pub value: String,
    /// Fields this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Reads the options of a provider, `null` being the empty text.
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
    /// Arguments and variables may carry secrets: only their number and names are shown.
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
