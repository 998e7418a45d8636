//! The schemas of a document: those that its paths refer to, directly or through other schemas.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::builtin::{self, Descriptions, ResourceDef};

/// The prefix of a reference to a schema.
pub(super) const REFERENCE: &str = "#/components/schemas/";

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// The definitions that every group and version lists as its own.
const EVERYWHERE: [&str; 2] = ["DeleteOptions", "WatchEvent"];

/// Schemas by name, as JSON text.
pub(super) type Components = BTreeMap<String, String>;

/// Returns the full name of a definition of `meta/v1`.
pub(super) fn meta(name: &str) -> String {
    format!("{META}{name}")
}

/// Returns `{"$ref": …}` to the schema of that name.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE}{name}")})
}

/// Returns the name of the schema of a kind of this resource: from the table, or, for a custom
/// resource, built from the reversed group.
pub(super) fn schema_name(resource: &ResourceDef, kind: &str) -> Option<String> {
    if !resource.custom {
        return builtin::definition_name(&resource.group, &resource.version, kind).map(Into::into);
    }
    let mut parts: Vec<&str> = resource.group.rsplit('.').collect();
    parts.extend([resource.version.as_str(), kind]);
    Some(parts.join("."))
}

/// Adds the built-in definitions that the JSON `text` refers to, directly or indirectly, to
/// `components`. If `descriptions` is `None`, they are added without them.
pub(super) fn add_referred(
    components: &mut Components,
    text: &str,
    (group, version): (&str, &str),
    descriptions: Option<&Descriptions>,
) {
    let mut wanted = references(text);
    while let Some(name) = wanted.pop() {
        if components.contains_key(&name) {
            continue;
        }
        let Some(json) = builtin::definition_json(&name) else { continue };
        wanted.extend(references(json));
        let schema = match descriptions {
            Some(descriptions) => {
                builtin_schema(&name, [(group, version)], descriptions).map(|it| it.to_string())
            }
            None => Some(json.to_owned()),
        };
        components.extend(schema.map(|it| (name, it)));
    }
}

/// Returns the schema of a built-in definition with descriptions. A definition that belongs to
/// every group lists these groups.
pub(super) fn builtin_schema<'a>(
    name: &str,
    groups: impl IntoIterator<Item = (&'a str, &'a str)>,
    descriptions: &Descriptions,
) -> Option<Value> {
    let json = builtin::definition_json(name)?;
    let mut schema: Value = serde_json::from_str(json).expect("the generator writes JSON");
    descriptions.describe(name, &mut schema);
    if let Some(kind) = EVERYWHERE.iter().find(|it| name == meta(it))
        && let Some(Value::Array(kinds)) = schema.get_mut("x-kubernetes-group-version-kind")
    {
        let groups = groups.into_iter().filter(|(group, _)| !group.is_empty());
        kinds
            .extend(groups.map(|(group, version)| json!({"group": group, "kind": kind, "version": version})));
    }
    Some(schema)
}

/// Returns the names of the schemas that a JSON text refers to.
fn references(text: &str) -> Vec<String> {
    let parts = text.split(REFERENCE).skip(1);
    parts.filter_map(|it| it.split_once('"')).map(|(name, _)| name.to_owned()).collect()
}
