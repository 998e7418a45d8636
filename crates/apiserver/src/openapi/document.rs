//! Documents and their index: made of paths and schemas, known by their fingerprint.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::component::{self, Components};
use super::path;
use crate::builtin::{self, ResourceDef};
use crate::discovery::digest;

/// The document of one group and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The path behind `/openapi/v3/`: `api/v1` or `apis/apps/v1`.
    pub path: String,
    /// The fingerprint of the body: the `hash` in its address, and in quotes its `ETag`.
    pub hash: String,
    /// The document, JSON.
    pub body: Bytes,
}

/// A custom kind that is served, with the schema of its definition.
#[derive(Clone, Debug)]
pub struct CustomKind {
    /// The resource; its group and version are those of the document.
    pub resource: Arc<ResourceDef>,
    /// Its `openAPIV3Schema`, where it has one.
    pub schema: Option<Value>,
}

/// The document of a built-in group and version. Made the first time it is asked for, then kept.
pub fn builtin_document(group: &str, version: &str) -> Option<&'static Document> {
    let slot = builtins().get(&path_of(group, version))?;
    Some(slot.document.get_or_init(|| slot.make()))
}

/// The document of a custom group and version, with all its kinds.
pub fn custom_document(group: &str, version: &str, kinds: &[CustomKind]) -> Document {
    let mut components = Components::new();
    for CustomKind { resource, schema } in kinds {
        let own = component::schema_name(resource, &resource.kind);
        let list = component::schema_name(resource, &resource.list_kind());
        if let (Some(own), Some(list)) = (own, list) {
            components.insert(list, component::custom_list_schema(resource, &own).to_string());
            components.insert(own, component::custom_schema(resource, schema.as_ref()).to_string());
        }
    }
    let mut paths = Map::new();
    kinds.iter().for_each(|it| path::add_paths(&mut paths, &it.resource));
    let info = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
    assemble(group, version, &info, paths, components, false)
}

/// The body of `/openapi/v3`: the address of every document, those of custom groups included.
///
/// The fingerprints of built-in documents are found out the first time; the documents themselves are not kept for it.
pub fn index<'a>(custom: impl IntoIterator<Item = &'a Document>) -> Vec<u8> {
    let address =
        |path: &str, hash: &str| json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")});
    let builtin = builtins().iter().map(|(path, slot)| (path.clone(), address(path, slot.hash())));
    let custom = custom.into_iter().map(|it| (it.path.clone(), address(&it.path, &it.hash)));
    let paths: Map<String, Value> = builtin.chain(custom).collect();
    json!({"paths": paths}).to_string().into_bytes()
}

/// A built-in document that may have been made.
#[derive(Debug)]
struct Slot {
    group: &'static str,
    version: &'static str,
    hash: OnceLock<String>,
    document: OnceLock<Document>,
}

impl Slot {
    fn make(&self) -> Document {
        let of_this = |it: &&Arc<ResourceDef>| it.group == self.group && it.version == self.version;
        let mut paths = Map::new();
        builtin::resources().iter().filter(of_this).for_each(|it| path::add_paths(&mut paths, it));
        let info = json!({"title": "Kubernetes", "version": "1.36"});
        assemble(self.group, self.version, &info, paths, Components::new(), true)
    }

    fn hash(&self) -> &str {
        self.hash.get_or_init(|| match self.document.get() {
            Some(document) => document.hash.clone(),
            None => self.make().hash,
        })
    }
}

fn builtins() -> &'static BTreeMap<String, Slot> {
    static SLOTS: OnceLock<BTreeMap<String, Slot>> = OnceLock::new();
    SLOTS.get_or_init(|| {
        let slot = |it: &'static Arc<ResourceDef>| Slot {
            group: &it.group,
            version: &it.version,
            hash: OnceLock::new(),
            document: OnceLock::new(),
        };
        builtin::resources().iter().map(|it| (path_of(&it.group, &it.version), slot(it))).collect()
    })
}

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Puts a document together as text: the schemas are text already.
fn assemble(
    group: &str,
    version: &str,
    info: &Value,
    paths: Map<String, Value>,
    mut components: Components,
    secured: bool,
) -> Document {
    let paths = Value::Object(paths).to_string();
    let own: Vec<String> = components.values().cloned().collect();
    for text in own.iter().chain([&paths]) {
        component::add_referred(&mut components, text, group, version);
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
    if secured {
        let bearer = json!({"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}});
        body.push_str(&format!(r#","securitySchemes":{bearer}"#));
    }
    body.push_str("}}");
    Document { path: path_of(group, version), hash: digest(body.as_bytes()), body: body.into() }
}
