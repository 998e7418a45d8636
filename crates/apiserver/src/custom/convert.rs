//! Conversion between the versions of a custom kind. With the strategy `None` only `apiVersion`
//! changes. With a webhook, the cluster calls it before it shows or stores objects, and caches the
//! converted objects here.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The number of conversions after which a new generation of the cache begins.
const GENERATION_SIZE: usize = 1_000;

type Key = [u8; 32];

/// Changes the `apiVersion` of an object to another version of its group.
pub fn to_version(object: &mut Value, group: &str, version: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), Value::String(format!("{group}/{version}")));
    }
}

/// A cache of the objects that a webhook has converted, by the object before the conversion. Holds
/// at least those of the last few requests.
#[derive(Default)]
pub struct Conversions {
    /// The current generation, and the one before it.
    kept: Mutex<(HashMap<Key, Value>, HashMap<Key, Value>)>,
}

impl Conversions {
    /// Makes room for the conversions of a request: if the current generation is full, it replaces
    /// the previous one.
    pub fn make_room(&self) {
        let mut kept = self.kept();
        if kept.0.len() >= GENERATION_SIZE {
            kept.1 = std::mem::take(&mut kept.0);
        }
    }

    /// Stores the form of an object in another version.
    pub fn keep(&self, object: &Value, version: &str, converted: Value) {
        self.kept().0.insert(key(object, version), converted);
    }

    /// Returns the form of an object in another version, if a webhook has converted it.
    pub fn find(&self, object: &Value, version: &str) -> Option<Value> {
        let (key, kept) = (key(object, version), self.kept());
        kept.0.get(&key).or_else(|| kept.1.get(&key)).cloned()
    }

    fn kept(&self) -> MutexGuard<'_, (HashMap<Key, Value>, HashMap<Key, Value>)> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints the number of conversions and none of their content.
impl fmt::Debug for Conversions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversions").field("kept", &self.kept().0.len()).finish_non_exhaustive()
    }
}

fn key(object: &Value, version: &str) -> Key {
    let mut digest = Sha256::new();
    digest.update(version);
    digest.update([0]);
    digest.update(object.to_string());
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conversions_are_found_by_object_and_version_until_newer_ones_evict_them() {
        let conversions = Conversions::default();
        conversions.keep(&json!({ "a": 1 }), "v2", json!("converted"));
        assert_eq!(conversions.find(&json!({ "a": 1 }), "v2"), Some(json!("converted")));
        assert_eq!(conversions.find(&json!({ "a": 1 }), "v3"), None);
        assert_eq!(conversions.find(&json!({ "a": 2 }), "v2"), None);
        for round in 0..2 {
            assert!(conversions.find(&json!({ "a": 1 }), "v2").is_some(), "round {round}");
            (0..GENERATION_SIZE).for_each(|it| conversions.keep(&json!(it), "v2", json!(round)));
            conversions.make_room();
        }
        assert_eq!(conversions.find(&json!({ "a": 1 }), "v2"), None);
        assert!(format!("{conversions:?}").len() < 60);
    }
}
