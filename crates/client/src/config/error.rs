//! Errors of the configuration, with one variant per reaction of the caller.
//!
//! Every message names the file, the position in it or the entry and field, and never a secret.
//! Several problems are reported together, one per line. Causes are part of the text, because a
//! list of problems has no single source.

use std::fmt;
use std::path::{Path, PathBuf};

/// An error of the configuration.
///
/// ```
/// use dogwatch_client::Config;
/// use dogwatch_client::config::{ConfigError, Environment, Overrides};
///
/// match Config::infer(&Environment::empty(), &Overrides::default()) {
///     Ok(config) => println!("{}", config.server),
///     Err(error) if error.is_context_not_found() => println!("choose another context"),
///     Err(ConfigError::NoCluster(searched)) => assert!(searched.contexts.is_empty()),
///     Err(ConfigError::Files(files)) => files.iter().for_each(|it| println!("{it}")),
///     Err(error) => panic!("{error}"),
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Files cannot be read or are not kubeconfigs: correct the files.
    #[error("{}", Listed("cannot read the kubeconfig", .0))]
    Files(Vec<FileError>),
    /// The caller asked for a name that no file defines: ask for another.
    #[error("{kind} {name:?} does not exist; {}", Known(.known))]
    NotFound {
        /// The kind of the missing entry.
        kind: EntryKind,
        /// The name that was given.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// Entries contradict each other or are incomplete: correct the entries named.
    #[error("{}", Listed("the configuration cannot be used", .0))]
    Invalid(Vec<ConfigProblem>),
    /// Credentials would be sent in clear text: use TLS, or set `allow_plaintext_credentials`.
    #[error(
        "refusing to send {credential} of {user} in clear text to {server}; \
         use https:// in the server of {cluster}, or allow plaintext credentials"
    )]
    PlaintextCredentials {
        /// The server that would have received them.
        server: String,
        /// The kind of credential, for the message.
        credential: &'static str,
        /// The user that has the credential.
        user: Box<ConfigEntry>,
        /// The cluster that sets the server.
        cluster: Box<ConfigEntry>,
    },
    /// No cluster is configured: name one.
    #[error("{0}")]
    NoCluster(NoCluster),
    /// The process does not run in a pod, or the pod has no service account.
    #[error("not running in a pod: {reason}")]
    NotInCluster {
        /// The missing variable or file.
        reason: String,
    },
    /// The server's address has a part that is not allowed: correct `Config::server`.
    #[error("the address of the server {problem}")]
    Server {
        /// The part and its remedy. The address itself is not shown: it may hold a password.
        problem: &'static str,
    },
    /// A kubeconfig cannot be serialised.
    #[error("the kubeconfig cannot be written: {reason}")]
    Unwritable {
        /// The error of the serialiser.
        reason: String,
    },
}

impl ConfigError {
    /// Returns true if nothing is configured at all, as opposed to something being wrong.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::NoCluster(_))
    }

    /// Returns true if a context, chosen by the caller or by the file, does not exist.
    pub fn is_context_not_found(&self) -> bool {
        match self {
            Self::NotFound { kind, .. } => *kind == EntryKind::Context,
            Self::Invalid(problems) => problems.iter().any(|problem| problem.field == "current-context"),
            _ => false,
        }
    }
}

/// One file that cannot be used.
///
/// ```
/// use dogwatch_client::config::{ConfigError, Kubeconfig};
///
/// let error = Kubeconfig::from_yaml("clusters: 3").expect_err("not a list");
/// let ConfigError::Files(files) = error else { panic!("{error}") };
/// assert_eq!(files[0].file, None); // a text, not a file
/// assert!(!files[0].message.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileError {
    /// The file; `None` if the text came from the caller.
    pub file: Option<PathBuf>,
    /// Line and column, from 1, of a syntax error.
    pub position: Option<(u64, u64)>,
    /// The problem.
    pub message: String,
}

impl FileError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { file: None, position: None, message: message.into() }
    }

    pub(super) fn at(self, line: u64, column: u64) -> Self {
        Self { position: Some((line, column)), ..self }
    }

    pub(super) fn in_file(self, file: &Path) -> Self {
        Self { file: Some(file.to_owned()), ..self }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}: ", file.display())?,
            None => f.write_str("the given text: ")?,
        }
        if let Some((line, column)) = self.position {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for FileError {}

/// The sections of a kubeconfig.
///
/// ```
/// use dogwatch_client::config::EntryKind;
///
/// assert_eq!(EntryKind::Context.to_string(), "context");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryKind {
    /// An entry of `contexts`.
    Context,
    /// An entry of `clusters`.
    Cluster,
    /// An entry of `users`.
    User,
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Context => "context",
            Self::Cluster => "cluster",
            Self::User => "user",
        })
    }
}

/// An entry as messages name it: its kind, its name and the file that defines it.
///
/// ```
/// use dogwatch_client::Config;
/// use dogwatch_client::config::{ConfigError, EntryKind, Overrides};
///
/// let text = "{clusters: [{name: a, cluster: {server: 'http://['}}], \
///             contexts: [{name: a, context: {cluster: a}}], current-context: a}";
/// let error = Config::from_kubeconfig_str(text, &Overrides::default()).expect_err("no server");
/// let ConfigError::Invalid(problems) = error else { panic!("{error}") };
/// assert_eq!(problems[0].entry.kind, EntryKind::Cluster);
/// assert_eq!(problems[0].entry.name, "a");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigEntry {
    /// The section it is in.
    pub kind: EntryKind,
    /// The name; empty for values that the caller gave without naming an entry.
    pub name: String,
    /// The file that defines it, if one does.
    pub file: Option<PathBuf>,
}

impl ConfigEntry {
    pub(super) fn new(kind: EntryKind, name: &str, file: Option<&PathBuf>) -> Self {
        Self { kind, name: name.to_owned(), file: file.cloned() }
    }

    /// Creates a problem with one field of this entry.
    pub(super) fn problem(&self, field: &'static str, message: impl Into<String>) -> ConfigProblem {
        ConfigProblem { entry: self.clone(), field, message: message.into() }
    }
}

impl fmt::Display for ConfigEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name.as_str(), &self.file) {
            ("", None) => write!(f, "the {} given by the caller", self.kind),
            (name, None) => write!(f, "{} {name:?}", self.kind),
            (name, Some(file)) => write!(f, "{} {name:?} of {}", self.kind, file.display()),
        }
    }
}

/// A problem with one field of one entry.
///
/// ```
/// use dogwatch_client::Config;
/// use dogwatch_client::config::{ConfigError, Overrides};
///
/// let text = "{clusters: [{name: a, cluster: {server: 'http://['}}], \
///             contexts: [{name: a, context: {cluster: a}}], current-context: a}";
/// let error = Config::from_kubeconfig_str(text, &Overrides::default()).expect_err("no server");
/// let ConfigError::Invalid(problems) = error else { panic!("{error}") };
/// assert_eq!(problems[0].field, "server");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigProblem {
    /// The entry.
    pub entry: ConfigEntry,
    /// The field, spelled as in the file.
    pub field: &'static str,
    /// The problem with the field.
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.entry, self.field, self.message)
    }
}

/// The places that were searched for a configuration, without success.
///
/// ```
/// use dogwatch_client::Config;
/// use dogwatch_client::config::{ConfigError, Environment, Overrides};
///
/// let environment = Environment::empty().with_home("/does/not/exist");
/// let result = Config::infer(&environment, &Overrides::default());
/// let Err(ConfigError::NoCluster(searched)) = result else { panic!("{result:?}") };
/// searched.looked_at.iter().for_each(|place| println!("{place}"));
/// assert!(searched.no_pod.is_some());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoCluster {
    /// The places that were searched, each with the result.
    pub looked_at: Vec<String>,
    /// The contexts that exist but were not chosen.
    pub contexts: Vec<String>,
    /// The reason why the process does not run in a pod; `None` if that was not checked.
    pub no_pod: Option<String>,
}

impl fmt::Display for NoCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.contexts.is_empty() {
            return write!(
                f,
                "no context is chosen and the kubeconfig has no current-context; {}",
                Known(&self.contexts)
            );
        }
        f.write_str("no cluster is configured: ")?;
        match self.looked_at.as_slice() {
            [] => f.write_str("there is no kubeconfig")?,
            places => write!(f, "searched {}", places.join(", "))?,
        }
        if let Some(reason) = &self.no_pod {
            write!(f, "; not running in a pod: {reason}")?;
        }
        f.write_str("; set KUBECONFIG to the path of a kubeconfig, or name a server")
    }
}

/// A heading followed by one item on the same line, or by several on lines of their own.
struct Listed<'a, T>(&'static str, &'a [T]);

impl<T: fmt::Display> fmt::Display for Listed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(head, items) = self;
        if let [item] = items {
            return write!(f, "{head}: {item}");
        }
        write!(f, "{head}:")?;
        items.iter().try_for_each(|item| write!(f, "\n  {item}"))
    }
}

/// The names that exist, as a hint for a mistyped name.
pub(super) struct Known<'a>(pub(super) &'a [String]);

impl fmt::Display for Known<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.0.split_first() else {
            return f.write_str("none is defined");
        };
        write!(f, "defined: {first:?}")?;
        rest.iter().try_for_each(|name| write!(f, ", {name:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_problem_is_one_line_and_several_are_a_list() {
        let entry = ConfigEntry::new(EntryKind::User, "a", Some(&PathBuf::from("/k")));
        let one = entry.problem("token", "is odd");
        let two = ConfigEntry::new(EntryKind::Cluster, "", None).problem("server", "is missing");
        assert_eq!(
            ConfigError::Invalid(vec![one.clone()]).to_string(),
            "the configuration cannot be used: user \"a\" of /k: token: is odd"
        );
        assert_eq!(
            ConfigError::Invalid(vec![one, two]).to_string(),
            "the configuration cannot be used:\n  user \"a\" of /k: token: is odd\n  \
             the cluster given by the caller: server: is missing"
        );
    }

    #[test]
    fn a_file_error_names_file_line_and_column() {
        let error = FileError::new("expected a mapping");
        assert_eq!(error.to_string(), "the given text: expected a mapping");
        let error = error.at(3, 7).in_file(Path::new("/k"));
        assert_eq!(error.to_string(), "/k: line 3, column 7: expected a mapping");
    }
}
