//! Conversion between the versions of a custom kind. With the strategy `None` only `apiVersion`
//! changes. With a webhook, the cluster calls it, and the result is completed here.

use std::collections::HashMap;

use serde_json::Value;

use super::definition::{CustomKind, Version};
use super::{object, prune};
use crate::plain_json;

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

/// The largest size of all objects of one [`Conversions`], as text.
const MAX_BYTES: usize = 256 << 20;

/// The largest number of conversions in one step. Fields are owned in 16 versions at most, so a run
/// that has an object in 15 others does not ask for further ones.
const MAX_AT_ONCE: usize = 15;

/// The conversions of one object that a computation has needed so far, by the object before the
/// conversion.
///
/// The computation of field ownership is synchronous, and finds out only on the way what it has to
/// convert. It is repeated until nothing is missing: a run that misses a conversion records it, and
/// its result is discarded.
///
/// Objects are held as text, which takes a fraction of their memory.
#[derive(Debug, Default)]
pub struct Conversions {
    /// The forms of each object, by version.
    done: HashMap<String, HashMap<String, String>>,
    missing: Vec<Missing>,
    /// The size of all objects in `done`.
    bytes: usize,
}

/// The error of conversions that take too much memory together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the conversions of the object to the versions of its managers take more than {MAX_BYTES} bytes")]
pub struct ConversionsTooLarge;

/// A conversion that is missing.
#[derive(Debug, PartialEq, Eq)]
pub struct Missing {
    object: String,
    /// The version of the object.
    from: String,
    /// The version to which it has to be converted.
    pub version: String,
}

impl Missing {
    /// Returns the object.
    pub fn object(&self) -> Value {
        plain_json::from_own_slice(self.object.as_bytes()).unwrap_or_default()
    }
}

impl Conversions {
    /// Returns the form of an object in another version. If it is not known, it is recorded as
    /// missing.
    ///
    /// If a conversion is missing already, only those of the same object are recorded, and those of
    /// objects in other versions to the same version: what else a run asks for after that may be
    /// nonsense.
    pub fn find(&mut self, object: &Value, version: &str) -> Option<Value> {
        let from = object["apiVersion"].as_str().unwrap_or_default();
        let object = object.to_string();
        if let Some(converted) = self.done.get(&object).and_then(|it| it.get(version)) {
            return plain_json::from_own_slice(converted.as_bytes()).ok();
        }
        if self.missing.first().is_none_or(|first| self.fits(first, &object, from, version)) {
            let (from, version) = (from.to_owned(), version.to_owned());
            self.missing.push(Missing { object, from, version });
        }
        None
    }

    /// Returns true if a conversion is to be recorded in addition to the first and the other
    /// missing ones.
    fn fits(&self, first: &Missing, object: &str, from: &str, version: &str) -> bool {
        let bytes: usize = self.missing.iter().map(|it| it.object.len()).sum();
        let recorded = |it: &Missing| {
            if it.object == object { it.version == version } else { it.from == from }
        };
        self.missing.len() < MAX_AT_ONCE
            && self.bytes + bytes < MAX_BYTES
            && (first.object == object || first.version == version)
            && !self.missing.iter().any(recorded)
    }

    /// Returns true if a conversion was missing since the last call of [`Self::take_missing`].
    pub fn has_missing(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Returns the missing conversions.
    pub fn take_missing(&mut self) -> Vec<Missing> {
        std::mem::take(&mut self.missing)
    }

    /// Adds the form of an object in another version.
    ///
    /// # Errors
    /// An error if all forms together become too large. The form is then not added.
    pub fn add(&mut self, missing: Missing, converted: &Value) -> Result<(), ConversionsTooLarge> {
        let Missing { object, version, .. } = missing;
        let converted = converted.to_string();
        let key = if self.done.contains_key(&object) { 0 } else { object.len() };
        let bytes = self.bytes + key + converted.len();
        if bytes > MAX_BYTES {
            return Err(ConversionsTooLarge);
        }
        self.bytes = bytes;
        self.done.entry(object).or_default().insert(version, converted);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(version: &str, content: usize) -> Value {
        json!({ "apiVersion": version, "a": content })
    }

    fn missing(conversions: &mut Conversions) -> Vec<(Value, String)> {
        conversions.take_missing().into_iter().map(|it| (it.object(), it.version)).collect()
    }

    #[test]
    fn the_missing_conversions_of_one_object_are_recorded_until_they_are_added() {
        let mut conversions = Conversions::default();
        for (content, version) in [(1, "v2"), (2, "v2"), (2, "v4"), (1, "v3"), (1, "v2")] {
            assert_eq!(conversions.find(&object("v1", content), version), None);
        }
        let all = conversions.take_missing();
        let versions: Vec<_> = all.iter().map(|it| (it.object(), it.version.as_str())).collect();
        assert_eq!(versions, [(object("v1", 1), "v2"), (object("v1", 1), "v3")]);
        let first = all.into_iter().next().expect("conversions are missing");
        conversions.add(first, &json!("converted")).expect("it is small");
        assert_eq!(conversions.find(&object("v1", 1), "v2"), Some(json!("converted")));
        assert!(!conversions.has_missing());
        assert_eq!(conversions.find(&object("v1", 1), "v3"), None);
        assert_eq!(conversions.find(&object("v1", 1), "v2"), Some(json!("converted")), "it is still known");
        assert_eq!(missing(&mut conversions), [(object("v1", 1), "v3".to_owned())]);
    }

    #[test]
    fn missing_conversions_of_objects_in_several_versions_to_one_version_are_recorded_together() {
        let mut conversions = Conversions::default();
        for (from, content) in [("v1", 1), ("v2", 2), ("v2", 3), ("v3", 4)] {
            assert_eq!(conversions.find(&object(from, content), "v9"), None);
        }
        let expected = [("v1", 1), ("v2", 2), ("v3", 4)];
        let expected = expected.map(|(from, content)| (object(from, content), "v9".to_owned()));
        assert_eq!(missing(&mut conversions), expected);
    }

    #[test]
    fn conversions_are_limited_in_number_and_in_size() {
        let mut conversions = Conversions::default();
        for version in 0..100 {
            assert_eq!(conversions.find(&object("v1", 1), &format!("v{version}")), None);
        }
        let missing = conversions.take_missing();
        assert_eq!(missing.len(), MAX_AT_ONCE);
        let large = Value::String("x".repeat(MAX_BYTES / 4));
        let added = missing.into_iter().take(4).map(|it| conversions.add(it, &large));
        let added: Vec<_> = added.collect();
        assert_eq!(added, [Ok(()), Ok(()), Ok(()), Err(ConversionsTooLarge)]);
    }
}
