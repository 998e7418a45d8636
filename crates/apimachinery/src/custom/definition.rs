//! A compiled CustomResourceDefinition, and the fields that the server fills into one.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map as Object, Value, json};

use super::Structural;
use super::columns::Column;
use super::go_format::shown;
use super::rules::RuleTree;
use super::scale::ScalePaths;
use crate::discovery::by_stability;

/// The finalizer that holds a definition until its objects are gone.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// A custom kind, compiled from its definition.
#[derive(Clone, Debug)]
pub struct CustomKind {
    /// The API group.
    pub group: String,
    /// The accepted names if there are any, or else the requested ones.
    pub names: Names,
    /// The scope of its objects.
    pub scope: Scope,
    /// Its versions in the order of the definition.
    pub versions: Vec<Version>,
    /// The selectable fields of all versions, each once.
    selectable: Vec<Arc<str>>,
    /// The webhook that converts between versions; `None` for the strategy `None`.
    pub webhook: Option<Value>,
    /// The id of the schema of the first version; those of the others follow.
    schema_id: u64,
    /// The uid of the definition: one of the same name that was created later is another kind.
    definition_uid: String,
}

/// The next schema id.
static NEXT_SCHEMA: AtomicU64 = AtomicU64::new(0);

/// The names of a custom kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The resource, such as `gadgets`.
    pub plural: String,
    /// The singular name, such as `gadget`.
    pub singular: String,
    /// The kind of its objects.
    pub kind: String,
    /// The kind of a list of them.
    pub list_kind: String,
    /// Abbreviations.
    pub short_names: Vec<String>,
    /// The groups of resources it belongs to, such as `all`.
    pub categories: Vec<String>,
}

/// The scope of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Objects are cluster-scoped.
    Cluster,
    /// Objects are namespaced.
    Namespaced,
}

/// One version of a custom kind.
#[derive(Clone, Debug)]
pub struct Version {
    /// The name, such as `v1beta1`.
    pub name: String,
    /// True if requests for this version are served.
    pub served: bool,
    /// True if objects are stored in this version.
    pub storage: bool,
    /// The warning to send with each response, for deprecated versions.
    pub deprecation: Option<String>,
    /// The schema.
    pub schema: Arc<Structural>,
    /// The rules of the schema, if it has any.
    pub(crate) rules: Option<Arc<RuleTree>>,
    /// True if `status` is a subresource.
    pub status: bool,
    /// The paths of the fields of `scale`, if it is a subresource.
    pub scale: Option<ScalePaths>,
    /// The columns of tables after the name.
    pub columns: Vec<Column>,
    /// The fields that a field selector can use, without a leading dot.
    pub selectable: Vec<String>,
}

impl Names {
    /// Reads `spec.names` or `status.acceptedNames`.
    pub fn read(names: &Value) -> Self {
        let text = |key: &str| names.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let list = |key: &str| {
            let items = names.get(key).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            plural: text("plural"),
            singular: text("singular"),
            kind: text("kind"),
            list_kind: text("listKind"),
            short_names: list("shortNames"),
            categories: list("categories"),
        }
    }

    /// Returns the names as they are in a definition.
    pub fn to_value(&self) -> Value {
        let mut names = Object::new();
        for (key, text) in [
            ("plural", &self.plural),
            ("singular", &self.singular),
            ("kind", &self.kind),
            ("listKind", &self.list_kind),
        ] {
            // Plural and kind are always present, the others only if they are not empty.
            if !text.is_empty() || matches!(key, "plural" | "kind") {
                names.insert(key.to_owned(), text.as_str().into());
            }
        }
        for (key, list) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !list.is_empty() {
                names.insert(key.to_owned(), json!(list));
            }
        }
        Value::Object(names)
    }
}

impl CustomKind {
    /// Compiles a definition that has passed [`super::check`].
    pub fn read(definition: &Value) -> Self {
        let spec = &definition["spec"];
        let accepted = Names::read(&definition["status"]["acceptedNames"]);
        let names = if accepted.kind.is_empty() { Names::read(&spec["names"]) } else { accepted };
        let scope = if spec["scope"] == "Namespaced" { Scope::Namespaced } else { Scope::Cluster };
        let group = spec["group"].as_str().unwrap_or_default().to_owned();
        let versions = spec["versions"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        let best = most_stable(versions);
        let served: Vec<Version> =
            versions.iter().map(|it| Version::read(it, best, &group, &names.kind)).collect();
        Self {
            selectable: distinct(served.iter().flat_map(|it| &it.selectable)),
            versions: served,
            group,
            names,
            scope,
            webhook: (spec["conversion"]["strategy"] == "Webhook")
                .then(|| spec["conversion"]["webhook"].clone()),
            schema_id: NEXT_SCHEMA.fetch_add(versions.len() as u64, Ordering::Relaxed),
            definition_uid: definition["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
        }
    }

    /// Returns the uid of the definition that this was compiled from.
    pub fn definition_uid(&self) -> &str {
        &self.definition_uid
    }

    /// Returns a number that is unique to a version of this compilation in this process. Objects
    /// keep it, which distinguishes objects that were written under this schema from those that
    /// were written in another version, or before the definition was changed.
    pub fn schema_id(&self, version: usize) -> u64 {
        self.schema_id.saturating_add(version as u64)
    }

    /// Returns the index of the version that objects are stored in.
    pub fn storage_index(&self) -> Option<usize> {
        self.versions.iter().position(|it| it.storage)
    }

    /// Returns the version of that name, if it is served.
    pub fn served(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name && version.served)
    }

    /// Returns the version in which objects are stored.
    pub fn storage(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }

    /// Returns the selectable fields of an object, in whichever version they are selectable, with
    /// their values as text. Absent and empty fields are left out: a selector treats them alike.
    ///
    /// The result is smaller than the object: many versions may list the same fields, or eight
    /// others each.
    pub fn field_values(&self, object: &Value) -> Vec<(Arc<str>, String)> {
        let value = |name: &str| match name.split('.').try_fold(object, |value, part| value.get(part))? {
            Value::String(text) => (!text.is_empty()).then(|| text.clone()),
            scalar @ (Value::Bool(_) | Value::Number(_)) => Some(shown(scalar)),
            // Selectable fields are scalars. In an object of another version there can be a
            // structure instead, in which further fields are selectable.
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        };
        self.selectable.iter().filter_map(|name| value(name).map(|it| (Arc::clone(name), it))).collect()
    }
}

impl Version {
    fn read(version: &Value, best: Option<&str>, group: &str, kind: &str) -> Self {
        let text = |key: &str| version[key].as_str().unwrap_or_default().to_owned();
        let name = text("name");
        let deprecated = version["deprecated"] == true;
        let warning = version["deprecationWarning"].as_str().map(str::to_owned);
        let usual = || {
            let better = best.filter(|it| by_stability(it, &name).is_lt());
            let better = better.map(|it| format!("; use {group}/{it} {kind}")).unwrap_or_default();
            format!("{group}/{name} {kind} is deprecated{better}")
        };
        let list = |key: &str| version[key].as_array().map_or(&[] as &[Value], Vec::as_slice);
        let columns: Vec<Column> = list("additionalPrinterColumns").iter().map(Column::read).collect();
        let paths = list("selectableFields").iter().filter_map(|field| field["jsonPath"].as_str());
        let schema = Structural::parse(&version["schema"]["openAPIV3Schema"]);
        Self {
            rules: RuleTree::compile(&schema).map(Arc::new),
            schema: Arc::new(schema),
            served: version["served"] == true,
            storage: version["storage"] == true,
            deprecation: deprecated.then(|| warning.unwrap_or_else(usual)),
            status: version["subresources"]["status"].is_object(),
            scale: read_scale(&version["subresources"]["scale"]),
            columns: if columns.is_empty() { vec![Column::age()] } else { columns },
            selectable: paths.map(|path| path.strip_prefix('.').unwrap_or(path).to_owned()).collect(),
            name,
        }
    }
}

/// Returns the names without repeats, in the order of their first occurrence.
fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<Arc<str>> {
    let mut seen = HashSet::new();
    names.filter(|name| seen.insert(*name)).map(|name| Arc::from(name.as_str())).collect()
}

/// Returns the most stable version that is served and not deprecated.
fn most_stable(all: &[Value]) -> Option<&str> {
    let good = all.iter().filter(|it| it["served"] == true && it["deprecated"] != true);
    good.filter_map(|it| it["name"].as_str()).min_by(|a, b| by_stability(a, b))
}

fn read_scale(scale: &Value) -> Option<ScalePaths> {
    let text = |key: &str| scale[key].as_str().map(str::to_owned);
    scale.is_object().then(|| ScalePaths {
        spec_replicas: text("specReplicasPath").unwrap_or_default(),
        status_replicas: text("statusReplicasPath").unwrap_or_default(),
        selector: text("labelSelectorPath"),
    })
}

/// Fills in the defaults of a definition: `singular`, `listKind` and `conversion`.
pub fn fill_defaults(definition: &mut Value) {
    let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) else { return };
    let missing = |names: &Object<String, Value>, key: &str| {
        names.get(key).and_then(Value::as_str).is_none_or(str::is_empty)
    };
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if missing(names, "singular") && !kind.is_empty() {
        names.insert("singular".to_owned(), kind.to_lowercase().into());
    }
    if missing(names, "listKind") && !kind.is_empty() {
        names.insert("listKind".to_owned(), format!("{kind}List").into());
    }
}

/// Prepares a new definition, which has its defaults, for validation and storage: sets an empty
/// status with the stored version, and the first generation.
pub fn prepare_create(definition: &mut Value) {
    let stored: Vec<Value> = storage_version(definition).into_iter().map(Value::String).collect();
    let status =
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored});
    if let Some(fields) = definition.as_object_mut() {
        fields.insert("status".to_owned(), status);
    }
    set_generation(definition, 1);
}

/// Prepares an updated definition, which has its defaults: keeps the status, adds a new storage
/// version to the stored ones, and increments the generation if `spec` has changed.
pub fn prepare_update(definition: &mut Value, old: &Value) {
    let mut status = old.get("status").cloned().unwrap_or_else(|| json!({}));
    if let Some(version) = storage_version(definition) {
        add_stored(&mut status, version);
    }
    if let Some(fields) = definition.as_object_mut() {
        fields.insert("status".to_owned(), status);
    }
    let generation = old["metadata"]["generation"].as_i64().unwrap_or(1);
    let changed = definition.get("spec") != old.get("spec");
    set_generation(definition, if changed { generation + 1 } else { generation });
}

fn add_stored(status: &mut Value, version: String) {
    let Some(status) = status.as_object_mut() else { return };
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if stored.is_null() {
        *stored = json!([]);
    }
    if let Some(stored) = stored.as_array_mut()
        && !stored.iter().any(|known| *known == version.as_str())
    {
        stored.push(Value::String(version));
    }
}

/// Returns the first version that is marked for storage.
pub(crate) fn storage_version(definition: &Value) -> Option<String> {
    let versions = definition["spec"]["versions"].as_array()?;
    versions.iter().find(|version| version["storage"] == true)?["name"].as_str().map(str::to_owned)
}

fn set_generation(definition: &mut Value, generation: i64) {
    if let Some(metadata) = definition.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("generation".to_owned(), generation.into());
    }
}
