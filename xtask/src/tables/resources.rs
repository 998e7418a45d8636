//! What is served and how it is printed, with the definition of each kind beside it.
//!
//! Keeps the order of the facts, which is the order of priority.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::definitions::Definitions;

/// The `group/version`s that are served.
pub(crate) fn group_versions(resources: &Value) -> anyhow::Result<BTreeSet<String>> {
    let list = resources.as_array().context("the resources are a list")?;
    Ok(list.iter().map(|it| format!("{}/{}", text(it, "group"), text(it, "version"))).collect())
}

/// `{"resources": […], "kinds": {"group/version/kind": "definition"}}`. A resource without a definition is refused.
pub(crate) fn table(
    resources: &Value,
    kinds: &BTreeMap<String, String>,
    served: &Definitions,
) -> anyhow::Result<String> {
    for it in resources.as_array().context("the resources are a list")? {
        let kind = [text(it, "group"), text(it, "version"), text(it, "kind")].join("/");
        if !kinds.get(&kind).is_some_and(|name| served.contains_key(name)) {
            bail!("there is no definition of {kind}");
        }
    }
    let kinds: BTreeMap<_, _> = kinds.iter().filter(|(_, name)| served.contains_key(*name)).collect();
    Ok(serde_json::to_string(&json!({"resources": resources, "kinds": kinds}))? + "\n")
}

/// `{"group/version/plural": [{name, type, format, priority}]}`.
pub(crate) fn columns(columns: &Value) -> anyhow::Result<String> {
    Ok(serde_json::to_string(columns)? + "\n")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
