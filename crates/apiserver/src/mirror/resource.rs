//! The description of a mirrored resource, from the discovery of its server.

use serde_json::Value;

use crate::builtin::ResourceDef;

/// A resource of another server: the names that its discovery reports.
///
/// Selectable fields and printer columns of the kinds of Kubernetes are known; those of custom
/// resources come from the CustomResourceDefinition.
///
/// ```
/// use dogwatch_apiserver::mirror::MirroredResource;
/// use serde_json::json;
///
/// let pods = MirroredResource::new("", "v1", "pods", "Pod").namespaced();
/// let widgets = MirroredResource::new("example.com", "v1", "widgets", "Widget")
///     .columns(vec![json!({ "name": "Colour", "type": "string", "jsonPath": ".spec.colour" })])
///     .selectable_fields([".spec.colour"]);
/// ```
#[derive(Clone, Debug)]
pub struct MirroredResource {
    pub(super) def: ResourceDef,
    pub(super) columns: Vec<Value>,
    pub(super) selectable: Vec<String>,
}

impl MirroredResource {
    /// Creates a cluster-scoped resource. The group of the core API is empty.
    pub fn new(group: &str, version: &str, plural: &str, kind: &str) -> Self {
        let def = ResourceDef {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            list_kind: String::new(),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: false,
            verbs: ["get", "list", "watch"].map(str::to_owned).to_vec(),
            subresources: Vec::new(),
            preferred: false,
            custom: true,
        };
        Self { def, columns: Vec::new(), selectable: Vec::new() }
    }

    /// Declares that the objects are in namespaces.
    #[must_use]
    pub fn namespaced(mut self) -> Self {
        self.def.namespaced = true;
        self
    }

    /// Sets the singular name. Defaults to the kind in lower case.
    #[must_use]
    pub fn singular(mut self, singular: &str) -> Self {
        singular.clone_into(&mut self.def.singular);
        self
    }

    /// Sets the kind of lists. Defaults to the kind followed by `List`.
    #[must_use]
    pub fn list_kind(mut self, list_kind: &str) -> Self {
        list_kind.clone_into(&mut self.def.list_kind);
        self
    }

    /// Sets the `additionalPrinterColumns` of the version, as in the CustomResourceDefinition.
    /// Ignored for the kinds of Kubernetes. Defaults to none: tables then have a name and an age.
    #[must_use]
    pub fn columns(mut self, columns: Vec<Value>) -> Self {
        self.columns = columns;
        self
    }

    /// Sets the paths of the `selectableFields` of the version, as in the CustomResourceDefinition.
    /// Ignored for the kinds of Kubernetes. Defaults to none.
    #[must_use]
    pub fn selectable_fields(mut self, paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.selectable = paths.into_iter().map(Into::into).collect();
        self
    }
}
