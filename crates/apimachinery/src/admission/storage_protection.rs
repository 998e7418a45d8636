//! StorageObjectInUseProtection: volumes, claims and volume attributes classes stay as long as they
//! are in use. A controller removes the finalizer.
//!
//! Mirrors k8s.io/kubernetes v1.36.4
//! plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go.

use serde_json::Value;

use crate::kinds::json_access::{items, object};

/// Adds the finalizer to a new object of a kind that has one.
pub fn fill(group: &str, plural: &str, value: &mut Value) {
    let finalizer = match (group, plural) {
        ("", "persistentvolumes") => "kubernetes.io/pv-protection",
        ("", "persistentvolumeclaims") => "kubernetes.io/pvc-protection",
        ("storage.k8s.io", "volumeattributesclasses") => "kubernetes.io/vac-protection",
        _ => return,
    };
    let mut finalizers = items(value, "/metadata/finalizers").to_vec();
    if finalizers.iter().any(|it| it == finalizer) {
        return;
    }
    finalizers.push(finalizer.into());
    if let Some(map) = value.as_object_mut() {
        object(map, "metadata").insert("finalizers".to_owned(), finalizers.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_gets_its_finalizer_once_and_after_others() {
        let mut claim = json!({ "metadata": { "finalizers": ["example.com/x"] } });
        for _ in 0..2 {
            fill("", "persistentvolumeclaims", &mut claim);
            fill("", "configmaps", &mut claim);
        }
        assert_eq!(claim["metadata"]["finalizers"], json!(["example.com/x", "kubernetes.io/pvc-protection"]));
    }
}
