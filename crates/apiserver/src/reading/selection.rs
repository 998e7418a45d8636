//! The objects of a collection that a request selects.

use dogwatch_core::{FieldSelector, LabelSelector, ObjectKey};

use crate::request::ShardSelector;
use crate::store::Encoded;

/// The objects of a collection that a request selects: all conditions must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Selects one namespace.
    pub namespace: Option<String>,
    /// Selects the object of this name.
    pub name: Option<String>,
    /// Selects by labels.
    pub labels: LabelSelector,
    /// Selects by fields.
    pub fields: FieldSelector,
    /// Selects shards of the collection.
    pub shards: Option<ShardSelector>,
}

impl Selection {
    /// Returns true if an object is in the selected namespace, regardless of the other conditions.
    pub(crate) fn is_in_namespace(&self, object: &Encoded) -> bool {
        self.namespace.as_deref().is_none_or(|it| object.key().namespace() == Some(it))
    }

    /// Returns true if an object is selected.
    pub(crate) fn holds(&self, object: &Encoded) -> bool {
        let key = object.key();
        self.is_in_namespace(object)
            && self.name.as_deref().is_none_or(|it| key.name() == it)
            && self.labels.matches(object.labels())
            && self.fields.matches(|field| object.field(field))
            && self.shards.as_ref().is_none_or(|it| it.has(object.uid(), key.namespace()))
    }

    /// Returns true if the selection depends on fields other than namespace and name.
    pub(crate) fn selects_fields(&self) -> bool {
        self.fields.terms().any(|(field, ..)| !is_key_field(field))
    }

    /// Returns the selection without the conditions on labels, and on fields other than namespace
    /// and name.
    #[must_use]
    pub(crate) fn without_content(&self) -> Self {
        let mut fields = FieldSelector::everything();
        for (field, value, equal) in self.fields.terms().filter(|(field, ..)| is_key_field(field)) {
            fields = if equal { fields.equals(field, value) } else { fields.not_equals(field, value) };
        }
        Self { labels: LabelSelector::default(), fields, ..self.clone() }
    }

    /// Returns the key of the only object that can be selected, if namespace and name are given.
    pub(super) fn only_key(&self) -> Option<ObjectKey> {
        let name = self.name.as_deref().or_else(|| self.fields.required("metadata.name"))?;
        ObjectKey::from_parts(Some(self.namespace.as_deref()?), name).ok()
    }

    /// Returns true if no other object than this one can be selected: its name and its scope are
    /// given.
    pub(crate) fn is_exactly(&self, object: &Encoded) -> bool {
        let named = self.name.is_some() || self.fields.required("metadata.name").is_some();
        named && object.key().namespace() == self.namespace.as_deref()
    }

    /// Returns true if a selector narrows the selection, so that the number of remaining objects is
    /// unknown. Shards do not count: kube-apiserver includes the objects of all shards in the
    /// remaining count (`PrepareContinueToken` in k8s.io/apiserver v0.36.4
    /// pkg/storage/continue.go).
    pub(crate) fn is_selective(&self) -> bool {
        self.name.is_some() || !self.labels.is_everything() || !self.fields.is_everything()
    }
}

/// Returns true for the fields that are the same in all versions of an object.
fn is_key_field(field: &str) -> bool {
    matches!(field, "metadata.name" | "metadata.namespace")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::Draft;

    #[test]
    fn all_conditions_must_hold() {
        let object =
            json!({ "metadata": { "name": "a", "namespace": "b", "uid": "u", "labels": { "k": "v" } } });
        let fields = vec![("status.phase".into(), "Running".to_owned())];
        let object = Draft::new(&object, fields).expect("it has a name").at(1);
        let selection = |namespace: &str, name: Option<&str>, labels: &str, fields: &str| Selection {
            namespace: Some(namespace.to_owned()),
            name: name.map(str::to_owned),
            labels: labels.parse().expect("valid"),
            fields: fields.parse().expect("valid"),
            shards: None,
        };
        let part = |text: &str| Selection {
            shards: Some(ShardSelector::parse(text).expect("valid")),
            ..Selection::default()
        };
        for (selection, expected) in [
            (Selection::default(), true),
            (selection("b", Some("a"), "k=v", "status.phase=Running,metadata.name=a"), true),
            (selection("c", None, "", ""), false),
            (selection("b", Some("x"), "", ""), false),
            (selection("b", None, "k!=v", ""), false),
            (selection("b", None, "", "status.phase!=Running"), false),
            // The hash of `u` is af63e84c860200f0, and that of `b` af63df4c8601f1a5.
            (part("shardRange(object.metadata.uid, '0xaf63e84c860200f0', '0xaf63e84c860200f1')"), true),
            (part("shardRange(object.metadata.uid, '0xaf63e84c860200f1', '0x10000000000000000')"), false),
            (
                part("shardRange(object.metadata.namespace, '0xaf63df4c8601f1a5', '0x10000000000000000')"),
                true,
            ),
            (
                part("shardRange(object.metadata.namespace, '0x0000000000000000', '0xaf63df4c8601f1a5')"),
                false,
            ),
        ] {
            assert_eq!(selection.holds(&object), expected, "{selection:?}");
        }
    }
}
