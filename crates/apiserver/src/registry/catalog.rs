//! A snapshot of all served kinds, and the discovery and OpenAPI documents that describe them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::definition::{ServedKinds, StoredDefinition};
use super::kind::{BUILTIN_COLLECTIONS, Family, Kind};
use crate::builtin::{self, ResourceDef};
use crate::discovery::{self, Served};
use crate::openapi::{self, CustomDocuments, Document, OpenApiV2};
use crate::protobuf;
use crate::store::{CollectionName, Encoded};

type Kinds = HashMap<(String, String, String), Arc<Kind>>;

static BUILTIN: LazyLock<Kinds> = LazyLock::new(|| {
    let kinds = builtin::resources().iter().map(|def| Arc::new(Kind::builtin(def)));
    kinds.map(|kind| (path_of(&kind.def), kind)).collect()
});

/// A snapshot of all served kinds.
#[derive(Debug, Default)]
pub struct Catalog {
    /// The stored definitions by key, including those whose kinds are not served.
    ///
    /// The kinds are found through their definition, whose name is `<plural>.<group>`: a catalog is
    /// built for each change of a definition, and other maps would have to be filled again.
    definitions: BTreeMap<ObjectKey, Arc<StoredDefinition>>,
    served: OnceLock<Served>,
    documents: OnceLock<Vec<Document>>,
    aggregated: OnceLock<[Bytes; 2]>,
    aggregated_protobuf: OnceLock<[Bytes; 2]>,
    index: OnceLock<Bytes>,
    /// The number of definitions compiled for this catalog and its predecessors.
    compiled: u64,
}

impl Catalog {
    /// Builds the next catalog: the built-in kinds and those of the established ones among these
    /// definitions. Returns `None` if nothing has changed.
    pub(super) fn updated_with(&self, stored: &[Arc<Encoded>]) -> Option<Self> {
        let known = |it: &&Arc<Encoded>| self.definitions.get(it.key()).is_some_and(|known| known.is(it));
        if stored.len() == self.definitions.len() && stored.iter().all(|it| known(&it)) {
            return None;
        }
        let mut next = Self { compiled: self.compiled, ..Self::default() };
        for stored in stored {
            let before = self.definitions.get(stored.key());
            let defined = match before.filter(|it| it.is(stored)) {
                Some(unchanged) => Arc::clone(unchanged),
                None => {
                    let (defined, compiled) = StoredDefinition::read(stored, before.map(|it| &**it));
                    next.compiled += u64::from(compiled);
                    Arc::new(defined)
                }
            };
            next.definitions.insert(defined.key().clone(), defined);
        }
        Some(next)
    }

    /// Returns the collections that are new in this catalog compared with `before`: those of new
    /// definitions.
    pub(super) fn collections_added_since(&self, before: &Self) -> impl Iterator<Item = &CollectionName> {
        let known = |it: &&Arc<StoredDefinition>| {
            let known = before.definitions.get(it.key()).filter(|known| known.has_begun());
            known.is_some_and(|known| it.is_same_definition_as(known))
        };
        let established = self.definitions.values().filter(|it| it.is_established());
        established.filter(move |it| !known(it)).map(|it| &it.collection)
    }

    /// Returns the collections whose definition no longer exists in `next`.
    pub(super) fn collections_removed_in(&self, next: &Self) -> impl Iterator<Item = &CollectionName> {
        let gone = self.definitions.values().filter(|it| !next.definitions.contains_key(it.key()));
        gone.map(|it| &it.collection)
    }

    /// Returns the stored definitions, including those whose kinds are not served.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<StoredDefinition>> {
        self.definitions.values()
    }

    /// Returns the definition of a custom kind, unless it was deleted or another definition has
    /// taken its name.
    pub fn definition_of(&self, kind: &Kind) -> Option<&Arc<StoredDefinition>> {
        let Family::Custom { kind: custom, .. } = &kind.family else { return None };
        let key = ObjectKey::from_parts(None, &format!("{}.{}", kind.def.plural, kind.def.group)).ok()?;
        self.definitions.get(&key).filter(|it| it.uid() == custom.definition_uid())
    }

    /// Returns the number of definitions compiled since the server started, including those of the
    /// servers it was forked from.
    pub fn compiled(&self) -> u64 {
        self.compiled
    }

    /// Returns the collections that hold objects of a built-in or defined kind.
    pub fn collections(&self) -> HashSet<&CollectionName> {
        BUILTIN_COLLECTIONS.iter().chain(self.definitions.values().map(|it| &it.collection)).collect()
    }

    /// Returns the resource of that path, if it is served.
    pub fn kind(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        let path = (group.to_owned(), version.to_owned(), plural.to_owned());
        // kube-apiserver asks the custom resources last (`CreateServerChain` in k8s.io/kubernetes
        // v1.36.4 cmd/kube-apiserver/app/server.go): a built-in resource hides one of its path.
        BUILTIN.get(&path).or_else(|| self.custom_kind(group, version, plural)).cloned()
    }

    fn custom_kind(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        let is_path = |it: &&Arc<Kind>| has_path(&it.def, group, version, plural);
        self.served_kinds(group, plural)?.kinds.iter().find(is_path)
    }

    /// Returns the compiled kinds of the definition of a resource.
    fn served_kinds(&self, group: &str, plural: &str) -> Option<&ServedKinds> {
        let key = ObjectKey::from_parts(None, &format!("{plural}.{group}")).ok()?;
        self.definitions.get(&key).map(|it| it.served())
    }

    /// Returns the resource whose objects have that `apiVersion` and `kind`.
    pub fn kind_of(&self, api_version: &str, kind: &str) -> Option<Arc<Kind>> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        if let Some(def) = builtin::resource_of_kind(group, version, kind) {
            return self.kind(group, version, &def.plural);
        }
        let matches = |it: &&Arc<Kind>| {
            (it.def.group.as_str(), it.def.version.as_str(), it.def.kind.as_str()) == (group, version, kind)
        };
        self.compiled_kinds().filter(matches).find(|it| !is_hidden(&it.def)).cloned()
    }

    /// Returns every stored resource, once per collection, in the version that clients should
    /// prefer.
    pub fn stored(&self) -> Vec<Arc<Kind>> {
        let mut seen: HashMap<CollectionName, Arc<Kind>> = HashMap::new();
        for def in self.served().resources().iter().filter(|it| it.has_verb("list")) {
            if let Some(kind) = self.kind(&def.group, &def.version, &def.plural)
                && kind.rules.is_stored
                && (!seen.contains_key(&kind.collection)
                    || (def.preferred && matches!(kind.family, Family::Builtin)))
            {
                seen.insert(Arc::clone(&kind.collection), kind);
            }
        }
        let mut kinds: Vec<_> = seen.into_values().collect();
        kinds.sort_by(|left, right| left.collection.cmp(&right.collection));
        kinds
    }

    /// Returns every custom resource that is served.
    pub fn custom(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.compiled_kinds().filter(|it| !is_hidden(&it.def))
    }

    /// Returns the compiled kinds of all definitions, including hidden ones.
    fn compiled_kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.definitions.values().flat_map(|it| it.served().kinds.iter())
    }

    /// Returns every custom resource that is served as the OpenAPI documents describe it.
    fn published(&self) -> impl Iterator<Item = &Arc<openapi::CustomKind>> {
        let all = self.definitions.values().flat_map(|it| it.served().published.iter());
        all.filter(|it| !is_hidden(&it.resource))
    }

    /// Returns true if established definitions add resources to this group. Paths of such a group
    /// that are not served get another error response.
    pub fn is_custom_group(&self, group: &str) -> bool {
        self.definitions.values().any(|it| it.is_established() && it.group == group)
    }

    /// Returns true if the group has built-in resources.
    pub fn is_builtin_group(&self, group: &str) -> bool {
        builtin::resources().iter().any(|it| it.group == group)
    }

    /// Returns all resources, for discovery.
    pub fn served(&self) -> &Served {
        self.served.get_or_init(|| Served::new(self.custom().map(|it| Arc::clone(&it.def))))
    }

    /// Returns the aggregated discovery documents of `/api` and `/apis`, in JSON.
    pub fn aggregated(&self) -> &[Bytes; 2] {
        self.aggregated.get_or_init(|| self.aggregated_values().map(|it| Bytes::from(format!("{it}\n"))))
    }

    /// Returns the aggregated discovery documents of `/api` and `/apis`, in protobuf.
    pub fn aggregated_protobuf(&self) -> &[Bytes; 2] {
        const ENCODED: &str = "names and verbs are the strings that the messages of discovery have";
        self.aggregated_protobuf.get_or_init(|| {
            self.aggregated_values().map(|it| Bytes::from(protobuf::encode(&it).expect(ENCODED)))
        })
    }

    fn aggregated_values(&self) -> [Value; 2] {
        [discovery::aggregated_core(self.served()), discovery::aggregated_groups(self.served())]
    }

    /// Returns the index of OpenAPI documents.
    pub fn openapi_index(&self) -> &Bytes {
        self.index.get_or_init(|| Bytes::from(openapi::index(self.documents())))
    }

    /// Returns the OpenAPI document of a group and version. Documents of built-in groups are
    /// generated on each call.
    pub fn openapi(&self, group: &str, version: &str) -> Option<Document> {
        openapi::builtin_document(group, version).or_else(|| self.custom_document(group, version).cloned())
    }

    /// Returns the hash of the OpenAPI document of a group and version.
    pub fn openapi_hash(&self, group: &str, version: &str) -> Option<&str> {
        openapi::builtin_hash(group, version)
            .or_else(|| self.custom_document(group, version).map(|it| it.hash.as_str()))
    }

    /// Returns the OpenAPI v2 document of all resources. It changes when the index of version 3
    /// does.
    pub fn swagger(&self) -> OpenApiV2 {
        OpenApiV2::new(self.published().map(|it| &**it))
    }

    fn custom_document(&self, group: &str, version: &str) -> Option<&Document> {
        let path = format!("apis/{group}/{version}");
        self.documents().iter().find(|it| it.path == path)
    }

    fn documents(&self) -> &[Document] {
        self.documents.get_or_init(|| {
            let mut groups: Vec<(&str, &str)> =
                self.custom().map(|it| (it.def.group.as_str(), it.def.version.as_str())).collect();
            groups.sort_unstable();
            groups.dedup();
            let documents = CustomDocuments::new();
            let document = |(group, version): (&str, &str)| {
                let of_group = |def: &&Arc<ResourceDef>| def.group == group && def.version == version;
                let defs = self.served().resources().iter().filter(of_group);
                let published = |it: &Arc<ResourceDef>| {
                    let mut all = self.served_kinds(&it.group, &it.plural)?.published.iter();
                    all.find(|kind| has_path(&kind.resource, &it.group, &it.version, &it.plural))
                };
                let kinds: Vec<_> = defs.filter_map(published).map(|it| (**it).clone()).collect();
                documents.document(group, version, &kinds)
            };
            groups.into_iter().map(document).collect()
        })
    }
}

/// Returns true if a built-in resource hides a custom one.
fn is_hidden(def: &ResourceDef) -> bool {
    BUILTIN.contains_key(&path_of(def))
}

fn has_path(def: &ResourceDef, group: &str, version: &str, plural: &str) -> bool {
    (def.group.as_str(), def.version.as_str(), def.plural.as_str()) == (group, version, plural)
}

fn path_of(def: &ResourceDef) -> (String, String, String) {
    (def.group.clone(), def.version.clone(), def.plural.clone())
}
