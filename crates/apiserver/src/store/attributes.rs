//! The attributes of an object that are known without decoding it.

use std::collections::BTreeMap;
use std::sync::Arc;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use crate::protobuf::has_protobuf;

/// The metadata fields that [`Attributes::is_tied`] reports.
const TIE_FIELDS: [&str; 3] = ["ownerReferences", "finalizers", "deletionTimestamp"];

/// A selectable field of an object: its name and its value.
pub(crate) type SelectableField = (FieldName, String);

/// The name of a selectable field.
#[derive(Clone, Debug)]
pub enum FieldName {
    /// A field of a built-in kind.
    Static(&'static str),
    /// A field of a custom kind, shared by all objects of the kind.
    Shared(Arc<str>),
}

/// The attributes of an object that are known without decoding it.
#[derive(Clone, Debug)]
pub(super) struct Attributes {
    pub(super) key: ObjectKey,
    pub(super) uid: String,
    pub(super) labels: BTreeMap<String, String>,
    /// Set if the metadata has owners, finalizers or a deletion timestamp.
    pub(super) is_tied: bool,
    /// The selectable fields other than name and namespace.
    pub(super) fields: Vec<SelectableField>,
    /// The schema that the object was prepared with.
    pub(super) schema: Option<u64>,
    /// Set if the kind has a protobuf encoding.
    pub(super) has_protobuf: bool,
}

impl FieldName {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Static(name) => name,
            Self::Shared(name) => name,
        }
    }
}

impl From<&'static str> for FieldName {
    fn from(name: &'static str) -> Self {
        Self::Static(name)
    }
}

impl Attributes {
    /// Returns the attributes of an object with these selectable fields, or `None` if it has no
    /// valid name.
    pub(super) fn of(object: &Value, fields: Vec<SelectableField>) -> Option<Self> {
        let metadata = object.get("metadata").and_then(Value::as_object)?;
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
        let key = ObjectKey::from_parts(Some(text("namespace")), text("name")).ok()?;
        let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
        let labels =
            labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect();
        let type_field = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        Some(Self {
            key,
            uid: text("uid").to_owned(),
            labels,
            is_tied: TIE_FIELDS.iter().any(|it| metadata.contains_key(*it)),
            fields,
            schema: None,
            has_protobuf: has_protobuf(type_field("apiVersion"), type_field("kind")),
        })
    }

    /// Returns the approximate number of bytes outside of the structure itself: labels and
    /// selectable fields are copied from the object. Shared names do not count.
    pub(super) fn heap_size(&self) -> usize {
        let label = |(key, value): (&String, &String)| 2 * size_of::<String>() + key.len() + value.len();
        let field = |(_, value): &SelectableField| size_of::<SelectableField>() + value.len();
        let labels: usize = self.labels.iter().map(label).sum();
        labels + self.fields.iter().map(field).sum::<usize>()
    }
}
