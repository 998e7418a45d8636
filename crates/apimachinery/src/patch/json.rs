//! JSON patch (RFC 6902), as lenient as the library that kube-apiserver uses,
//! gopkg.in/evanphx/json-patch.v4 v4.13.0 patch.go.
//!
//! It departs from the RFC in these points: `replace` sets a missing key, a missing `value` is
//! null, a missing key equals null for `test` and `copy`, list indices may be negative (from the
//! end), signed, or have leading zeroes, and everything before the first slash of a path is
//! ignored. Every operation that does not apply gets the same error.

use dogwatch_core::Reason;
use serde_json::{Map, Value};

use super::go_format::rejected;
use crate::ApiError;
use crate::depth;

/// The maximum number of operations, `maxJSONPatchOperations` of k8s.io/apiserver v0.36.4
/// pkg/endpoints/handlers/patch.go.
const MAX_OPERATIONS: usize = 10_000;

/// The number of bytes of JSON that all `copy` operations of one patch may add,
/// `JSONPatchMaxCopyBytes` of k8s.io/apiserver v0.36.4 pkg/server/config.go.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Rejects patches with more operations than kube-apiserver accepts.
pub(super) fn check_length(operations: &[Value]) -> Result<(), ApiError> {
    if operations.len() <= MAX_OPERATIONS {
        return Ok(());
    }
    let message = format!(
        "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
        operations.len()
    );
    let mut refusal = ApiError::new(Reason::RequestEntityTooLarge, message);
    refusal.0.details = None;
    Err(refusal)
}

/// The number of values that all depth measurements of one patch may visit. Without it, a patch
/// that keeps a large document at the depth limit would walk over all of it after each operation.
const MAX_MEASURED_VALUES: usize = 10_000_000;

/// The number of list items that all operations of one patch may move to another index. Without it,
/// each of many operations at the front of a long list would move all of it.
const MAX_SHIFTED_ITEMS: usize = 100_000_000;

/// The operation that failed a patch.
#[derive(Debug)]
pub(super) struct Failed<'a> {
    /// The operation; `None` if the patch exceeds a limit.
    pub(super) operation: Option<&'a Value>,
    /// The document as the operations before have left it, or as the failed one has.
    pub(super) document: Value,
}

/// Applies the operations in order. All or nothing: the first operation that does not apply fails
/// the patch.
pub(super) fn apply(original: &Value, operations: &[Value]) -> Result<Value, ApiError> {
    apply_all(original, operations).map_err(|_| rejected())
}

/// Applies the operations like [`apply`], and returns the one that fails.
pub(super) fn apply_all<'a>(original: &Value, operations: &'a [Value]) -> Result<Value, Failed<'a>> {
    let mut document = original.clone();
    let (mut copied, mut shifted) = (0, 0);
    // An upper bound of the depth, measured exactly only when it exceeds the limit.
    let mut measured = 0;
    let mut depth = measure(original, &mut measured);
    for operation in operations {
        let parts = operation.as_object().map(Operation);
        let Some(parts) = parts.filter(|it| it.run(&mut document, &mut copied, &mut shifted).is_some())
        else {
            return Err(Failed { operation: Some(operation), document });
        };
        depth = depth.max(parts.depth_after(depth));
        if depth > depth::TEXT {
            depth = measure(&document, &mut measured);
        }
        if depth > depth::TEXT || measured > MAX_MEASURED_VALUES || shifted > MAX_SHIFTED_ITEMS {
            return Err(Failed { operation: None, document });
        }
    }
    Ok(document)
}

/// Returns the depth of a value, and adds the number of visited values to `visited`.
fn measure(value: &Value, visited: &mut usize) -> usize {
    *visited += 1;
    match value {
        Value::Array(items) => 1 + items.iter().map(|it| measure(it, visited)).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(|it| measure(it, visited)).max().unwrap_or(0),
        _ => 0,
    }
}

/// One operation. Its methods return `None` if it does not apply.
struct Operation<'a>(&'a Map<String, Value>);

impl Operation<'_> {
    fn run(&self, document: &mut Value, copied: &mut usize, shifted: &mut usize) -> Option<()> {
        match self.text("op")? {
            "add" => add(document, self.text("path")?, self.value(), shifted),
            "remove" => remove(document, self.text("path")?, shifted).map(drop),
            "replace" => replace(document, self.text("path")?, self.value()),
            "move" => {
                let value = remove(document, self.text("from")?, shifted)?;
                add(document, self.text("path")?, value, shifted)
            }
            "copy" => {
                let value = get(document, self.text("from")?)?.clone();
                *copied += value.to_string().len();
                if *copied > MAX_COPIED_BYTES {
                    return None;
                }
                add(document, self.text("path")?, value, shifted)
            }
            "test" => self.test(document),
            _ => None,
        }
    }

    fn test(&self, document: &mut Value) -> Option<()> {
        let path = self.text("path")?;
        let equal = if path.is_empty() {
            Some(&*document) == self.0.get("value")
        } else {
            get(document, path)? == self.0.get("value").unwrap_or(&Value::Null)
        };
        equal.then_some(())
    }

    /// Returns an upper bound of the depth at the path that this operation wrote to, for a document
    /// that had this depth.
    fn depth_after(&self, depth: usize) -> usize {
        let parts = |field| self.text(field).map_or(0, |path| path.matches('/').count());
        match self.text("op") {
            Some("add" | "replace") => parts("path") + self.0.get("value").map_or(0, depth::of),
            Some("move" | "copy") => (depth + parts("path")).saturating_sub(parts("from")),
            _ => 0,
        }
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.0.get(field)?.as_str()
    }

    fn value(&self) -> Value {
        self.0.get("value").cloned().unwrap_or_default()
    }
}

fn add(document: &mut Value, path: &str, value: Value, shifted: &mut usize) -> Option<()> {
    let (container, key) = parent(document, path)?;
    match container {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(&key, items.len() + 1)?;
            *shifted += items.len() - at;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str, shifted: &mut usize) -> Option<Value> {
    let (container, key) = parent(document, path)?;
    match container {
        Value::Object(fields) => fields.remove(&key),
        Value::Array(items) => {
            let at = index(&key, items.len())?;
            *shifted += items.len() - at;
            Some(items.remove(at))
        }
        _ => None,
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return None;
        }
        *document = value;
        return Some(());
    }
    let (container, key) = parent(document, path)?;
    match container {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) => {
            let at = index(&key, items.len())?;
            items[at] = value;
        }
        _ => return None,
    }
    Some(())
}

/// Returns the value at a path, or null for a missing key.
fn get<'a>(document: &'a mut Value, path: &str) -> Option<&'a Value> {
    let (container, key) = parent(document, path)?;
    match container {
        Value::Object(fields) => Some(fields.get(&key).unwrap_or(&Value::Null)),
        Value::Array(items) => index(&key, items.len()).map(|at| &items[at]),
        _ => None,
    }
}

/// Returns the list or object that contains the target of a path, and the last segment of the path.
pub(super) fn parent<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut parts = path.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
    let mut key = parts.next()?;
    let mut container = document;
    for next in parts {
        container = match container {
            Value::Object(fields) => fields.get_mut(&key)?,
            Value::Array(items) => {
                let at = index(&key, items.len())?;
                &mut items[at]
            }
            _ => return None,
        };
        key = next;
    }
    Some((container, key))
}

/// Returns the index below `length` that a path segment refers to; negative ones count from the
/// end.
fn index(part: &str, length: usize) -> Option<usize> {
    let wanted: i64 = part.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let at = if wanted < 0 { wanted.saturating_add(length) } else { wanted };
    (0..length).contains(&at).then(|| usize::try_from(at).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document() -> Value {
        json!({"data": {"k": "v", "l": "m"}, "list": ["a", "b"], "n": null})
    }

    /// Recorded from kube-apiserver 1.36, on a ConfigMap with finalizers for the list.
    #[test]
    fn operations_apply_as_leniently_as_in_kube_apiserver() {
        for (operation, pointer, expected) in [
            (json!({"op": "replace", "path": "/data/missing", "value": "x"}), "/data/missing", json!("x")),
            (json!({"op": "add", "path": "/data/new"}), "/data/new", json!(null)),
            (json!({"op": "replace", "path": "/data"}), "/data", json!(null)),
            (json!({"op": "test", "path": "/data/none"}), "/data/k", json!("v")),
            (json!({"op": "test", "path": "/data/none", "value": null}), "/data/k", json!("v")),
            (json!({"op": "replace", "path": "data/k", "value": "q"}), "/k", json!("q")),
            (json!({"op": "add", "path": "/list/-1", "value": "z"}), "/list", json!(["a", "b", "z"])),
            (json!({"op": "add", "path": "/list/-", "value": "z"}), "/list", json!(["a", "b", "z"])),
            (json!({"op": "add", "path": "/list/+1", "value": "z"}), "/list", json!(["a", "z", "b"])),
            (json!({"op": "add", "path": "/list/2", "value": "z"}), "/list", json!(["a", "b", "z"])),
            (json!({"op": "replace", "path": "/list/01", "value": "z"}), "/list", json!(["a", "z"])),
            (json!({"op": "remove", "path": "/list/-1"}), "/list", json!(["a"])),
            (json!({"op": "remove", "path": "/n"}), "/data/k", json!("v")),
            (json!({"op": "copy", "from": "/data/none", "path": "/data/c"}), "/data/c", json!(null)),
            (json!({"op": "copy", "from": "/data/k", "path": "/data/c"}), "/data/c", json!("v")),
            (
                json!({"op": "move", "from": "/data/k", "path": "/data/c"}),
                "/data",
                json!({"c": "v", "l": "m"}),
            ),
            (json!({"op": "replace", "path": "", "value": []}), "", json!([])),
            (json!({"op": "add", "path": "/data/k", "value": "x", "extra": 1}), "/data/k", json!("x")),
            (json!({"op": "test", "path": "/data", "value": {"l": "m", "k": "v"}}), "/data/k", json!("v")),
        ] {
            let result = apply(&document(), std::slice::from_ref(&operation)).expect("the operation applies");
            assert_eq!(result.pointer(pointer), Some(&expected), "{operation}");
        }
    }

    #[test]
    fn every_operation_that_does_not_apply_gets_the_same_error() {
        for operation in [
            json!({"op": "test", "path": "/data/k", "value": "no"}),
            json!({"op": "test", "path": "/data/k"}),
            json!({"op": "test", "path": "", "value": {}}),
            json!({"op": "test", "path": ""}),
            json!({"op": "remove", "path": "/data/missing"}),
            json!({"op": "remove"}),
            json!({"op": "add", "path": "/none/x", "value": "x"}),
            json!({"op": "add", "path": "/n/x", "value": "x"}),
            json!({"op": "add", "path": "", "value": {}}),
            json!({"op": "add", "path": "/list/3", "value": "x"}),
            json!({"op": "add", "path": "/list/-4", "value": "x"}),
            json!({"op": "replace", "path": "/list/-", "value": "x"}),
            json!({"op": "replace", "path": "/list/2", "value": "x"}),
            json!({"op": "replace", "path": "", "value": 5}),
            json!({"op": "replace", "path": ""}),
            json!({"op": "move", "from": "/data/none", "path": "/data/c"}),
            json!({"op": "move", "from": "/data", "path": "/data/c"}),
            json!({"op": "copy", "path": "/data/c"}),
            json!({"op": "bogus", "path": "/data/k"}),
            json!({"OP": "add", "path": "/data/k", "value": "x"}),
            json!({"op": "add", "path": 5}),
            json!(null),
        ] {
            let refusal = apply(&document(), std::slice::from_ref(&operation))
                .expect_err("the operation does not apply");
            assert_eq!(refusal, rejected(), "{operation}");
        }
        assert_eq!((rejected().0.code, rejected().0.details.is_some()), (422, true));
    }

    #[test]
    fn operations_see_the_effects_of_earlier_ones_and_escapes_are_decoded() {
        let operations = [
            json!({"op": "test", "path": "/data/k", "value": "v"}),
            json!({"op": "add", "path": "/annotations", "value": {"example.com/a~b": "1"}}),
            json!({"op": "replace", "path": "/annotations/example.com~1a~0b", "value": "2"}),
            json!({"op": "add", "path": "/annotations/~01", "value": "3"}),
        ];
        let result = apply(&document(), &operations).expect("all apply");
        assert_eq!(result["annotations"], json!({"example.com/a~b": "2", "~1": "3"}));
    }

    #[test]
    fn ten_thousand_operations_are_accepted_and_one_more_is_too_large() {
        let operation = json!({"op": "test", "path": "/data/k", "value": "v"});
        assert!(check_length(&vec![operation.clone(); 10_000]).is_ok());
        let refusal = check_length(&vec![operation; 10_001]).expect_err("too many");
        assert_eq!(
            (refusal.0.code, refusal.0.message.as_str()),
            (
                413,
                "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
            )
        );
    }

    #[test]
    fn copies_that_add_more_than_three_mebibytes_are_rejected() {
        let large = json!({"data": {"k": "x".repeat(1024 * 1024 - 2)}});
        let copy = |i: usize| json!({"op": "copy", "from": "/data/k", "path": format!("/data/{i}")});
        let operations: Vec<Value> = (0..4).map(copy).collect();
        assert!(apply(&large, &operations[..3]).is_ok());
        assert_eq!(apply(&large, &operations), Err(rejected()));
    }

    #[test]
    fn a_patch_that_stays_at_the_depth_limit_is_not_measured_without_bound() {
        let deepest = (0..depth::TEXT - 2).fold(json!(1), |inner, _| json!({ "a": inner }));
        let large = json!({ "deep": deepest, "wide": vec![0; 200_000], "x": {}, "y": { "z": {} } });
        let back_and_forth = [
            json!({"op": "move", "from": "/x", "path": "/y/z/x"}),
            json!({"op": "move", "from": "/y/z/x", "path": "/x"}),
        ];
        let many: Vec<Value> = back_and_forth.iter().cycle().take(MAX_OPERATIONS).cloned().collect();
        // Each operation would walk over all 200,000 values.
        assert_eq!(apply(&large, &many), Err(rejected()));
        assert_eq!(apply(&large, &many[..40]), Ok(large));
    }

    #[test]
    fn a_patch_cannot_move_a_long_list_again_and_again() {
        let long = json!({ "l": vec![0; 50_000] });
        let remove = vec![json!({"op": "remove", "path": "/l/0"}); MAX_OPERATIONS];
        let front = vec![json!({"op": "add", "path": "/l/0", "value": 1}); MAX_OPERATIONS];
        let back = vec![json!({"op": "add", "path": "/l/-", "value": 1}); MAX_OPERATIONS];
        assert_eq!(apply(&long, &remove), Err(rejected()));
        assert_eq!(apply(&long, &front), Err(rejected()));
        assert!(apply(&long, &back).is_ok() && apply(&long, &remove[..1_000]).is_ok());
    }

    #[test]
    fn moves_cannot_exceed_the_depth_limit_but_may_go_back_and_forth() {
        let deeper = [
            json!({"op": "add", "path": "/new", "value": {}}),
            json!({"op": "move", "from": "/data", "path": "/new/data"}),
            json!({"op": "move", "from": "/new", "path": "/data"}),
        ];
        let too_deep: Vec<Value> = deeper.iter().cycle().take(600).cloned().collect();
        assert_eq!(apply(&document(), &too_deep), Err(rejected()));

        let back_and_forth = [
            json!({"op": "move", "from": "/list", "path": "/data/list"}),
            json!({"op": "move", "from": "/data/list", "path": "/list"}),
        ];
        let many: Vec<Value> = back_and_forth.iter().cycle().take(600).cloned().collect();
        assert_eq!(apply(&document(), &many), Ok(document()));
    }
}
