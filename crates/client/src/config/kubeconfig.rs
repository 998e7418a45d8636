//! The kubeconfig file format: clusters, users, contexts that pair them, and everything else in the
//! file.
//!
//! These types mirror the file and decide nothing. Unknown fields are kept at every level, so that
//! reading and writing a file loses nothing. Only `to_yaml` writes secrets; `Debug` hides them.
//! Text becomes these types in `yaml.rs`, several files become one in `merge.rs`, and `resolve.rs`
//! makes settings of them.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::absent::as_default;
use super::opaque::{Named, NamedExtension, OtherFields};
use super::redact;
use super::user::User;

/// A kubeconfig: one file, or several merged.
///
/// ```
/// use dogwatch_client::Config;
/// use dogwatch_client::config::{Cluster, Environment, Kubeconfig, Overrides, User};
///
/// let server = Some("https://10.0.0.1:6443".to_owned());
/// let cluster = Cluster { server, ..Cluster::default() };
/// let user = User { token: Some("secret".into()), ..User::default() };
/// let kubeconfig = Kubeconfig::single("staging", cluster, user);
/// let config = Config::resolve(&kubeconfig, &Overrides::default(), &Environment::empty())?;
/// assert_eq!(config.server.as_str(), "https://10.0.0.1:6443/");
/// println!("{}", kubeconfig.to_yaml()?); // with the token
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", expecting = "a kubeconfig")]
pub struct Kubeconfig {
    /// `v1`, if present.
    #[serde(rename = "apiVersion", default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// `Config`, if present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Preferences of command-line tools; ignored here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferences: Option<Preferences>,
    /// The clusters. Names are unique.
    #[serde(default, deserialize_with = "as_default")]
    pub clusters: Vec<NamedCluster>,
    /// The users. Names are unique.
    #[serde(default, deserialize_with = "as_default")]
    pub users: Vec<NamedUser>,
    /// The contexts. Names are unique.
    #[serde(default, deserialize_with = "as_default")]
    pub contexts: Vec<NamedContext>,
    /// The default context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_context: Option<String>,
    /// Data of other programs.
    #[serde(default, deserialize_with = "as_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<NamedExtension>,
    /// Fields that this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Preferences of command-line tools.
///
/// ```
/// use dogwatch_client::config::Kubeconfig;
///
/// let kubeconfig = Kubeconfig::from_yaml("preferences: {colors: true}")?;
/// assert!(kubeconfig.preferences.is_some_and(|it| it.colors));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "the preferences")]
pub struct Preferences {
    /// True for coloured output.
    #[serde(default, deserialize_with = "as_default", skip_serializing_if = "std::ops::Not::not")]
    pub colors: bool,
    /// Data of other programs.
    #[serde(default, deserialize_with = "as_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<NamedExtension>,
    /// Fields that this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// A cluster and its name.
///
/// ```
/// use dogwatch_client::config::{Cluster, NamedCluster};
///
/// let server = Some("https://10.0.0.1:6443".to_owned());
/// let cluster = Cluster { server, ..Cluster::default() };
/// let entry = NamedCluster { name: "staging".to_owned(), cluster, ..NamedCluster::default() };
/// assert_eq!(entry.name, "staging");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a cluster with its name")]
pub struct NamedCluster {
    /// The name that contexts refer to.
    #[serde(default, deserialize_with = "as_default")]
    pub name: String,
    /// The cluster.
    #[serde(default, deserialize_with = "as_default")]
    pub cluster: Cluster,
    /// Fields that this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The address of a server and the way to verify it.
///
/// ```
/// use dogwatch_client::config::Kubeconfig;
///
/// let text = "clusters: [{name: staging, cluster: {server: 'https://10.0.0.1:6443'}}]";
/// let kubeconfig = Kubeconfig::from_yaml(text)?;
/// let cluster = kubeconfig.cluster("staging").expect("the text defines it");
/// assert_eq!(cluster.server.as_deref(), Some("https://10.0.0.1:6443"));
/// assert!(!cluster.insecure_skip_tls_verify);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", expecting = "a cluster")]
pub struct Cluster {
    /// The address: a URL, or a bare `host:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The name expected in the server's certificate, if it is not the host of the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    /// True if the server is not verified.
    #[serde(default, deserialize_with = "as_default", skip_serializing_if = "std::ops::Not::not")]
    pub insecure_skip_tls_verify: bool,
    /// A file with the trusted roots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<PathBuf>,
    /// The trusted roots, as base64 of PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority_data: Option<String>,
    /// The proxy for this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
    /// True if responses are requested without compression.
    #[serde(default, deserialize_with = "as_default", skip_serializing_if = "std::ops::Not::not")]
    pub disable_compression: bool,
    /// Data of other programs, including credential plugins.
    #[serde(default, deserialize_with = "as_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<NamedExtension>,
    /// Fields that this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
    /// The file that defines this entry.
    #[serde(skip)]
    pub origin: Option<PathBuf>,
}

/// A user and its name.
///
/// ```
/// use dogwatch_client::config::{NamedUser, User};
///
/// let user = User { token: Some("secret".into()), ..User::default() };
/// let entry = NamedUser { name: "jane".to_owned(), user, ..NamedUser::default() };
/// assert!(!format!("{entry:?}").contains("secret"));
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(expecting = "a user with its name")]
pub struct NamedUser {
    /// The name that contexts refer to.
    #[serde(default, deserialize_with = "as_default")]
    pub name: String,
    /// The user.
    #[serde(default, deserialize_with = "as_default")]
    pub user: User,
    /// Fields that this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// A context and its name.
///
/// ```
/// use dogwatch_client::config::{Context, NamedContext};
///
/// let context = Context { namespace: Some("shop".to_owned()), ..Context::default() };
/// let entry = NamedContext { name: "shop".to_owned(), context, ..NamedContext::default() };
/// assert_eq!(entry.context.namespace.as_deref(), Some("shop"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a context with its name")]
pub struct NamedContext {
    /// The name that `current-context` and callers refer to.
    #[serde(default, deserialize_with = "as_default")]
    pub name: String,
    /// The context.
    #[serde(default, deserialize_with = "as_default")]
    pub context: Context,
    /// Fields that this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// A combination of a cluster, a user and a namespace.
///
/// ```
/// use dogwatch_client::config::Kubeconfig;
///
/// let text = "contexts: [{name: shop, context: {cluster: staging, namespace: shop}}]";
/// let kubeconfig = Kubeconfig::from_yaml(text)?;
/// let context = kubeconfig.context("shop").expect("the text defines it");
/// assert_eq!(context.cluster.as_deref(), Some("staging"));
/// assert_eq!(context.user, None); // anonymous
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a context")]
pub struct Context {
    /// The name of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The name of the user; `None` is anonymous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The namespace of requests that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
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

macro_rules! named {
    ($($entry:ty),*) => {
        $(impl Named for $entry {
            fn name(&self) -> &str {
                &self.name
            }
        })*
    };
}

named!(NamedCluster, NamedUser, NamedContext);

impl Kubeconfig {
    /// Creates a kubeconfig with one cluster, one user and one context, all called `name`, and
    /// makes the context current.
    pub fn single(name: impl Into<String>, cluster: Cluster, user: User) -> Self {
        let name = name.into();
        let context = Context { cluster: Some(name.clone()), user: Some(name.clone()), ..Context::default() };
        Self {
            api_version: Some("v1".to_owned()),
            kind: Some("Config".to_owned()),
            clusters: vec![NamedCluster { name: name.clone(), cluster, ..NamedCluster::default() }],
            users: vec![NamedUser { name: name.clone(), user, ..NamedUser::default() }],
            contexts: vec![NamedContext { name: name.clone(), context, ..NamedContext::default() }],
            current_context: Some(name),
            ..Self::default()
        }
    }

    /// Returns the cluster of this name.
    pub fn cluster(&self, name: &str) -> Option<&Cluster> {
        find(&self.clusters, name).map(|entry| &entry.cluster)
    }

    /// Returns the user of this name.
    pub fn user(&self, name: &str) -> Option<&User> {
        find(&self.users, name).map(|entry| &entry.user)
    }

    /// Returns the context of this name.
    pub fn context(&self, name: &str) -> Option<&Context> {
        find(&self.contexts, name).map(|entry| &entry.context)
    }
}

/// Returns the first entry of this name.
fn find<'a, T: Named>(entries: &'a [T], name: &str) -> Option<&'a T> {
    entries.iter().find(|entry| entry.name() == name)
}

impl fmt::Debug for Cluster {
    /// Hides passwords in addresses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("server", &self.server.as_deref().map(redact::address))
            .field("tls_server_name", &self.tls_server_name)
            .field("insecure_skip_tls_verify", &self.insecure_skip_tls_verify)
            .field("certificate_authority", &self.certificate_authority)
            .field("certificate_authority_data", &self.certificate_authority_data)
            .field("proxy_url", &self.proxy_url.as_deref().map(redact::address))
            .field("disable_compression", &self.disable_compression)
            .field("extensions", &self.extensions)
            .field("other", &self.other)
            .field("origin", &self.origin)
            .finish()
    }
}
