//! Selection of cluster, user and namespace: from a kubeconfig and overrides to one [`Target`]
//! (rule KC-4).
//!
//! A name that the caller gives must exist. A name in a file that does not exist is a problem,
//! unless the caller supplies the entry's values. client-go goes on without the entry instead,
//! which turns a mistyped user into an anonymous one.

use super::absent::given;
use super::error::{ConfigEntry, ConfigError, ConfigProblem, EntryKind};
use super::kubeconfig::{Cluster, Context, Kubeconfig};
use super::opaque::Named;
use super::overrides::Overrides;
use super::user::User;
use super::validate;

/// The chosen entries, with the overrides applied.
#[derive(Debug)]
pub(super) struct Target {
    /// The cluster, and its name for messages.
    pub(super) cluster: Cluster,
    pub(super) cluster_entry: ConfigEntry,
    /// The user, and its name for messages.
    pub(super) user: User,
    pub(super) user_entry: ConfigEntry,
    /// The namespace of the context or the overrides, if one is set.
    pub(super) namespace: Option<String>,
    /// True if only the defaults name the server.
    pub(super) from_defaults: bool,
    /// The problems of the context: missing entries, or an invalid namespace.
    problems: Vec<ConfigProblem>,
}

impl Target {
    /// Creates a target that no file describes, with the overrides applied.
    pub(super) fn new(name: &str, mut cluster: Cluster, mut user: User, overrides: &Overrides) -> Self {
        overrides.apply_to_cluster(&mut cluster);
        overrides.apply_to_user(&mut user);
        let problems = override_namespace_problem(overrides).into_iter().collect();
        Self {
            cluster,
            cluster_entry: ConfigEntry::new(EntryKind::Cluster, name, None),
            user,
            user_entry: ConfigEntry::new(EntryKind::User, name, None),
            namespace: given(&overrides.namespace).cloned(),
            from_defaults: false,
            problems,
        }
    }

    /// Returns everything that prevents the use of this target.
    pub(super) fn problems(&self) -> Vec<ConfigProblem> {
        let mut problems = self.problems.clone();
        // A cluster that does not exist has no server, and is already reported.
        if problems.is_empty() || given(&self.cluster.server).is_some() {
            problems.extend(validate::cluster(&self.cluster_entry, &self.cluster));
        }
        problems.extend(validate::user(&self.user_entry, &self.user));
        problems
    }
}

/// Selects the entries. Returns `None` if neither the files nor the caller name a cluster.
pub(super) fn select(kubeconfig: &Kubeconfig, overrides: &Overrides) -> Result<Option<Target>, ConfigError> {
    let context_name = given(&overrides.context).or(given(&kubeconfig.current_context));
    let found = context_name.and_then(|name| kubeconfig.context(name));
    require(EntryKind::Context, &overrides.context, found.is_some(), &kubeconfig.contexts)?;
    let context = found.cloned().unwrap_or_default();

    let cluster_name = given(&overrides.cluster).or(given(&context.cluster));
    let cluster = cluster_name.and_then(|name| kubeconfig.cluster(name));
    require(EntryKind::Cluster, &overrides.cluster, cluster.is_some(), &kubeconfig.clusters)?;

    let user_name = given(&overrides.user).or(given(&context.user));
    let user = user_name.and_then(|name| kubeconfig.user(name));
    require(EntryKind::User, &overrides.user, user.is_some(), &kubeconfig.users)?;

    let mut problems = Vec::new();
    match context_name {
        Some(name) if found.is_none() => problems.push(validate::missing_current_context(name)),
        Some(name) => problems.extend(context_problems(name, &context, cluster, user, overrides)),
        None => {}
    }
    problems.extend(override_namespace_problem(overrides));

    let merged = overrides.cluster(cluster);
    if context_name.is_none() && cluster_name.is_none() && given(&merged.server).is_none() {
        return Ok(None);
    }
    let mut merged_user = user.cloned().unwrap_or_default();
    overrides.apply_to_user(&mut merged_user);
    Ok(Some(Target {
        cluster_entry: entry(EntryKind::Cluster, cluster_name, cluster.and_then(|it| it.origin.as_ref())),
        cluster: merged,
        user_entry: entry(EntryKind::User, user_name, user.and_then(|it| it.origin.as_ref())),
        user: merged_user,
        namespace: given(&overrides.namespace).or(given(&context.namespace)).cloned(),
        from_defaults: context_name.is_none()
            && cluster_name.is_none()
            && given(&overrides.cluster_info.server).is_none(),
        problems,
    }))
}

/// Returns the dangling references of a context, and an invalid namespace.
fn context_problems(
    name: &str,
    context: &Context,
    cluster: Option<&Cluster>,
    user: Option<&User>,
    overrides: &Overrides,
) -> Vec<ConfigProblem> {
    let entry = ConfigEntry::new(EntryKind::Context, name, context.origin.as_ref());
    let mut problems = Vec::new();
    if cluster.is_none() && given(&overrides.cluster_info.server).is_none() {
        problems.push(match given(&context.cluster) {
            Some(name) => validate::dangling(&entry, "cluster", name),
            None => entry.problem("cluster", "is missing"),
        });
    }
    if let Some(name) = given(&context.user)
        && user.is_none()
        && overrides.user_info.credential().is_none()
    {
        problems.push(validate::dangling(&entry, "user", name));
    }
    if given(&overrides.namespace).is_none() {
        problems.extend(validate::namespace(&entry, given(&context.namespace)));
    }
    problems
}

/// Returns the problem with the caller's namespace.
fn override_namespace_problem(overrides: &Overrides) -> Option<ConfigProblem> {
    validate::namespace(&ConfigEntry::new(EntryKind::Context, "", None), given(&overrides.namespace))
}

/// Rejects a name given by the caller that no file defines.
fn require<T: Named>(
    kind: EntryKind,
    asked: &Option<String>,
    found: bool,
    entries: &[T],
) -> Result<(), ConfigError> {
    match given(asked) {
        Some(name) if !found => Err(ConfigError::NotFound {
            kind,
            name: name.clone(),
            known: entries.iter().map(|entry| entry.name().to_owned()).collect(),
        }),
        _ => Ok(()),
    }
}

fn entry(kind: EntryKind, name: Option<&String>, file: Option<&std::path::PathBuf>) -> ConfigEntry {
    ConfigEntry::new(kind, name.map_or("", String::as_str), file)
}
