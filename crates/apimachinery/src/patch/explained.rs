//! The reason why an operation of a JSON patch does not apply.
//!
//! Requests get one error for all failures; policies show the reason. The messages are those of
//! gopkg.in/evanphx/json-patch.v4 v4.13.0 patch.go.

use serde_json::Value;

use super::json::{Failed, parent};
use crate::strconv::quote;

/// The reason why a patch changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// A `test` found another value.
    TestFailed,
    /// An operation does not apply.
    Message(String),
}

/// Explains the failure of a patch.
pub(super) fn explain(mut failed: Failed<'_>) -> Reason {
    let Some(operation) = failed.operation else {
        return Reason::Message("the patch is too large or nested too deeply".to_owned());
    };
    let text = |field: &str| operation.get(field).and_then(Value::as_str).unwrap_or_default();
    let (path, from) = (text("path"), text("from"));
    let document = &mut failed.document;
    Reason::Message(match text("op") {
        "add" => match parent(document, path) {
            Some((container, key)) if is_container(container) => {
                format!("error in add for path: '{path}': {}", insertion(container, &key))
            }
            _ => format!("add operation does not apply: doc is missing path: {}: missing value", raw(path)),
        },
        "remove" => match parent(document, path) {
            Some((container, key)) if is_container(container) => {
                format!("error in remove for path: '{path}': {}", removal(container, &key))
            }
            _ => {
                format!("remove operation does not apply: doc is missing path: {}: missing value", raw(path))
            }
        },
        "replace" => match parent(document, path) {
            Some((container, _)) if is_container(container) => {
                format!("replace operation does not apply: doc is missing key: {path}: missing value")
            }
            _ => format!("replace operation does not apply: doc is missing path: {path}: missing value"),
        },
        "test" => match parent(document, path) {
            _ if path.is_empty() => return Reason::TestFailed,
            Some((Value::Array(items), key)) if index(items.len(), &key).is_err() => {
                let why = index(items.len(), &key).err().unwrap_or_default();
                format!("error in test for path: '{path}': {why}")
            }
            Some((container, _)) if is_container(container) => return Reason::TestFailed,
            _ => format!("test operation does not apply: is missing path: {path}: missing value"),
        },
        op @ ("move" | "copy") => match parent(document, from) {
            Some((container, key)) if is_container(container) => {
                let why = match op {
                    "move" => failed_removal(container, &key),
                    _ => None,
                };
                match why {
                    Some(why) => format!("error in move for path: '{key}': {why}"),
                    None => format!(
                        "{op} operation does not apply: doc is missing destination path: {path}: missing value"
                    ),
                }
            }
            _ => format!("{op} operation does not apply: doc is missing from path: {from}: missing value"),
        },
        op => format!("Unexpected kind: {op}"),
    })
}

fn is_container(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// Returns a path between quotes that do not escape it.
fn raw(path: &str) -> String {
    format!("\"{path}\"")
}

fn insertion(container: &Value, key: &str) -> String {
    match container {
        Value::Array(items) => match index(items.len().saturating_add(1), key) {
            Err(why) if why.starts_with("strconv") => {
                format!("value was not a proper array index: '{key}': {why}")
            }
            Err(why) => why,
            Ok(()) => "the patch is too large".to_owned(),
        },
        _ => "the patch is too large".to_owned(),
    }
}

fn removal(container: &Value, key: &str) -> String {
    failed_removal(container, key).unwrap_or_default()
}

fn failed_removal(container: &Value, key: &str) -> Option<String> {
    match container {
        Value::Object(fields) if !fields.contains_key(key) => {
            Some(format!("Unable to remove nonexistent key: {key}: missing value"))
        }
        Value::Array(items) => index(items.len(), key).err(),
        _ => None,
    }
}

/// Checks an index of a list.
fn index(length: usize, key: &str) -> Result<(), String> {
    let at: i64 = key.parse().map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", quote(key)))?;
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    match (-length..length).contains(&at) {
        true => Ok(()),
        false => Err(format!("Unable to access invalid index: {at}: invalid index referenced")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::json::apply_all;
    use super::*;

    #[test]
    fn each_failure_has_its_reason() {
        let document = json!({ "data": { "k": "v" }, "list": ["a"] });
        for (operation, reason) in [
            (
                json!({ "op": "add", "path": "/a/b", "value": 1 }),
                "add operation does not apply: doc is missing path: \"/a/b\": missing value",
            ),
            (
                json!({ "op": "add", "path": "/list/5", "value": 1 }),
                "error in add for path: '/list/5': Unable to access invalid index: 5: invalid index referenced",
            ),
            (
                json!({ "op": "add", "path": "/list/x", "value": 1 }),
                "error in add for path: '/list/x': value was not a proper array index: 'x': strconv.Atoi: parsing \
                 \"x\": invalid syntax",
            ),
            (
                json!({ "op": "remove", "path": "/data/x" }),
                "error in remove for path: '/data/x': Unable to remove nonexistent key: x: missing value",
            ),
            (
                json!({ "op": "replace", "path": "/a/b", "value": 1 }),
                "replace operation does not apply: doc is missing path: /a/b: missing value",
            ),
            (
                json!({ "op": "test", "path": "/a/b", "value": 1 }),
                "test operation does not apply: is missing path: /a/b: missing value",
            ),
            (
                json!({ "op": "move", "from": "/data/x", "path": "/data/y" }),
                "error in move for path: 'x': Unable to remove nonexistent key: x: missing value",
            ),
            (
                json!({ "op": "copy", "from": "/a/x", "path": "/data/y" }),
                "copy operation does not apply: doc is missing from path: /a/x: missing value",
            ),
            (json!({ "op": "bogus", "path": "/data/y" }), "Unexpected kind: bogus"),
        ] {
            let operations = [operation];
            let found = explain(apply_all(&document, &operations).unwrap_err());
            assert_eq!(found, Reason::Message(reason.to_owned()));
        }
        let operations = [json!({ "op": "test", "path": "/data/k", "value": "x" })];
        assert_eq!(explain(apply_all(&document, &operations).unwrap_err()), Reason::TestFailed);
    }
}
