//! PersistentVolumeClaimResize: claims grow only if they are bound and their storage class permits
//! it.
//!
//! Mirrors k8s.io/kubernetes v1.36.4
//! plugin/pkg/admission/storage/persistentvolume/resize/admission.go.

use serde_json::Value;

use crate::kinds::json_access::{at, flag, text};
use crate::kinds::quantity::Quantity;

/// Returns true if an update asks for more storage.
pub fn grows(new: &Value, old: &Value) -> bool {
    let size = |claim| {
        at(claim, "/spec/resources/requests/storage").and_then(Quantity::read).unwrap_or(Quantity::count(0))
    };
    size(new).exceeds(size(old))
}

/// Returns the storage class that a claim has before and after an update, if that is the same one.
pub fn class<'a>(new: &'a Value, old: &'a Value) -> Option<&'a str> {
    let class = |claim: &'a Value| {
        let annotation = at(claim, "/metadata/annotations")
            .and_then(|it| it.get("volume.beta.kubernetes.io/storage-class"))
            .and_then(Value::as_str);
        annotation.unwrap_or_else(|| text(claim, "/spec/storageClassName"))
    };
    Some(class(new)).filter(|it| !it.is_empty() && *it == class(old))
}

/// Returns the message if a claim must not grow. `class` is its storage class.
pub fn refuse(old: &Value, class: Option<&Value>) -> Option<&'static str> {
    if text(old, "/status/phase") != "Bound" {
        return Some("Only bound persistent volume claims can be expanded");
    }
    let permits = class.is_some_and(|it| flag(it, "/allowVolumeExpansion"));
    (!permits).then_some(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(size: &str, class: &str, phase: &str) -> Value {
        json!({ "spec": { "resources": { "requests": { "storage": size } }, "storageClassName": class },
            "status": { "phase": phase } })
    }

    #[test]
    fn only_bound_claims_of_an_expandable_class_grow() {
        let (small, large) = (claim("1Gi", "c", "Bound"), claim("2Gi", "c", "Bound"));
        assert!(grows(&large, &small) && !grows(&small, &large) && !grows(&small, &claim("1024Mi", "c", "")));
        assert_eq!(class(&large, &small), Some("c"));
        assert_eq!(class(&large, &claim("1Gi", "d", "Bound")), None);
        assert_eq!(refuse(&small, Some(&json!({ "allowVolumeExpansion": true }))), None);
        assert!(refuse(&small, Some(&json!({}))).unwrap().contains("must support resize"));
        assert!(refuse(&small, None).is_some());
        let unbound = refuse(&claim("1Gi", "c", "Pending"), None);
        assert_eq!(unbound, Some("Only bound persistent volume claims can be expanded"));
    }
}
