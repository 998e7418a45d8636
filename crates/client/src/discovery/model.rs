//! One reading of what a server serves: groups, their versions, their resources; look-ups, no I/O.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use dogwatch_core::{Gvk, Gvr, ResourceType, Scope};

use crate::error::Error;
use crate::transport::TransportErrorKind;

/// What a server serves, as far as it could be found out.
///
/// Groups are in the server's order of priority, the core group first. What could not be found out is in `failures`:
/// the rest is still good (rules DI-1, DI-2).
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// The groups, highest priority first.
    pub groups: Vec<ApiGroup>,
    /// The versions whose resources are not known.
    pub failures: Vec<GroupFailure>,
}

/// One group and its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiGroup {
    /// The name; empty for the core group.
    pub name: String,
    /// The versions, the preferred one first. None that is stale.
    pub versions: Vec<ApiVersion>,
}

/// One version of a group and its resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiVersion {
    /// The version, for example `v1`.
    pub version: String,
    /// The resources, in the server's order. Empty when they could not be found out.
    pub resources: Vec<ServedResource>,
    /// Resources the server gives no kind for: nothing of them can be used but their subresources.
    pub orphans: Vec<ServedResource>,
}

/// One resource as one version of a group serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedResource {
    /// How to address it and what its objects are called.
    pub resource: ResourceType,
    /// The singular, for example `pod`.
    pub singular: String,
    /// Short names, for example `po`.
    pub short_names: Vec<String>,
    /// Categories, for example `all`.
    pub categories: Vec<String>,
    /// What can be done with it, for example `list`.
    pub verbs: Vec<String>,
    /// Parts of its objects with a path of their own.
    pub subresources: Vec<ServedSubresource>,
}

/// A part of an object with a path of its own, for example `scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedSubresource {
    /// The last part of its path.
    pub name: String,
    /// What it gives; not always a kind of the group it is found in.
    pub gvk: Gvk,
    /// What can be done with it.
    pub verbs: Vec<String>,
}

/// A version whose resources are not known.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the resources of {} are not known", GroupVersion(group, version))]
pub struct GroupFailure {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// Why.
    #[source]
    pub reason: FailureReason,
}

/// Why the resources of a version are not known.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FailureReason {
    /// The server itself could not find them out: the server behind it is down.
    #[error("stale GroupVersion discovery: the server behind it does not answer")]
    Stale,
    /// The server answered with no resource at all.
    #[error("received empty response")]
    Empty,
    /// The server could not be asked, or refused.
    #[error(transparent)]
    Failed(Arc<Error>),
}

impl Discovery {
    /// Whether everything could be found out.
    pub fn is_complete(&self) -> bool {
        self.failures.is_empty()
    }

    /// A group by its name; empty for the core group.
    pub fn group(&self, name: &str) -> Option<&ApiGroup> {
        self.groups.iter().find(|it| it.name == name)
    }

    /// Whether a version of a group is served, known or not.
    pub fn serves(&self, group: &str, version: &str) -> bool {
        self.group(group).is_some_and(|it| it.version(version).is_some())
    }

    /// Every resource in every version, in the server's order.
    pub fn resources(&self) -> impl Iterator<Item = &ServedResource> {
        self.groups.iter().flat_map(|group| &group.versions).flat_map(|version| &version.resources)
    }

    /// Every resource once: in the preferred version of its group, or else in the first that has it.
    pub fn preferred_resources(&self) -> impl Iterator<Item = &ServedResource> {
        let mut seen = HashSet::new();
        self.resources().filter(move |it| seen.insert((&it.resource.gvk.group, &it.resource.plural)))
    }

    /// The resource whose objects are of this kind.
    pub fn by_kind(&self, kind: &Gvk) -> Option<&ServedResource> {
        let version = self.group(&kind.group)?.version(&kind.version)?;
        version.resources.iter().find(|it| it.resource.gvk.kind == kind.kind)
    }

    /// The resource of this name.
    pub fn by_resource(&self, resource: &Gvr) -> Option<&ServedResource> {
        let version = self.group(&resource.group)?.version(&resource.version)?;
        version.resources.iter().find(|it| it.resource.plural == resource.resource)
    }

    /// The resources of a category, for example `all`, each in one version.
    pub fn in_category<'a>(&'a self, category: &str) -> Vec<&'a ServedResource> {
        self.preferred_resources().filter(|it| it.categories.iter().any(|its| its == category)).collect()
    }
}

impl ApiGroup {
    /// The version the server prefers, unless no version is usable.
    pub fn preferred(&self) -> Option<&ApiVersion> {
        self.versions.first()
    }

    /// A version by its name.
    pub fn version(&self, version: &str) -> Option<&ApiVersion> {
        self.versions.iter().find(|it| it.version == version)
    }

    /// The name of the group and one of its versions as `apiVersion` says them.
    pub(crate) fn group_version(&self, version: &ApiVersion) -> String {
        GroupVersion(&self.name, &version.version).to_string()
    }
}

impl ApiVersion {
    /// A version whose resources are not known.
    pub(crate) fn unknown(version: &str) -> Self {
        Self { version: version.to_owned(), ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.orphans.is_empty()
    }
}

impl ServedResource {
    /// Whether a verb can be used on it.
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|it| it == verb)
    }

    /// Whether all of these verbs can be used on it.
    pub fn supports_all(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|it| self.supports(it))
    }

    /// A subresource by its name.
    pub fn subresource(&self, name: &str) -> Option<&ServedSubresource> {
        self.subresources.iter().find(|it| it.name == name)
    }

    /// Whether its objects live in namespaces.
    pub fn is_namespaced(&self) -> bool {
        self.resource.scope == Scope::Namespaced
    }

    /// The form a person types when the plural alone is not enough: `pods`, `deployments.apps`.
    pub fn group_resource(&self) -> String {
        let (group, plural) = (&self.resource.gvk.group, &self.resource.plural);
        if group.is_empty() { plural.to_string() } else { format!("{plural}.{group}") }
    }
}

impl ServedSubresource {
    /// Whether a verb can be used on it.
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|it| it == verb)
    }
}

impl GroupFailure {
    pub(crate) fn new(group: &str, version: &str, reason: FailureReason) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), reason }
    }

    /// Group and version as `apiVersion` says them.
    pub fn group_version(&self) -> String {
        GroupVersion(&self.group, &self.version).to_string()
    }
}

impl FailureReason {
    /// Whether asking again soon may help (rule DI-3): a server that is overloaded, failing or not there.
    pub fn is_transient(&self) -> bool {
        let Self::Failed(error) = self else { return false };
        let overloaded = |code: u16| code >= 500 || code == 429;
        match error.transport() {
            Some(kind) => matches!(
                kind,
                TransportErrorKind::Refused | TransportErrorKind::Lost | TransportErrorKind::Timeout
            ),
            None => error.status().is_some_and(|it| overloaded(it.code)),
        }
    }
}

/// `v1` or `apps/v1`.
pub(crate) struct GroupVersion<'a>(pub(crate) &'a str, pub(crate) &'a str);

impl fmt::Display for GroupVersion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => f.write_str(self.1),
            group => write!(f, "{group}/{}", self.1),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A resource for tables: `plural Kind` and short names.
    pub(crate) fn served(
        group: &str,
        version: &str,
        plural: &str,
        kind: &str,
        short: &[&str],
    ) -> ServedResource {
        ServedResource {
            resource: ResourceType::namespaced(Gvk::new(group, version, kind), plural),
            singular: kind.to_lowercase(),
            short_names: short.iter().map(ToString::to_string).collect(),
            categories: Vec::new(),
            verbs: vec!["get".to_owned(), "list".to_owned()],
            subresources: Vec::new(),
        }
    }

    /// Groups and versions out of resources, in the order they come.
    pub(crate) fn discovery(resources: impl IntoIterator<Item = ServedResource>) -> Discovery {
        let mut result = Discovery::default();
        for resource in resources {
            let (group, version) =
                (resource.resource.gvk.group.clone(), resource.resource.gvk.version.clone());
            if result.group(&group).is_none() {
                result.groups.push(ApiGroup { name: group.to_string(), versions: Vec::new() });
            }
            let group = result.groups.iter_mut().find(|it| it.name == group.as_str()).expect("just added");
            if group.version(&version).is_none() {
                group.versions.push(ApiVersion::unknown(&version));
            }
            let version =
                group.versions.iter_mut().find(|it| it.version == version.as_str()).expect("just added");
            version.resources.push(resource);
        }
        result
    }

    #[test]
    fn di_1_server_preferred_resources_takes_each_resource_in_its_first_version() {
        let found = discovery([
            served("apps", "v1", "deployments", "Deployment", &[]),
            served("apps", "v2alpha1", "deployments", "Deployment", &[]),
            served("apps", "v2alpha1", "oddities", "Oddity", &[]),
        ]);
        let names: Vec<_> = found.preferred_resources().map(|it| it.resource.gvr().to_string()).collect();
        assert_eq!(names, ["deployments.v1.apps", "oddities.v2alpha1.apps"]);
        assert_eq!(found.resources().count(), 3);
    }

    #[test]
    fn di_1_server_preferred_namespaced_resources_is_a_filter() {
        let mut nodes = served("", "v1", "nodes", "Node", &[]);
        nodes.resource.scope = Scope::Cluster;
        let found = discovery([served("", "v1", "pods", "Pod", &[]), nodes]);
        let names: Vec<_> = found
            .preferred_resources()
            .filter(|it| it.is_namespaced())
            .map(|it| it.resource.plural.as_str())
            .collect();
        assert_eq!(names, ["pods"]);
    }

    #[test]
    fn di_1_server_supports_version_and_look_ups() {
        let found = discovery([
            served("", "v1", "pods", "Pod", &[]),
            served("apps", "v1", "deployments", "Deployment", &[]),
        ]);
        assert!(found.serves("", "v1") && found.serves("apps", "v1"));
        assert!(!found.serves("", "v2") && !found.serves("batch", "v1"));
        let kind = found.by_kind(&Gvk::new("apps", "v1", "Deployment")).expect("served");
        assert_eq!(kind.group_resource(), "deployments.apps");
        assert!(found.by_kind(&Gvk::new("apps", "v2", "Deployment")).is_none());
        assert!(found.by_resource(&Gvr::new("", "v1", "pods")).is_some());
        assert_eq!(
            found.group("apps").and_then(ApiGroup::preferred).map(|it| it.version.as_str()),
            Some("v1")
        );
    }

    #[test]
    fn di_1_filtered_by_verbs() {
        let pods = served("", "v1", "pods", "Pod", &[]);
        assert!(pods.supports("get") && pods.supports_all(&["get", "list"]) && pods.supports_all(&[]));
        assert!(!pods.supports("watch") && !pods.supports_all(&["get", "watch"]));
    }

    #[test]
    fn di_5_a_category_holds_each_resource_once() {
        let mut resources = [
            served("apps", "v1", "deployments", "Deployment", &[]),
            served("apps", "v1beta1", "deployments", "Deployment", &[]),
            served("apps", "v1", "controllerrevisions", "ControllerRevision", &[]),
        ];
        resources[0].categories.push("all".to_owned());
        resources[1].categories.push("all".to_owned());
        let found = discovery(resources);
        let names: Vec<_> = found.in_category("all").iter().map(|it| it.resource.gvr().to_string()).collect();
        assert_eq!(names, ["deployments.v1.apps"]);
        assert!(found.in_category("other").is_empty());
    }
}
