//! Finalizers that controllers remove when they are done with an object.

use serde_json::Value;

/// Removes a finalizer from the list at a pointer, such as `/metadata/finalizers`. Returns true if
/// it was present.
pub(crate) fn remove(object: &mut Value, pointer: &str, finalizer: &str) -> bool {
    let finalizers = object.pointer_mut(pointer).and_then(Value::as_array_mut);
    let Some(finalizers) = finalizers else { return false };
    let before = finalizers.len();
    finalizers.retain(|it| it != finalizer);
    finalizers.len() < before
}

/// Returns true if an object has this uid. An object of the same name that was created later is
/// another one, and keeps its finalizers and its status.
pub(crate) fn is_same(object: &Value, uid: &str) -> bool {
    object["metadata"]["uid"] == uid
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_finalizer_is_removed_once_and_from_its_own_list() {
        let mut object = json!({ "metadata": { "finalizers": ["a", "b"] }, "spec": { "finalizers": ["a"] } });
        assert!(remove(&mut object, "/metadata/finalizers", "a"));
        assert!(!remove(&mut object, "/metadata/finalizers", "a"));
        assert!(!remove(&mut object, "/status/finalizers", "a"));
        assert_eq!(object, json!({ "metadata": { "finalizers": ["b"] }, "spec": { "finalizers": ["a"] } }));
    }
}
