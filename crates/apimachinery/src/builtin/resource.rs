//! The description of a resource: its names, scope, verbs and subresources.
//!
//! Those of built-in resources are read from the table; the registry creates those of custom
//! resources from their definitions. Discovery and the OpenAPI documents treat both alike.

use std::borrow::Cow;
use std::sync::Arc;

use dogwatch_core::{Gvk, Gvr, ResourceType, Scope};
use serde::Deserialize;

/// A resource in one version.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ResourceDef {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version inside the group.
    pub version: String,
    /// The kind of its objects.
    pub kind: String,
    /// The kind of its lists. Empty means the kind followed by `List`.
    #[serde(default, rename = "listKind")]
    pub list_kind: String,
    /// The plural name used in paths.
    #[serde(rename = "resource")]
    pub plural: String,
    /// The singular name.
    pub singular: String,
    /// The short names, such as `po`.
    #[serde(rename = "shortNames")]
    pub short_names: Vec<String>,
    /// The categories, such as `all`.
    pub categories: Vec<String>,
    /// True if its objects are in namespaces.
    pub namespaced: bool,
    /// The verbs, in the order in which discovery lists them.
    pub verbs: Vec<String>,
    /// The subresources, in the order in which discovery lists them.
    pub subresources: Vec<SubresourceDef>,
    /// True if this is the version of the group that clients should prefer.
    pub preferred: bool,
    /// True if a CustomResourceDefinition defines it.
    #[serde(default)]
    pub custom: bool,
}

/// A subresource.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SubresourceDef {
    /// The name, which is the last part of the path.
    pub name: String,
    /// The group of its kind. Empty together with `version` if it is that of the resource.
    pub group: String,
    /// The version of its kind. Empty if group and version are those of the resource.
    pub version: String,
    /// The kind of its request and response bodies.
    pub kind: String,
    /// The verbs, in the order in which discovery lists them.
    pub verbs: Vec<String>,
}

/// A column of the table form of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// The OpenAPI type of the cells.
    pub kind: String,
    /// The OpenAPI format; `name` marks the column with the name of the object.
    pub format: String,
    /// The priority: 0 is always shown, others only in wide tables.
    pub priority: i32,
    /// The description of the cells.
    pub description: Arc<str>,
}

impl ResourceDef {
    /// The verbs of every custom resource, in the order of k8s.io/apiextensions-apiserver v0.36.4
    /// pkg/apiserver/customresource_discovery_controller.go.
    pub const CUSTOM_VERBS: [&str; 8] =
        ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

    /// Returns group, version and kind of its objects.
    pub fn gvk(&self) -> Gvk {
        Gvk::new(&self.group, &self.version, &self.kind)
    }

    /// Returns group, version and plural name, as in a path.
    pub fn gvr(&self) -> Gvr {
        Gvr::new(&self.group, &self.version, &self.plural)
    }

    /// Returns the `apiVersion` of its objects: `v1`, `apps/v1`.
    pub fn api_version(&self) -> Cow<'_, str> {
        if self.group.is_empty() {
            Cow::Borrowed(&self.version)
        } else {
            Cow::Owned(format!("{}/{}", self.group, self.version))
        }
    }

    /// Returns the kind of its lists.
    pub fn list_kind(&self) -> Cow<'_, str> {
        if self.list_kind.is_empty() {
            Cow::Owned(format!("{}List", self.kind))
        } else {
            Cow::Borrowed(&self.list_kind)
        }
    }

    /// Returns true if it is served with this verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|it| it == verb)
    }

    /// Returns the subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&SubresourceDef> {
        self.subresources.iter().find(|it| it.name == name)
    }

    /// Returns group, version and kind of the request and response bodies of a subresource.
    pub fn subresource_gvk(&self, subresource: &SubresourceDef) -> Gvk {
        if subresource.version.is_empty() {
            Gvk::new(&self.group, &self.version, &subresource.kind)
        } else {
            Gvk::new(&subresource.group, &subresource.version, &subresource.kind)
        }
    }

    /// Returns the resource as a client-side type.
    pub fn resource_type(&self) -> ResourceType {
        let scope = if self.namespaced { Scope::Namespaced } else { Scope::Cluster };
        ResourceType { gvk: self.gvk(), plural: self.plural.as_str().into(), scope }
    }
}
