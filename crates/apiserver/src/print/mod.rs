//! Tables and partial metadata: the shortened forms of objects.
//!
//! The columns of built-in kinds are data, the cells are code, with one printer per kind; kinds
//! without a printer show name and age. Custom kinds bring their own columns. The functions do not
//! read the clock: `now` is passed in. The printers mirror k8s.io/kubernetes v1.36.4
//! pkg/printers/internalversion/printers.go.
//!
//! The `mod` lines below are in layer order.

pub mod age;
mod cell;
mod core_group;
mod pod;
mod workloads;
mod control_plane;
mod named_groups;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::ApiError;
use crate::builtin;

/// The part of an object that its row contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The metadata of the object.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Parses the query parameter `includeObject`. Empty means metadata.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
                 must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// Returns the column definitions of a built-in kind. Unknown kinds have name and age.
pub fn columns(group: &str, version: &str, plural: &str) -> Value {
    let column = |name: &str, kind: &str, format: &str| json!({"name": name, "type": kind, "format": format, "priority": 0, "description": ""});
    if (group, plural) == ("autoscaling", "scale") {
        return json!([
            column("Name", "string", ""),
            column("Desired", "integer", ""),
            column("Available", "integer", ""),
            column("Age", "string", "")
        ]);
    }
    let Some(columns) = builtin::columns(group, version, plural) else {
        return json!([column("Name", "string", "name"), column("Age", "string", "")]);
    };
    let sent = columns.iter().map(|it| {
        json!({"name": it.name, "type": it.kind, "format": it.format, "priority": it.priority, "description": &*it.description})
    });
    sent.collect()
}

/// Returns the cells of an object of a built-in kind, in the order of its [`columns`].
pub fn cells(group: &str, plural: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let found = match (group, plural) {
        ("", "pods") => Some(pod::pod(object, now)),
        ("", _) | ("events.k8s.io", "events") => core_group::cells(plural, object, now),
        ("apps" | "batch", _) => workloads::cells(plural, object, now),
        _ => named_groups::cells(group, plural, object, now),
    };
    found.unwrap_or_else(|| vec![cell::name(object), age::since_creation(object, now)])
}

/// Returns one row of a table: the cells, the requested part of the object and, for a pod that has
/// ended, a condition.
pub fn row(cells: Vec<Value>, object: &Value, include: IncludeObject) -> Value {
    let shown = match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => partial_metadata(object),
        IncludeObject::Object => object.clone(),
    };
    let mut row = json!({"cells": cells, "object": shown});
    if let Some(conditions) = pod::row_conditions(object) {
        row["conditions"] = conditions;
    }
    row
}

/// Returns a table. `columns` is `None` if they were sent before, as in all but the first event of
/// a watch; `list_metadata` is that of the list, or of the single object.
pub fn table(columns: Option<Value>, list_metadata: Value, rows: Vec<Value>) -> Value {
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

/// Returns only the metadata of an object.
pub fn partial_metadata(object: &Value) -> Value {
    let mut metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    // This annotation is a field of kube-apiserver's internal DaemonSet (k8s.io/kubernetes v1.36.4
    // pkg/apis/apps/v1/conversion.go), so its partial metadata does not contain it.
    if object["kind"] == "DaemonSet" && object["apiVersion"] == "apps/v1" {
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        let left = annotations.map(|it| {
            it.remove("deprecated.daemonset.template.generation");
            it.len()
        });
        if let (Some(0), Some(metadata)) = (left, metadata.as_object_mut()) {
            metadata.remove("annotations");
        }
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

/// Returns only the metadata of the objects of a list.
pub fn partial_metadata_list<'a>(list_metadata: Value, items: impl IntoIterator<Item = &'a Value>) -> Value {
    let items: Vec<Value> = items.into_iter().map(partial_metadata).collect();
    let items = if items.is_empty() { Value::Null } else { items.into() };
    json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "items": items,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_contains_the_requested_part_of_the_object() {
        let object = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {}});
        let shown = |include| row(vec![], &object, include)["object"].clone();
        assert_eq!(shown(IncludeObject::None), Value::Null);
        assert_eq!(shown(IncludeObject::Object), object);
        assert_eq!(shown(IncludeObject::Metadata)["kind"], "PartialObjectMetadata");
        assert_eq!(shown(IncludeObject::Metadata)["metadata"]["name"], "a");
    }

    #[test]
    fn an_unknown_include_object_gets_the_message_of_kube_apiserver() {
        let refusal = IncludeObject::parse("Foo").expect_err("`Foo` is rejected");
        assert_eq!(
            refusal.0.message,
            "Unable to convert to Table as requested: includeObject: Invalid value: \"Foo\": \
             must be 'Metadata', 'Object', 'None', or empty"
        );
    }

    #[test]
    fn a_bookmark_has_one_row_of_empty_cells() {
        let bookmark = json!({"metadata": {"resourceVersion": "5"}});
        let cells = cells("", "configmaps", &bookmark, Timestamp::UNIX_EPOCH);
        assert_eq!(cells, [json!(""), json!(0), json!("<unknown>")]);
    }
}
