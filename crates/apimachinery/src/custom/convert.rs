//! Conversion between the versions of a custom kind. With the strategy `None` only `apiVersion`
//! changes. With a webhook, the cluster calls it, and the result is completed here.

use std::collections::HashMap;

use serde_json::Value;

use super::definition::{CustomKind, Version};
use super::{object, prune};

/// Changes the `apiVersion` of an object to another version of its group.
pub fn to_version(object: &mut Value, group: &str, version: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), Value::String(format!("{group}/{version}")));
    }
}

/// Returns true if only the webhook of a kind can convert an object to a version.
pub fn takes_webhook(object: &Value, kind: &CustomKind, version: &str) -> bool {
    kind.webhook.is_some() && object["apiVersion"] != format!("{}/{version}", kind.group) && !is_empty(object)
}

/// Returns true for an object without content, which is empty in every version. kube-apiserver does
/// not call webhooks for such objects (`isEmptyUnstructuredObject` in
/// k8s.io/apiextensions-apiserver v0.36.4 pkg/apiserver/conversion/webhook_converter.go).
fn is_empty(object: &Value) -> bool {
    object.as_object().is_none_or(|it| it.keys().all(|key| key == "apiVersion" || key == "kind"))
}

/// Completes an object that was converted to a version, to be shown: fields unknown to that version
/// are pruned; no defaults are set.
pub fn complete(object: &mut Value, version: &Version) {
    prune::prune(object, &version.schema);
    object::settle_numbers(object);
}

/// The conversions of one object that a computation has needed so far, by the object before the
/// conversion.
///
/// The computation of field ownership is synchronous, and finds out only on the way what it has to
/// convert. It is repeated until nothing is missing: a run that misses a conversion records it, and
/// its result is discarded.
#[derive(Debug, Default)]
pub struct Conversions {
    done: HashMap<(String, String), Value>,
    missing: Option<(Value, String)>,
}

impl Conversions {
    /// Returns the form of an object in another version. If it is not known, it is recorded as
    /// missing. Returns `None` as well if a conversion is missing already: what a run asks for after
    /// that may be nonsense, and its result is discarded.
    pub fn find(&mut self, object: &Value, version: &str) -> Option<Value> {
        if self.has_missing() {
            return None;
        }
        let found = self.done.get(&key(object, version)).cloned();
        if found.is_none() {
            self.missing = Some((object.clone(), version.to_owned()));
        }
        found
    }

    /// Returns true if a conversion was missing since the last call of [`Self::take_missing`].
    pub fn has_missing(&self) -> bool {
        self.missing.is_some()
    }

    /// Returns the object and the version of the missing conversion, if there is one.
    pub fn take_missing(&mut self) -> Option<(Value, String)> {
        self.missing.take()
    }

    /// Adds the form of an object in another version.
    pub fn add(&mut self, object: &Value, version: &str, converted: Value) {
        self.done.insert(key(object, version), converted);
    }
}

fn key(object: &Value, version: &str) -> (String, String) {
    (version.to_owned(), object.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_missing_conversion_is_recorded_until_it_is_added() {
        let mut conversions = Conversions::default();
        assert_eq!(conversions.find(&json!({ "a": 1 }), "v2"), None);
        assert_eq!(conversions.find(&json!({ "a": 2 }), "v2"), None);
        assert_eq!(conversions.take_missing(), Some((json!({ "a": 1 }), "v2".to_owned())));
        assert_eq!(conversions.take_missing(), None);
        conversions.add(&json!({ "a": 1 }), "v2", json!("converted"));
        assert_eq!(conversions.find(&json!({ "a": 1 }), "v2"), Some(json!("converted")));
        assert_eq!(conversions.take_missing(), None);
        assert_eq!(conversions.find(&json!({ "a": 1 }), "v3"), None);
        assert_eq!(conversions.take_missing(), Some((json!({ "a": 1 }), "v3".to_owned())));
    }
}
