//! OpenAPI v3 documents and their index: generated from paths and schemas, identified by their
//! hash.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::component::{self, Components};
use super::custom::{self, CustomKind};
use super::path;
use crate::builtin::{self, Descriptions, ResourceDef};
use crate::discovery::digest;

/// The document of one group and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The path below `/openapi/v3/`: `api/v1` or `apis/apps/v1`.
    pub path: String,
    /// The hash of the body: the `hash` parameter of its URL and, in quotes, its `ETag`.
    pub hash: String,
    /// The document, as JSON.
    pub body: Bytes,
}

/// Returns the document of a built-in group and version. It is generated on each call: clients
/// cache it by its hash, so repeated requests are rare.
pub fn builtin_document(group: &str, version: &str) -> Option<Document> {
    builtins().get(&path_of(group, version)).map(BuiltinDocument::make)
}

/// Returns the hash of the document of a built-in group and version. Computed once.
pub fn builtin_hash(group: &str, version: &str) -> Option<&'static str> {
    builtins().get(&path_of(group, version)).map(BuiltinDocument::hash)
}

/// Generates the documents of custom groups. It holds the descriptions of built-in definitions,
/// whose decompression takes longer than a document.
#[derive(Debug)]
pub struct CustomDocuments(Arc<Descriptions>);

impl CustomDocuments {
    /// Creates a generator, to be dropped after use: the descriptions take half a megabyte.
    #[expect(clippy::new_without_default, reason = "it decompresses the descriptions")]
    pub fn new() -> Self {
        Self(Descriptions::get())
    }

    /// Returns the document of a custom group and version, with all its kinds.
    pub fn document(&self, group: &str, version: &str, kinds: &[CustomKind]) -> Document {
        let mut components = Components::new();
        for kind in kinds {
            let own = component::schema_name(&kind.resource, &kind.resource.kind);
            let list = component::schema_name(&kind.resource, &kind.resource.list_kind());
            if let (Some(own), Some(list)) = (own, list) {
                components.insert(list, custom::list_schema(kind, &own, &self.0).to_string());
                components.insert(own, custom::schema(kind, &self.0).to_string());
            }
        }
        let mut paths = Map::new();
        kinds.iter().for_each(|it| path::add_paths(&mut paths, &it.resource));
        let info = json!({"title": "Kubernetes CRD OpenApiV2", "version": "v0.1.0"});
        let body = assemble((group, version), &info, paths, components, Some(&self.0));
        Document { path: path_of(group, version), hash: digest(body.as_bytes()), body: body.into() }
    }
}

/// Returns the body of `/openapi/v3`: the URLs of all documents, including those of custom groups.
///
/// The hashes of built-in documents are computed on the first call; the documents themselves are
/// not kept.
pub fn index<'a>(custom: impl IntoIterator<Item = &'a Document>) -> Vec<u8> {
    let address =
        |path: &str, hash: &str| json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")});
    let builtin = builtins().iter().map(|(path, document)| (path.clone(), address(path, document.hash())));
    let custom = custom.into_iter().map(|it| (it.path.clone(), address(&it.path, &it.hash)));
    let paths: Map<String, Value> = builtin.chain(custom).collect();
    json!({"paths": paths}).to_string().into_bytes()
}

/// A built-in document, generated on demand.
#[derive(Debug)]
struct BuiltinDocument {
    group: &'static str,
    version: &'static str,
    hash: OnceLock<String>,
}

impl BuiltinDocument {
    fn make(&self) -> Document {
        let body = self.body(Some(&Descriptions::get())).into();
        Document { path: path_of(self.group, self.version), hash: self.hash().to_owned(), body }
    }

    /// Returns the hash. It is computed from the document without descriptions and from a
    /// fingerprint of all descriptions: those are the larger part of the document and change only
    /// with the release.
    fn hash(&self) -> &str {
        self.hash.get_or_init(|| {
            let mut bytes = self.body(None).into_bytes();
            bytes.extend_from_slice(Descriptions::fingerprint());
            digest(&bytes)
        })
    }

    fn body(&self, descriptions: Option<&Descriptions>) -> String {
        let of_this = |it: &&Arc<ResourceDef>| it.group == self.group && it.version == self.version;
        let mut paths = Map::new();
        builtin::resources().iter().filter(of_this).for_each(|it| path::add_paths(&mut paths, it));
        let info = json!({"title": "Kubernetes", "version": "1.36"});
        assemble((self.group, self.version), &info, paths, Components::new(), descriptions)
    }
}

fn builtins() -> &'static BTreeMap<String, BuiltinDocument> {
    static DOCUMENTS: OnceLock<BTreeMap<String, BuiltinDocument>> = OnceLock::new();
    DOCUMENTS.get_or_init(|| {
        let document = |it: &'static Arc<ResourceDef>| BuiltinDocument {
            group: &it.group,
            version: &it.version,
            hash: OnceLock::new(),
        };
        builtin::resources().iter().map(|it| (path_of(&it.group, &it.version), document(it))).collect()
    })
}

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Assembles a document as text, because the schemas are text already. Those of built-in groups
/// declare the authentication.
fn assemble(
    place: (&str, &str),
    info: &Value,
    paths: Map<String, Value>,
    mut components: Components,
    descriptions: Option<&Descriptions>,
) -> String {
    let builtin = components.is_empty();
    let paths = Value::Object(paths).to_string();
    let own: Vec<String> = components.values().cloned().collect();
    for text in own.iter().chain([&paths]) {
        component::add_referred(&mut components, text, place, descriptions);
    }
    let mut body =
        format!(r#"{{"openapi":"3.0.0","info":{info},"paths":{paths},"components":{{"schemas":{{"#);
    for (at, (name, json)) in components.iter().enumerate() {
        if at > 0 {
            body.push(',');
        }
        body.push_str(&Value::from(name.as_str()).to_string());
        body.push(':');
        body.push_str(json);
    }
    body.push('}');
    if builtin {
        let bearer = json!({"BearerToken": {
            "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
        }});
        body.push_str(&format!(r#","securitySchemes":{bearer}"#));
    }
    body.push_str("}}");
    body
}
