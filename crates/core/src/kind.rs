//! Group, version, kind and plural: the names of a collection.

use std::borrow::Cow;
use std::fmt;

use compact_str::CompactString;
use kube_core::discovery::ApiResource;

/// A group, a version and a kind, as in `apiVersion` and `kind` of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvk {
    /// The API group; empty for the core group.
    pub group: CompactString,
    /// The version inside the group, for example `v1`.
    pub version: CompactString,
    /// The kind in CamelCase, for example `Pod`.
    pub kind: CompactString,
}

/// A group, a version and a plural resource name, as in a URL path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvr {
    /// The API group; empty for the core group.
    pub group: CompactString,
    /// The version inside the group, for example `v1`.
    pub version: CompactString,
    /// The plural in lower case, for example `pods`.
    pub resource: CompactString,
}

/// The scope of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// Every object has a namespace.
    Namespaced,
    /// Objects belong to the cluster as a whole.
    Cluster,
}

/// A collection of an API server, with everything needed to address it and to name its objects.
///
/// Typed handles derive it from their type, dynamic ones take it from discovery or from a literal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceType {
    /// The group, version and kind of its objects.
    pub gvk: Gvk,
    /// The plural name used in paths, for example `pods`.
    pub plural: CompactString,
    /// The scope of its objects.
    pub scope: Scope,
}

impl Gvk {
    /// Creates a kind; `group` is empty for the core group.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Creates a kind from an `apiVersion` (`v1`, `apps/v1`).
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self::new(group, version, kind)
    }

    /// Returns the `apiVersion`: `v1` or `apps/v1`.
    pub fn api_version(&self) -> Cow<'_, str> {
        api_version(&self.group, &self.version)
    }
}

impl Gvr {
    /// Creates a resource name; `group` is empty for the core group.
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// Returns the `apiVersion`: `v1` or `apps/v1`.
    pub fn api_version(&self) -> Cow<'_, str> {
        api_version(&self.group, &self.version)
    }
}

impl ResourceType {
    /// Creates a namespaced resource type.
    pub fn namespaced(gvk: Gvk, plural: &str) -> Self {
        Self { gvk, plural: plural.into(), scope: Scope::Namespaced }
    }

    /// Creates a cluster-scoped resource type.
    pub fn cluster(gvk: Gvk, plural: &str) -> Self {
        Self { gvk, plural: plural.into(), scope: Scope::Cluster }
    }

    /// Returns the resource type of a kube-core type, dynamic or not.
    pub fn of<K: kube_core::Resource>(dynamic: &K::DynamicType, scope: Scope) -> Self {
        Self {
            gvk: Gvk::new(&K::group(dynamic), &K::version(dynamic), &K::kind(dynamic)),
            plural: K::plural(dynamic).as_ref().into(),
            scope,
        }
    }

    /// Returns the group, version and plural.
    pub fn gvr(&self) -> Gvr {
        Gvr {
            group: self.gvk.group.clone(),
            version: self.gvk.version.clone(),
            resource: self.plural.clone(),
        }
    }

    /// Converts this into kube-core's `ApiResource`.
    pub fn api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.gvk.group.to_string(),
            version: self.gvk.version.to_string(),
            api_version: self.gvk.api_version().into_owned(),
            kind: self.gvk.kind.to_string(),
            plural: self.plural.to_string(),
        }
    }
}

impl fmt::Display for Gvk {
    /// Writes `Pod.v1`, `Deployment.v1.apps`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.kind, &self.version, &self.group)
    }
}

impl fmt::Display for Gvr {
    /// Writes `pods.v1`, `deployments.v1.apps`: the fully qualified form that kubectl accepts
    /// (`ParseResourceArg` in k8s.io/apimachinery v0.36.4 pkg/runtime/schema/group_version.go).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.resource, &self.version, &self.group)
    }
}

fn dotted(f: &mut fmt::Formatter<'_>, name: &str, version: &str, group: &str) -> fmt::Result {
    write!(f, "{name}.{version}")?;
    if !group.is_empty() {
        write!(f, ".{group}")?;
    }
    Ok(())
}

fn api_version<'a>(group: &str, version: &'a str) -> Cow<'a, str> {
    if group.is_empty() { Cow::Borrowed(version) } else { Cow::Owned(format!("{group}/{version}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_version_splits_and_joins() {
        for (text, group, version) in [("v1", "", "v1"), ("apps/v1", "apps", "v1")] {
            let gvk = Gvk::from_api_version(text, "X");
            assert_eq!((gvk.group.as_str(), gvk.version.as_str()), (group, version));
            assert_eq!(gvk.api_version(), text);
        }
    }

    #[test]
    fn resource_names_print_in_the_form_kubectl_accepts() {
        assert_eq!(Gvr::new("", "v1", "pods").to_string(), "pods.v1");
        assert_eq!(Gvr::new("apps", "v1", "deployments").to_string(), "deployments.v1.apps");
    }
}
