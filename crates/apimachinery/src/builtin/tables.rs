//! The generated tables: looked up by name, parsed on first use, kept until the process ends.
//!
//! Definitions stay JSON text until one is used; [`super::BuiltinDefinitions`] converts them to
//! schemas.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use super::resource::{Column, ResourceDef};

static DEFINITIONS: &str = include_str!("../../data/generated/definitions.txt");
static RESOURCES: &str = include_str!("../../data/generated/resources.json");
static COLUMNS: &str = include_str!("../../data/generated/columns.json");

/// Returns the built-in resources, in the order of kube-apiserver's discovery.
pub fn resources() -> &'static [Arc<ResourceDef>] {
    &resource_table().resources
}

/// Returns the built-in resource of that name.
pub fn resource(group: &str, version: &str, plural: &str) -> Option<&'static Arc<ResourceDef>> {
    resources().iter().find(|it| it.plural == plural && it.group == group && it.version == version)
}

/// Returns the built-in resource whose objects have that kind.
pub fn resource_of_kind(group: &str, version: &str, kind: &str) -> Option<&'static Arc<ResourceDef>> {
    resources().iter().find(|it| it.kind == kind && it.group == group && it.version == version)
}

/// Returns the name of the definition of a built-in kind; lists and the kinds of subresources have
/// one too.
pub fn definition_name(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    resource_table().kinds.get(format!("{group}/{version}/{kind}").as_str()).copied()
}

/// Returns the names of all built-in definitions, in the order of the table.
pub fn definition_names() -> impl Iterator<Item = &'static str> {
    DEFINITIONS.lines().filter_map(|line| line.split_once('\t')).map(|(name, _)| name)
}

/// Returns a definition in OpenAPI v3 form, as JSON.
pub fn definition_json(name: &str) -> Option<&'static str> {
    definition_entry(name).map(|(_, json)| json)
}

/// Returns a definition as JSON, with its name from the table.
pub(super) fn definition_entry(name: &str) -> Option<(&'static str, &'static str)> {
    static INDEX: OnceLock<HashMap<&'static str, &'static str>> = OnceLock::new();
    let index = INDEX.get_or_init(|| DEFINITIONS.lines().filter_map(|line| line.split_once('\t')).collect());
    index.get_key_value(name).map(|(name, json)| (*name, *json))
}

/// Returns the table columns of a built-in resource, if kube-apiserver defines any
/// (`AddHandlers` in k8s.io/kubernetes v1.36.4 pkg/printers/internalversion/printers.go).
pub fn columns(group: &str, version: &str, plural: &str) -> Option<&'static [Column]> {
    static TABLE: OnceLock<HashMap<String, Vec<Column>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let file: ColumnsFile = serde_json::from_str(COLUMNS).expect("the generator writes this format");
        let words: Vec<Arc<str>> = file.words.into_iter().map(Into::into).collect();
        let column = |(name, kind, format, priority, word): ColumnEntry| {
            let description = words.get(word).cloned().unwrap_or_default();
            Column { name, kind, format, priority, description }
        };
        let columns = |it: Vec<ColumnEntry>| it.into_iter().map(column).collect();
        file.columns.into_iter().map(|(resource, it)| (resource, columns(it))).collect()
    });
    table.get(&format!("{group}/{version}/{plural}")).map(Vec::as_slice)
}

/// Name, type, format, priority, and the index of the description in `words`.
type ColumnEntry = (String, String, String, i32, usize);

/// The contents of `columns.json`.
#[derive(Debug, Deserialize)]
struct ColumnsFile {
    columns: HashMap<String, Vec<ColumnEntry>>,
    words: Vec<String>,
}

/// The contents of `resources.json`.
#[derive(Debug, Deserialize)]
struct ResourcesFile {
    resources: Vec<ResourceDef>,
    #[serde(borrow)]
    kinds: BTreeMap<&'static str, &'static str>,
}

#[derive(Debug)]
struct ResourceTable {
    resources: Vec<Arc<ResourceDef>>,
    kinds: BTreeMap<&'static str, &'static str>,
}

fn resource_table() -> &'static ResourceTable {
    static TABLE: OnceLock<ResourceTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        let file: ResourcesFile = serde_json::from_str(RESOURCES).expect("the generator writes this format");
        ResourceTable { resources: file.resources.into_iter().map(Arc::new).collect(), kinds: file.kinds }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_found_by_path_and_by_kind() {
        let pods = resource("", "v1", "pods").unwrap();
        assert_eq!((pods.kind.as_str(), pods.singular.as_str(), pods.namespaced), ("Pod", "pod", true));
        assert!(pods.has_verb("watch") && pods.subresource("eviction").is_some());
        assert_eq!(resource_of_kind("apps", "v1", "Deployment").unwrap().plural, "deployments");
        assert!(resource("", "v2", "pods").is_none() && resource_of_kind("apps", "v1", "Pod").is_none());
    }

    #[test]
    fn every_served_kind_has_a_definition() {
        for it in resources() {
            let name = definition_name(&it.group, &it.version, &it.kind).unwrap();
            assert!(definition_json(name).unwrap().starts_with('{'), "{name}");
        }
        assert!(definition_name("autoscaling", "v1", "Scale").is_some());
        assert_eq!(definition_name("apps", "v1", "Pod"), None);
    }

    #[test]
    fn every_listable_resource_has_columns() {
        let columns = columns("", "v1", "pods").unwrap();
        assert_eq!(columns[0].name, "Name");
        assert_eq!(
            &*columns[1].description,
            "The aggregate readiness state of this pod for accepting traffic."
        );
        for it in resources().iter().filter(|it| it.has_verb("list")) {
            assert!(super::columns(&it.group, &it.version, &it.plural).is_some(), "{}", it.gvr());
        }
    }
}
