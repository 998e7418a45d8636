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

/// The largest number of versions to which one object is converted in one step. Fields are owned in 16
/// versions at most, so a run that has this many conversions does not ask for those of the other versions.
const MAX_VERSIONS: usize = 15;

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
    missing: Option<Missing>,
    /// The size of all objects in `done`.
    bytes: usize,
}

/// The error of conversions that take too much memory together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the conversions of the object to the versions of its managers take more than {MAX_BYTES} bytes")]
pub struct ConversionsTooLarge;

/// An object, and the versions to which it has to be converted.
#[derive(Debug, PartialEq, Eq)]
pub struct Missing {
    object: String,
    /// The versions.
    pub versions: Vec<String>,
}

impl Missing {
    /// Returns the object.
    pub fn object(&self) -> Value {
        plain_json::from_own_slice(self.object.as_bytes()).unwrap_or_default()
    }
}

impl Conversions {
    /// Returns the form of an object in another version. If it is not known, it is recorded as
    /// missing. If a conversion of another object is missing already, returns `None` and records
    /// nothing: what a run asks for after that may be nonsense, and its result is discarded.
    pub fn find(&mut self, object: &Value, version: &str) -> Option<Value> {
        let object = object.to_string();
        let known = self.done.get(&object).and_then(|it| it.get(version));
        match (&mut self.missing, known) {
            (None, Some(converted)) => return plain_json::from_own_slice(converted.as_bytes()).ok(),
            (None, None) => self.missing = Some(Missing { object, versions: vec![version.to_owned()] }),
            (Some(missing), None) if missing.object == object => {
                let room = missing.versions.len() < MAX_VERSIONS;
                if room && !missing.versions.iter().any(|it| it == version) {
                    missing.versions.push(version.to_owned());
                }
            }
            (Some(_), _) => {}
        }
        None
    }

    /// Returns true if a conversion was missing since the last call of [`Self::take_missing`].
    pub fn has_missing(&self) -> bool {
        self.missing.is_some()
    }

    /// Returns the missing conversions, if there are any.
    pub fn take_missing(&mut self) -> Option<Missing> {
        self.missing.take()
    }

    /// Adds the form of an object in another version.
    ///
    /// # Errors
    /// An error if all forms together become too large. The form is then not added.
    pub fn add(&mut self, of: &Missing, version: &str, converted: &Value) -> Result<(), ConversionsTooLarge> {
        let converted = converted.to_string();
        let key = if self.done.contains_key(&of.object) { 0 } else { of.object.len() };
        let bytes = self.bytes + key + converted.len();
        if bytes > MAX_BYTES {
            return Err(ConversionsTooLarge);
        }
        self.bytes = bytes;
        self.done.entry(of.object.clone()).or_default().insert(version.to_owned(), converted);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_missing_conversions_of_one_object_are_recorded_until_they_are_added() {
        let mut conversions = Conversions::default();
        for (object, version) in [(1, "v2"), (2, "v2"), (1, "v3"), (1, "v2")] {
            assert_eq!(conversions.find(&json!({ "a": object }), version), None);
        }
        let missing = conversions.take_missing().expect("conversions are missing");
        assert_eq!(missing.object(), json!({ "a": 1 }));
        assert_eq!(missing.versions, ["v2", "v3"]);
        assert_eq!(conversions.take_missing(), None);
        conversions.add(&missing, "v2", &json!("converted")).expect("it is small");
        assert_eq!(conversions.find(&json!({ "a": 1 }), "v2"), Some(json!("converted")));
        assert_eq!(conversions.take_missing(), None);
        assert_eq!(conversions.find(&json!({ "a": 1 }), "v3"), None);
        assert_eq!(conversions.take_missing().map(|it| it.versions), Some(vec!["v3".to_owned()]));
    }

    #[test]
    fn conversions_are_limited_in_number_and_in_size() {
        let mut conversions = Conversions::default();
        for version in 0..100 {
            assert_eq!(conversions.find(&json!({ "a": 1 }), &format!("v{version}")), None);
        }
        let missing = conversions.take_missing().expect("conversions are missing");
        assert_eq!(missing.versions.len(), MAX_VERSIONS);
        let large = Value::String("x".repeat(MAX_BYTES / 4));
        let added = missing.versions.iter().map(|it| conversions.add(&missing, it, &large));
        let added: Vec<_> = added.take(4).collect();
        assert_eq!(added, [Ok(()), Ok(()), Ok(()), Err(ConversionsTooLarge)]);
    }
}
