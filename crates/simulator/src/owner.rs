//! The one owner that manages an object: its controller.

use dogwatch_core::ObjectKey;
use serde_json::{Value, json};

use crate::json_access::{flag, items, text};

/// Returns the reference to the controller of an object, if it has one.
pub(crate) fn controller(object: &Value) -> Option<&Value> {
    items(object, "/metadata/ownerReferences").iter().find(|it| flag(it, "/controller"))
}

/// Returns the key of an object's controller, if that is of this kind.
pub(crate) fn controller_key(object: &Value, kind: &str) -> Option<ObjectKey> {
    let owner = controller(object).filter(|it| text(it, "/kind") == kind)?;
    ObjectKey::from_parts(Some(text(object, "/metadata/namespace")), text(owner, "/name")).ok()
}

/// Returns true if this object is the controller of another.
pub(crate) fn controls(owner: &Value, object: &Value) -> bool {
    controller(object).is_some_and(|it| text(it, "/uid") == text(owner, "/metadata/uid"))
}

/// Returns a reference that makes an object the controller of another.
pub(crate) fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    })
}

/// Makes an object the controller of another, which must have none. Returns true if that changed
/// anything.
pub(crate) fn adopt(owner: &Value, object: &mut Value) -> bool {
    if controller(object).is_some() || is_deleting(object) {
        return false;
    }
    let mut owners = items(object, "/metadata/ownerReferences").to_vec();
    owners.push(reference(owner));
    object["metadata"]["ownerReferences"] = owners.into();
    true
}

/// Removes an object from its controller. Returns true if that changed anything.
pub(crate) fn release(owner: &Value, object: &mut Value) -> bool {
    if !controls(owner, object) {
        return false;
    }
    let uid = text(owner, "/metadata/uid");
    let mut owners = items(object, "/metadata/ownerReferences").to_vec();
    owners.retain(|it| text(it, "/uid") != uid);
    object["metadata"]["ownerReferences"] = owners.into();
    true
}

/// Returns true if an object is being deleted.
pub(crate) fn is_deleting(object: &Value) -> bool {
    crate::json_access::at(object, "/metadata/deletionTimestamp").is_some()
}

/// Returns the key of an object.
pub(crate) fn key_of(object: &Value) -> Option<ObjectKey> {
    ObjectKey::from_parts(Some(text(object, "/metadata/namespace")), text(object, "/metadata/name")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_one_controller_at_most() {
        let owner = |uid: &str| json!({ "kind": "ReplicaSet", "metadata": { "name": uid, "uid": uid } });
        let mut pod = json!({ "kind": "Pod", "metadata": { "name": "p", "namespace": "n" } });
        assert!(adopt(&owner("a"), &mut pod) && !adopt(&owner("b"), &mut pod));
        assert!(controls(&owner("a"), &pod) && !controls(&owner("b"), &pod));
        assert_eq!(controller_key(&pod, "ReplicaSet"), Some(ObjectKey::namespaced("n", "a")));
        assert_eq!(controller_key(&pod, "Job"), None);
        assert!(!release(&owner("b"), &mut pod) && release(&owner("a"), &mut pod));
        assert!(controller(&pod).is_none());
    }
}
