//! All kinds at one moment, and the documents that tell of them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use serde_json::Value;

use super::kind::Kind;
use crate::builtin::{self, ResourceDef, SubresourceDef};
use crate::custom::{CustomKind, Scope, Version, names};
use crate::discovery::{self, Served};
use crate::openapi::{self, Document, Swagger};
use crate::store::CollectionName;

type Kinds = HashMap<(String, String, String), Arc<Kind>>;

static BUILTIN: LazyLock<Kinds> = LazyLock::new(|| {
    let kinds = builtin::resources().iter().map(|def| Arc::new(Kind::builtin(def)));
    kinds.map(|kind| (path_of(&kind.def), kind)).collect()
});

/// All kinds at one moment.
#[derive(Debug)]
pub struct Catalog {
    custom: Kinds,
    served: Served,
    /// The groups that only definitions make, whether they are served now or not.
    custom_groups: Vec<String>,
    documents: OnceLock<Vec<Document>>,
    /// What the OpenAPI documents tell of custom resources.
    published: HashMap<(String, String, String), openapi::CustomKind>,
    aggregated: OnceLock<[Bytes; 2]>,
    index: OnceLock<Bytes>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self::new([])
    }
}

impl Catalog {
    /// The built-in kinds, and those of these definitions that are established.
    pub fn new<'a>(definitions: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut custom = Kinds::new();
        let mut published = HashMap::new();
        let mut custom_groups = Vec::new();
        for definition in definitions {
            if !names::is_true(definition, "Established") {
                continue;
            }
            let kind = Arc::new(CustomKind::read(definition));
            custom_groups.push(kind.group.clone());
            // A definition that was changed may have let other objects in before.
            let changed = definition.pointer("/metadata/generation").and_then(Value::as_i64) != Some(1);
            let evolved = changed || kind.versions.len() > 1;
            for (at, version) in kind.versions.iter().enumerate().filter(|(_, it)| it.served) {
                let def = Arc::new(resource_def(&kind, version));
                let schema = definition.pointer(&format!("/spec/versions/{at}/schema/openAPIV3Schema"));
                let selectable = version.selectable.clone();
                let told =
                    openapi::CustomKind { resource: Arc::clone(&def), schema: schema.cloned(), selectable };
                published.insert(path_of(&def), told);
                custom.insert(path_of(&def), Arc::new(Kind::custom(def, &kind, at, evolved)));
            }
        }
        let served = Served::new(custom.values().map(|it| Arc::clone(&it.def)));
        Self {
            custom,
            served,
            custom_groups,
            published,
            documents: OnceLock::new(),
            aggregated: OnceLock::new(),
            index: OnceLock::new(),
        }
    }

    /// The resource of that path, if it is served.
    pub fn kind(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        let path = (group.to_owned(), version.to_owned(), plural.to_owned());
        BUILTIN.get(&path).or_else(|| self.custom.get(&path)).cloned()
    }

    /// The resource whose objects have that `apiVersion` and `kind`.
    pub fn kind_of(&self, api_version: &str, kind: &str) -> Option<Arc<Kind>> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        if let Some(def) = builtin::resource_of_kind(group, version, kind) {
            return self.kind(group, version, &def.plural);
        }
        let matches = |it: &&Arc<Kind>| {
            (it.def.group.as_str(), it.def.version.as_str(), it.def.kind.as_str()) == (group, version, kind)
        };
        self.custom.values().find(matches).cloned()
    }

    /// Every resource that is stored, each collection once: in the version clients should prefer.
    pub fn stored(&self) -> Vec<Arc<Kind>> {
        let mut seen: HashMap<CollectionName, Arc<Kind>> = HashMap::new();
        for def in self.served.resources().iter().filter(|it| it.has_verb("list")) {
            if let Some(kind) = self.kind(&def.group, &def.version, &def.plural)
                && def.plural != "componentstatuses"
                && (!seen.contains_key(&kind.collection) || (def.preferred && kind.shows_stored_bytes()))
            {
                seen.insert(Arc::clone(&kind.collection), kind);
            }
        }
        let mut kinds: Vec<_> = seen.into_values().collect();
        kinds.sort_by(|left, right| left.collection.cmp(&right.collection));
        kinds
    }

    /// Every custom resource that is served.
    pub fn custom(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.custom.values()
    }

    /// Whether only definitions make this group: paths of such answer otherwise when they are not served.
    pub fn is_custom_group(&self, group: &str) -> bool {
        self.custom_groups.iter().any(|it| it == group)
    }

    /// Whether this is a built-in group.
    pub fn is_builtin_group(&self, group: &str) -> bool {
        builtin::resources().iter().any(|it| it.group == group)
    }

    /// All resources, for discovery.
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// The aggregated discovery documents of `/api` and `/apis`.
    pub fn aggregated(&self) -> &[Bytes; 2] {
        self.aggregated.get_or_init(|| {
            [discovery::aggregated_core(&self.served), discovery::aggregated_groups(&self.served)]
                .map(|it| Bytes::from(format!("{it}\n")))
        })
    }

    /// The index of OpenAPI documents.
    pub fn openapi_index(&self) -> &Bytes {
        self.index.get_or_init(|| Bytes::from(openapi::index(self.documents())))
    }

    /// The OpenAPI document of a group and version, made anew where it is built in.
    pub fn openapi(&self, group: &str, version: &str) -> Option<Document> {
        openapi::builtin_document(group, version).or_else(|| self.custom_document(group, version).cloned())
    }

    /// The fingerprint of the OpenAPI document of a group and version.
    pub fn openapi_hash(&self, group: &str, version: &str) -> Option<&str> {
        openapi::builtin_hash(group, version)
            .or_else(|| self.custom_document(group, version).map(|it| it.hash.as_str()))
    }

    /// The OpenAPI v2 document of everything. It changes when the index of version 3 does.
    pub fn swagger(&self) -> Swagger {
        Swagger::new(self.published.values())
    }

    fn custom_document(&self, group: &str, version: &str) -> Option<&Document> {
        let path = format!("apis/{group}/{version}");
        self.documents().iter().find(|it| it.path == path)
    }

    fn documents(&self) -> &[Document] {
        self.documents.get_or_init(|| {
            let mut groups: Vec<(&str, &str)> =
                self.custom.keys().map(|(group, version, _)| (group.as_str(), version.as_str())).collect();
            groups.sort_unstable();
            groups.dedup();
            let document = |(group, version): (&str, &str)| {
                let of_group = |def: &&Arc<ResourceDef>| def.group == group && def.version == version;
                let defs = self.served.resources().iter().filter(of_group);
                let kinds: Vec<_> = defs.filter_map(|it| self.published.get(&path_of(it)).cloned()).collect();
                openapi::custom_document(group, version, &kinds)
            };
            groups.into_iter().map(document).collect()
        })
    }
}

fn path_of(def: &ResourceDef) -> (String, String, String) {
    (def.group.clone(), def.version.clone(), def.plural.clone())
}

/// A version of a custom kind as discovery shows it.
fn resource_def(kind: &CustomKind, version: &Version) -> ResourceDef {
    let part = |name: &str, group: &str, version: &str, kind: &str| SubresourceDef {
        name: name.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
    };
    let status = version.status.then(|| part("status", "", "", &kind.names.kind));
    let scale = version.scale.is_some().then(|| part("scale", "autoscaling", "v1", "Scale"));
    ResourceDef {
        group: kind.group.clone(),
        version: version.name.clone(),
        kind: kind.names.kind.clone(),
        list_kind: kind.names.list_kind.clone(),
        plural: kind.names.plural.clone(),
        singular: kind.names.singular.clone(),
        short_names: kind.names.short_names.clone(),
        categories: kind.names.categories.clone(),
        namespaced: matches!(kind.scope, Scope::Namespaced),
        verbs: ResourceDef::CUSTOM_VERBS.map(str::to_owned).to_vec(),
        subresources: status.into_iter().chain(scale).collect(),
        preferred: false,
        custom: true,
    }
}
