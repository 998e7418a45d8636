//! The tables of served resources with the definition of each kind, and of their columns.
//!
//! They keep the order of the data, which is the order of priority.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use super::definitions::Definitions;

/// Returns the served `group/version`s.
pub(crate) fn group_versions(resources: &Value) -> anyhow::Result<BTreeSet<String>> {
    let list = resources.as_array().context("the resources are not a list")?;
    Ok(list.iter().map(|it| format!("{}/{}", text(it, "group"), text(it, "version"))).collect())
}

/// Returns `{"resources": […], "kinds": {"group/version/kind": "definition"}}`.
///
/// # Errors
/// If a resource has no definition.
pub(crate) fn table(
    resources: &Value,
    kinds: &BTreeMap<String, String>,
    served: &Definitions,
) -> anyhow::Result<String> {
    for it in resources.as_array().context("the resources are not a list")? {
        let kind = [text(it, "group"), text(it, "version"), text(it, "kind")].join("/");
        if !kinds.get(&kind).is_some_and(|name| served.contains_key(name)) {
            bail!("there is no definition of {kind}");
        }
    }
    let kinds: BTreeMap<_, _> = kinds.iter().filter(|(_, name)| served.contains_key(*name)).collect();
    Ok(serde_json::to_string(&json!({"resources": resources, "kinds": kinds}))? + "\n")
}

/// Returns `{"columns": {"group/version/plural": [column, …]}, "words": [description, …]}`.
///
/// Each column is a list: name, type, format, priority, and the index of its description in
/// `words`, since many columns share a description.
pub(crate) fn columns(columns: &Value) -> anyhow::Result<String> {
    let mut words: Vec<&str> = Vec::new();
    let mut table = Map::new();
    for (resource, columns) in columns.as_object().context("the columns are not an object")? {
        let columns = columns.as_array().context("the columns of a resource are not a list")?;
        let mut rows = Vec::new();
        for column in columns {
            let described = text(column, "description");
            let word = words.iter().position(|it| *it == described).unwrap_or_else(|| {
                words.push(described);
                words.len() - 1
            });
            rows.push(json!([column["name"], column["type"], column["format"], column["priority"], word]));
        }
        table.insert(resource.clone(), rows.into());
    }
    Ok(json!({ "columns": table, "words": words }).to_string() + "\n")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
