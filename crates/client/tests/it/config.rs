//! From files, variables and a caller's words to settings: the facts of rules KC-1 to KC-10.

mod infer;
mod load;
mod messages;
mod properties;
mod resolve;
mod validate;

use std::path::PathBuf;

use dogwatch_client::config::{Cluster, Config, ConfigError, Environment, Kubeconfig, Overrides, User};
use secrecy::{ExposeSecret as _, SecretString};
use tempfile::TempDir;

/// A directory of files for one test.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a file, and the directories above it.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A path in the directory, whether it exists or not.
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Overrides that differ from none in what `change` sets.
fn overrides(change: impl FnOnce(&mut Overrides)) -> Overrides {
    let mut overrides = Overrides::default();
    change(&mut overrides);
    overrides
}

/// Overrides of a cluster's fields.
fn with_cluster(cluster: Cluster) -> Overrides {
    overrides(|it| it.cluster_info = cluster)
}

/// Overrides of a user's fields.
fn with_user(user: User) -> Overrides {
    overrides(|it| it.user_info = user)
}

fn resolve_with(yaml: &str, overrides: &Overrides) -> Result<Config, ConfigError> {
    Config::resolve(&Kubeconfig::from_yaml(yaml).unwrap(), overrides, &Environment::empty())
}

fn resolve(yaml: &str) -> Result<Config, ConfigError> {
    resolve_with(yaml, &Overrides::default())
}

/// A kubeconfig with one context, cluster and user called `a`, holding these fields.
fn single(cluster: &str, user: &str) -> String {
    format!(
        "clusters: [{{name: a, cluster: {cluster}}}]\nusers: [{{name: a, user: {user}}}]\n\
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\ncurrent-context: a\n"
    )
}

fn token(config: &Config) -> Option<&str> {
    config.auth.token.as_ref().map(|token| token.expose_secret())
}

fn secret(text: &str) -> Option<SecretString> {
    Some(text.into())
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}
