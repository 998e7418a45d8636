//! Metadata in two forms: borrowed from any object ([`Header`]) and compact ([`Meta`]).

use std::collections::BTreeMap;

use compact_str::CompactString;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::key::ObjectKey;
use crate::null::null_as_default;
use crate::prefixed::take_pair;
use crate::shared_labels::{SharedLabels, shared};
use crate::version::ResourceVersion;

/// The metadata that a view keeps: enough for a cache, a queue and a selector.
///
/// Decodes from the `metadata` of any object; annotations, owners, finalizers and managed fields
/// are skipped before they are allocated. A view that needs one of those declares a metadata struct
/// of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// The name inside the namespace or the cluster.
    #[serde(deserialize_with = "null_as_default")]
    pub name: CompactString,
    /// The namespace; empty for cluster-scoped objects.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "CompactString::is_empty")]
    pub namespace: CompactString,
    /// The uid, which distinguishes an object from an earlier one of the same name.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "CompactString::is_empty")]
    pub uid: CompactString,
    /// The version of the object.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "ResourceVersion::is_unset")]
    pub resource_version: ResourceVersion,
    /// The labels, ordered by key.
    #[serde(skip_serializing_if = "LabelMap::is_empty")]
    labels: LabelMap,
}

/// The metadata of an object that a cache reads, borrowed from any layout.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The name; empty on an object that was never stored.
    pub name: &'a str,
    /// The namespace, or `None` for cluster-scoped objects.
    pub namespace: Option<&'a str>,
    /// The uid; empty on an object that was never stored.
    pub uid: &'a str,
    /// The version as text; empty on an object that was never stored.
    pub version: &'a str,
    /// The labels.
    pub labels: Labels<'a>,
}

/// The labels of an object, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a>(Layout<'a>);

#[derive(Clone, Copy, Debug)]
enum Layout<'a> {
    Empty,
    Tree(&'a BTreeMap<String, String>),
    Slim(&'a [(CompactString, CompactString)]),
    /// Keys and values after their lengths, ordered by key.
    Bytes(&'a [u8]),
}

/// Sorted by key, without duplicate keys. Objects with the same labels share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LabelMap(SharedLabels);

impl Meta {
    /// Replaces the labels. If a key is given twice, the last value is used.
    #[must_use]
    pub fn with_labels<K: Into<CompactString>, V: Into<CompactString>>(
        mut self,
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let sorted: BTreeMap<_, _> =
            labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        self.labels = LabelMap(shared(sorted.into_iter().collect()));
        self
    }

    /// Returns the labels, ordered by key.
    pub fn labels(&self) -> Labels<'_> {
        Labels(Layout::Slim(&self.labels.0))
    }

    /// Returns the metadata that a cache reads.
    pub fn header(&self) -> Header<'_> {
        Header {
            name: &self.name,
            namespace: (!self.namespace.is_empty()).then_some(self.namespace.as_str()),
            uid: &self.uid,
            version: self.resource_version.as_str(),
            labels: self.labels(),
        }
    }
}

impl Header<'_> {
    /// Returns the key of the object, or `None` if it has no usable name yet.
    pub fn key(&self) -> Option<ObjectKey> {
        ObjectKey::from_parts(self.namespace, self.name).ok()
    }
}

impl<'a> Labels<'a> {
    /// No labels.
    pub const EMPTY: Self = Self(Layout::Empty);

    /// Returns the value of a label.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        match self.0 {
            Layout::Empty => None,
            Layout::Tree(tree) => tree.get(key).map(String::as_str),
            Layout::Slim(slim) => {
                let at = slim.binary_search_by(|(it, _)| it.as_str().cmp(key)).ok()?;
                Some(slim[at].1.as_str())
            }
            Layout::Bytes(_) => self.iter().find(|(it, _)| *it == key).map(|(_, value)| value),
        }
    }

    /// Returns all labels, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let (tree, slim, mut bytes) = match self.0 {
            Layout::Empty => (None, None, &[][..]),
            Layout::Tree(tree) => (Some(tree), None, &[][..]),
            Layout::Slim(slim) => (None, Some(slim), &[][..]),
            Layout::Bytes(bytes) => (None, None, bytes),
        };
        let tree = tree.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
        let slim = slim.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
        tree.chain(slim).chain(std::iter::from_fn(move || take_pair(&mut bytes)))
    }

    /// Returns labels that are written as keys and values after their lengths, ordered by key.
    pub(crate) fn from_bytes(bytes: &'a [u8]) -> Self {
        Self(Layout::Bytes(bytes))
    }
}

impl<'a> From<&'a BTreeMap<String, String>> for Labels<'a> {
    fn from(tree: &'a BTreeMap<String, String>) -> Self {
        Self(Layout::Tree(tree))
    }
}

impl LabelMap {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for LabelMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de> Deserialize<'de> for LabelMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LabelsVisitor;

        impl<'de> Visitor<'de> for LabelsVisitor {
            type Value = LabelMap;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a map of labels")
            }

            fn visit_unit<E>(self) -> Result<LabelMap, E> {
                Ok(LabelMap::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LabelMap, A::Error> {
                let mut labels = Vec::with_capacity(map.size_hint().unwrap_or(8).min(64));
                while let Some(entry) = map.next_entry::<CompactString, CompactString>()? {
                    labels.push(entry);
                }
                // The server sends labels sorted, and a stable sort of sorted input takes one
                // comparison per label. If a key occurs twice the last value is used, as in any
                // JSON object.
                labels.reverse();
                labels.sort_by(|(left, _), (right, _)| left.cmp(right));
                labels.dedup_by(|(later, _), (earlier, _)| later == earlier);
                Ok(LabelMap(shared(labels)))
            }
        }

        deserializer.deserialize_any(LabelsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_keeps_the_fields_of_a_cache_and_skips_the_rest() {
        let meta: Meta = serde_json::from_str(
            r#"{"name":"a","namespace":"b","uid":"u","resourceVersion":"7","labels":{"z":"1","a":"2"},
                "annotations":{"x":"y"},"managedFields":[{"manager":"m"}]}"#,
        )
        .expect("valid metadata");
        let header = meta.header();
        assert_eq!(header.key().map(String::from).as_deref(), Some("b/a"));
        assert_eq!((header.uid, header.version), ("u", "7"));
        assert_eq!(header.labels.get("z"), Some("1"));
        assert_eq!(header.labels.get("y"), None);
        assert_eq!(header.labels.iter().collect::<Vec<_>>(), [("a", "2"), ("z", "1")]);
    }

    #[test]
    fn null_and_absent_labels_are_no_labels() {
        for text in [r#"{"name":"a"}"#, r#"{"name":"a","labels":null}"#, r#"{"name":"a","labels":{}}"#] {
            let meta: Meta = serde_json::from_str(text).expect("valid metadata");
            assert_eq!(meta.labels().iter().count(), 0, "{text}");
        }
    }

    #[test]
    fn a_null_field_is_an_empty_one() {
        let text = r#"{"name":"a","namespace":null,"uid":null,"resourceVersion":null}"#;
        let meta: Meta = serde_json::from_str(text).expect("valid metadata");
        assert_eq!(meta.header().key().map(String::from).as_deref(), Some("a"));
        assert!(meta.uid.is_empty() && meta.resource_version.is_unset());
    }

    #[test]
    fn the_last_value_of_a_duplicate_label_is_used() {
        let meta: Meta =
            serde_json::from_str(r#"{"labels":{"a":"1","b":"2","a":"3"}}"#).expect("valid metadata");
        assert_eq!(meta.labels().iter().collect::<Vec<_>>(), [("a", "3"), ("b", "2")]);
    }

    #[test]
    fn both_layouts_of_labels_are_equivalent() {
        let tree = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
        let meta = Meta::default().with_labels([("b", "2"), ("a", "1")]);
        assert!(Labels::from(&tree).iter().eq(meta.labels().iter()));
        assert_eq!(Labels::EMPTY.iter().count(), 0);
    }
}
