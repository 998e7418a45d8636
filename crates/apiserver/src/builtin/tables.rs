//! The generated tables: found by name, parsed when first asked for, kept for the life of the program.
//!
//! The definitions stay text until one of them is wanted; see [`super::BuiltinDefinitions`] for what they mean.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use super::resource::{Column, ResourceDef};

static DEFINITIONS: &str = include_str!("../../data/generated/definitions.txt");
static RESOURCES: &str = include_str!("../../data/generated/resources.json");
static COLUMNS: &str = include_str!("../../data/generated/columns.json");

/// The built-in resources, in the order of the original's discovery.
pub fn resources() -> &'static [Arc<ResourceDef>] {
    &served().resources
}

/// The built-in resource of that name.
pub fn resource(group: &str, version: &str, plural: &str) -> Option<&'static Arc<ResourceDef>> {
    resources().iter().find(|it| it.plural == plural && it.group == group && it.version == version)
}

/// The built-in resource with objects of that kind.
pub fn resource_of_kind(group: &str, version: &str, kind: &str) -> Option<&'static Arc<ResourceDef>> {
    resources().iter().find(|it| it.kind == kind && it.group == group && it.version == version)
}

/// The name of the definition of a built-in kind; lists and the kinds of subresources have theirs too.
pub fn definition_name(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    served().kinds.get(format!("{group}/{version}/{kind}").as_str()).copied()
}

/// The names of all built-in definitions, in their order.
pub fn definition_names() -> impl Iterator<Item = &'static str> {
    DEFINITIONS.lines().filter_map(|line| line.split_once('\t')).map(|(name, _)| name)
}

/// A definition as OpenAPI v3 has it, in JSON.
pub fn definition_json(name: &str) -> Option<&'static str> {
    definition_entry(name).map(|(_, json)| json)
}

/// A definition in JSON, with its name as the table has it.
pub(super) fn definition_entry(name: &str) -> Option<(&'static str, &'static str)> {
    static INDEX: OnceLock<HashMap<&'static str, &'static str>> = OnceLock::new();
    let index = INDEX.get_or_init(|| DEFINITIONS.lines().filter_map(|line| line.split_once('\t')).collect());
    index.get_key_value(name).map(|(name, json)| (*name, *json))
}

/// The columns of a built-in resource printed as a table, where the original has its own.
pub fn columns(group: &str, version: &str, plural: &str) -> Option<&'static [Column]> {
    static TABLE: OnceLock<HashMap<String, Vec<Column>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let written: WrittenColumns =
            serde_json::from_str(COLUMNS).expect("the generator writes what is read here");
        let words: Vec<Arc<str>> = written.words.into_iter().map(Into::into).collect();
        let column = |(name, kind, format, priority, word): WrittenColumn| {
            let description = words.get(word).cloned().unwrap_or_default();
            Column { name, kind, format, priority, description }
        };
        let columns = |it: Vec<WrittenColumn>| it.into_iter().map(column).collect();
        written.columns.into_iter().map(|(resource, it)| (resource, columns(it))).collect()
    });
    table.get(&format!("{group}/{version}/{plural}")).map(Vec::as_slice)
}

/// Name, type, format, priority, and which of the words.
type WrittenColumn = (String, String, String, i32, usize);

/// The file of columns, as it is written.
#[derive(Debug, Deserialize)]
struct WrittenColumns {
    columns: HashMap<String, Vec<WrittenColumn>>,
    words: Vec<String>,
}

/// The file of resources, as it is written.
#[derive(Debug, Deserialize)]
struct Written {
    resources: Vec<ResourceDef>,
    #[serde(borrow)]
    kinds: BTreeMap<&'static str, &'static str>,
}

#[derive(Debug)]
struct Served {
    resources: Vec<Arc<ResourceDef>>,
    kinds: BTreeMap<&'static str, &'static str>,
}

fn served() -> &'static Served {
    static SERVED: OnceLock<Served> = OnceLock::new();
    SERVED.get_or_init(|| {
        let written: Written =
            serde_json::from_str(RESOURCES).expect("the generator writes what is read here");
        Served { resources: written.resources.into_iter().map(Arc::new).collect(), kinds: written.kinds }
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
    fn every_kind_that_is_served_has_a_definition() {
        for it in resources() {
            let name = definition_name(&it.group, &it.version, &it.kind).unwrap();
            assert!(definition_json(name).unwrap().starts_with('{'), "{name}");
        }
        assert!(definition_name("autoscaling", "v1", "Scale").is_some());
        assert_eq!(definition_name("apps", "v1", "Pod"), None);
    }

    #[test]
    fn columns_are_there_for_what_can_be_listed() {
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
