//! Configuration from files, variables and overrides: the facts of rules KC-1 to KC-10.

mod infer;
mod load;
mod messages;
mod migrate;
mod properties;
mod resolve;
mod validate;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use dogwatch_client::config::{Cluster, Config, ConfigError, Environment, Kubeconfig, Overrides, User};
use secrecy::{ExposeSecret as _, SecretString};
use tempfile::TempDir;

/// A directory of files for one test.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a file, creating its directories.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Returns a path in the directory, whether it exists or not.
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Returns default overrides, changed by `change`.
fn overrides(change: impl FnOnce(&mut Overrides)) -> Overrides {
    let mut overrides = Overrides::default();
    change(&mut overrides);
    overrides
}

/// Returns overrides of a cluster's fields.
fn with_cluster(cluster: Cluster) -> Overrides {
    overrides(|it| it.cluster_info = cluster)
}

/// Returns overrides of a user's fields.
fn with_user(user: User) -> Overrides {
    overrides(|it| it.user_info = user)
}

fn resolve_with(yaml: &str, overrides: &Overrides) -> Result<Config, ConfigError> {
    Config::resolve(&Kubeconfig::from_yaml(yaml).unwrap(), overrides, &Environment::empty())
}

fn resolve(yaml: &str) -> Result<Config, ConfigError> {
    resolve_with(yaml, &Overrides::default())
}

/// Returns a kubeconfig with one context, cluster and user called `a`, with these fields.
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

/// Returns the warnings that `act` logs, each with its fields on one line.
fn warnings_of(act: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), act);
    log.take()
}

/// A subscriber that records warnings.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Returns the warnings since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn event(&self, event: &tracing::Event<'_>) {
        struct Line(String);
        impl tracing::field::Visit for Line {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{field}={value:?} ");
            }
        }
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
