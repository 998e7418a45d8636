//! The table of features in docs/book/src/support.md: every feature of the crate `dogwatch`, and
//! those that are on by default.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Returns the differences between the features of a package in `cargo metadata` and the rows of
/// the chapter's table, as messages.
pub(crate) fn violations(package: &Value, chapter: &str) -> Vec<String> {
    let features = features(package);
    let (on, listed) = (on_by_default(&features), listed(chapter));
    let mut violations = Vec::new();
    for feature in features.keys().filter(|it| *it != "default") {
        match listed.get(feature) {
            None => violations.push(format!("the table has no row for {feature}")),
            Some(is_default) if *is_default != on.contains(feature) => {
                let is = if *is_default { "is not" } else { "is" };
                violations.push(format!("{feature} {is} on by default"));
            }
            Some(_) => {}
        }
    }
    for feature in listed.keys().filter(|it| !features.contains_key(*it)) {
        violations.push(format!("there is no feature {feature}"));
    }
    violations
}

/// Returns the features of a package, and what each turns on.
fn features(package: &Value) -> BTreeMap<String, Vec<String>> {
    let turned_on = |it: &Value| {
        let items = it.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let features = package["features"].as_object().into_iter().flatten();
    features.map(|(name, it)| (name.clone(), turned_on(it))).collect()
}

/// Returns the features that `default` turns on, directly or by another one.
fn on_by_default(features: &BTreeMap<String, Vec<String>>) -> BTreeSet<String> {
    let (mut on, mut waiting) = (BTreeSet::new(), vec!["default".to_owned()]);
    while let Some(feature) = waiting.pop() {
        let Some(others) = features.get(&feature) else { continue };
        if on.insert(feature) {
            waiting.extend(others.iter().cloned());
        }
    }
    on
}

/// Returns the features in the rows of the table below its header, and whether their second cell
/// begins with `yes`.
fn listed(chapter: &str) -> BTreeMap<String, bool> {
    let rows = chapter.lines().skip_while(|it| !it.starts_with("| feature | default |")).skip(2);
    let row = |line: &str| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?.to_owned();
        Some((name, cells.next()?.starts_with("yes")))
    };
    rows.take_while(|it| it.starts_with('|')).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn features_that_are_missing_gone_or_wrong_are_reported() {
        let package = json!({ "features": {
            "default": ["controller"], "controller": ["informer", "dep:x"], "informer": [], "grpc": [], "zstd": [],
        } });
        let table = "\
            text\n\n| feature | default | adds |\n|---|---|---|\n| `controller` | yes | a |\n\
            | `informer` | yes, by `controller` | b |\n| `grpc` | no | c |\n| `zstd` | no | d |\n\n| `x` | yes |\n";
        assert_eq!(violations(&package, table), [""; 0]);
        let wrong = table.replace("`zstd` | no", "`gzip` | no").replace("`grpc` | no", "`grpc` | yes");
        let expected =
            ["grpc is not on by default", "the table has no row for zstd", "there is no feature gzip"];
        assert_eq!(violations(&package, &wrong), expected);
        let off = table.replace("yes, by `controller`", "no");
        assert_eq!(violations(&package, &off), ["informer is on by default"]);
    }
}
