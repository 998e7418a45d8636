//! The result of discovery: groups, their versions, their resources; look-ups, no I/O.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use dogwatch_core::{Gvk, Gvr, ResourceType, Scope};

use crate::error::Error;
use crate::transport::TransportErrorKind;

/// The API resources of a server, as far as they could be discovered.
///
/// Groups are in the server's order of priority, the core group first. Versions that could not be
/// discovered are in `failures`; the rest is still valid (rules DI-1, DI-2).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let discovery = client.discover().await?;
/// for resource in discovery.preferred_resources() {
///     println!("{} {}", resource.group_resource(), resource.resource.gvk.kind);
/// }
/// assert!(discovery.is_complete() && discovery.serves("apps", "v1"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// The groups, highest priority first.
    pub groups: Vec<ApiGroup>,
    /// The versions whose resources are not known.
    pub failures: Vec<GroupFailure>,
}

/// An API group and its versions.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let discovery = client.discover().await?;
/// let apps = discovery.group("apps").expect("every server has it");
/// assert_eq!(apps.preferred().map(|it| it.version.as_str()), Some("v1"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiGroup {
    /// The name; empty for the core group.
    pub name: String,
    /// The versions, the preferred one first. Stale versions are not included.
    pub versions: Vec<ApiVersion>,
}

/// A version of a group and its resources.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let discovery = client.discover().await?;
/// let version = discovery.group("apps").and_then(|it| it.version("v1")).expect("it is served");
/// assert!(version.resources.iter().any(|it| it.singular == "deployment"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiVersion {
    /// The version, for example `v1`.
    pub version: String,
    /// The resources, in the server's order. Empty if they could not be discovered.
    pub resources: Vec<ServedResource>,
    /// The resources without a kind: only their subresources can be used.
    pub orphans: Vec<ServedResource>,
}

/// A resource as one version of a group serves it.
///
/// ```
/// use dogwatch_core::Gvk;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let discovery = client.discover().await?;
/// let kind = Gvk::new("apps", "v1", "Deployment");
/// let deployments = discovery.by_kind(&kind).expect("every server has them");
/// assert!(deployments.is_namespaced() && deployments.supports_all(&["list", "watch"]));
/// assert_eq!(deployments.short_names, ["deploy"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedResource {
    /// The resource type: path, kind and scope.
    pub resource: ResourceType,
    /// The singular, for example `pod`.
    pub singular: String,
    /// Short names, for example `po`.
    pub short_names: Vec<String>,
    /// Categories, for example `all`.
    pub categories: Vec<String>,
    /// The supported verbs, for example `list`.
    pub verbs: Vec<String>,
    /// The subresources.
    pub subresources: Vec<ServedSubresource>,
}

/// A subresource, for example `scale`.
///
/// ```
/// use dogwatch_client::discovery::ServedSubresource;
/// use dogwatch_core::Gvk;
///
/// let gvk = Gvk::new("autoscaling", "v1", "Scale");
/// let verbs = vec!["get".to_owned(), "patch".to_owned()];
/// let scale = ServedSubresource { name: "scale".to_owned(), gvk, verbs };
/// assert!(scale.supports("patch") && !scale.supports("delete"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedSubresource {
    /// The last segment of its path.
    pub name: String,
    /// The kind it returns; not always of the group it is found in.
    pub gvk: Gvk,
    /// The supported verbs.
    pub verbs: Vec<String>,
}

/// A version whose resources are not known.
///
/// ```
/// use dogwatch_client::discovery::{FailureReason, GroupFailure};
///
/// let (group, version) = ("metrics.k8s.io".to_owned(), "v1beta1".to_owned());
/// let failure = GroupFailure { group, version, reason: FailureReason::Stale };
/// assert_eq!(failure.group_version(), "metrics.k8s.io/v1beta1");
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[error("the resources of {} are not known", GroupVersion(group, version))]
pub struct GroupFailure {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The reason.
    #[source]
    pub reason: FailureReason,
}

/// The reason why the resources of a version are not known.
///
/// ```
/// use dogwatch_client::discovery::FailureReason;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// for failure in client.discover().await?.failures {
///     match failure.reason {
///         FailureReason::Stale => println!("{} is down", failure.group_version()),
///         reason if reason.is_transient() => println!("try again: {reason}"),
///         reason => println!("{reason}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FailureReason {
    /// The server itself does not know them: the aggregated API server is down.
    #[error("stale GroupVersion discovery: the aggregated API server does not answer")]
    Stale,
    /// The server returned no resource at all.
    #[error("received empty response")]
    Empty,
    /// The request failed.
    #[error(transparent)]
    Failed(Arc<Error>),
}

impl Discovery {
    /// Returns true if all versions could be discovered.
    pub fn is_complete(&self) -> bool {
        self.failures.is_empty()
    }

    /// Returns a group by its name; empty for the core group.
    pub fn group(&self, name: &str) -> Option<&ApiGroup> {
        self.groups.iter().find(|it| it.name == name)
    }

    /// Returns true if a version of a group is served, even if its resources are not known.
    pub fn serves(&self, group: &str, version: &str) -> bool {
        self.group(group).is_some_and(|it| it.version(version).is_some())
    }

    /// Iterates over every resource in every version, in the server's order.
    pub fn resources(&self) -> impl Iterator<Item = &ServedResource> {
        self.groups.iter().flat_map(|group| &group.versions).flat_map(|version| &version.resources)
    }

    /// Iterates over every resource once: in the preferred version of its group, or else in the
    /// first that has it.
    pub fn preferred_resources(&self) -> impl Iterator<Item = &ServedResource> {
        let mut seen = HashSet::new();
        self.resources().filter(move |it| seen.insert((&it.resource.gvk.group, &it.resource.plural)))
    }

    /// Returns the resource of this kind.
    pub fn by_kind(&self, kind: &Gvk) -> Option<&ServedResource> {
        let version = self.group(&kind.group)?.version(&kind.version)?;
        version.resources.iter().find(|it| it.resource.gvk.kind == kind.kind)
    }

    /// Returns the resource of this name.
    pub fn by_resource(&self, resource: &Gvr) -> Option<&ServedResource> {
        let version = self.group(&resource.group)?.version(&resource.version)?;
        version.resources.iter().find(|it| it.resource.plural == resource.resource)
    }

    /// Returns the resources of a category, for example `all`, each in one version.
    pub fn in_category<'a>(&'a self, category: &str) -> Vec<&'a ServedResource> {
        self.preferred_resources().filter(|it| it.categories.iter().any(|its| its == category)).collect()
    }
}

impl ApiGroup {
    /// Returns the version that the server prefers, unless no version is usable.
    pub fn preferred(&self) -> Option<&ApiVersion> {
        self.versions.first()
    }

    /// Returns a version by its name.
    pub fn version(&self, version: &str) -> Option<&ApiVersion> {
        self.versions.iter().find(|it| it.version == version)
    }

    /// Returns the group and version as in `apiVersion`.
    pub(crate) fn group_version(&self, version: &ApiVersion) -> String {
        GroupVersion(&self.name, &version.version).to_string()
    }
}

impl ApiVersion {
    /// Creates a version whose resources are not known.
    pub(crate) fn unknown(version: &str) -> Self {
        Self { version: version.to_owned(), ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.orphans.is_empty()
    }
}

impl ServedResource {
    /// Returns true if the resource supports a verb.
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|it| it == verb)
    }

    /// Returns true if the resource supports all of these verbs.
    pub fn supports_all(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|it| self.supports(it))
    }

    /// Returns a subresource by its name.
    pub fn subresource(&self, name: &str) -> Option<&ServedSubresource> {
        self.subresources.iter().find(|it| it.name == name)
    }

    /// Returns true if its objects are namespaced.
    pub fn is_namespaced(&self) -> bool {
        self.resource.scope == Scope::Namespaced
    }

    /// Returns the name that is unique among groups: `pods`, `deployments.apps`.
    pub fn group_resource(&self) -> String {
        let (group, plural) = (&self.resource.gvk.group, &self.resource.plural);
        if group.is_empty() { plural.to_string() } else { format!("{plural}.{group}") }
    }
}

impl ServedSubresource {
    /// Returns true if the subresource supports a verb.
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|it| it == verb)
    }
}

impl GroupFailure {
    pub(crate) fn new(group: &str, version: &str, reason: FailureReason) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), reason }
    }

    /// Returns the group and version as in `apiVersion`.
    pub fn group_version(&self) -> String {
        GroupVersion(&self.group, &self.version).to_string()
    }
}

impl FailureReason {
    /// Returns true if a retry soon may help (rule DI-3): the server is overloaded, failing or not
    /// reachable.
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

/// A group and version, displayed as `v1` or `apps/v1`.
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

    /// Creates a resource with short names, for tables.
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

    /// Groups resources by group and version, in their order.
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
