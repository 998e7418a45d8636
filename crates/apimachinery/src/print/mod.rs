//! Tables and partial metadata: the shortened forms of objects.
//!
//! The columns of built-in kinds are data, the cells are code, in the file of each kind; kinds
//! without cells of their own show name and age. Custom kinds bring their own columns. The
//! functions do not read the clock: `now` is passed in. The cells mirror k8s.io/kubernetes v1.36.4
//! pkg/printers/internalversion/printers.go.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::ApiError;
use crate::builtin;
use crate::kinds::index;

pub use crate::kinds::age;
pub use crate::kinds::autoscaling::scale_cells;
pub use crate::kinds::cells::name_and_age;

/// The part of an object that its row contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

fn column(name: &str, kind: &str, format: &str) -> Value {
    json!({"name": name, "type": kind, "format": format, "priority": 0, "description": ""})
}

/// Returns the column definitions of a built-in kind. Unknown kinds have name and age.
pub fn columns(group: &str, version: &str, plural: &str) -> Value {
    let Some(columns) = builtin::columns(group, version, plural) else { return default_columns() };
    let sent = columns.iter().map(|it| {
        json!({"name": it.name, "type": it.kind, "format": it.format, "priority": it.priority, "description": &*it.description})
    });
    sent.collect()
}

/// Returns the column definitions of objects without columns of their own: name and age.
pub fn default_columns() -> Value {
    json!([column("Name", "string", "name"), column("Age", "string", "")])
}

/// Returns the column definitions of the Scale of an object.
pub fn scale_columns() -> Value {
    json!([
        column("Name", "string", ""),
        column("Desired", "integer", ""),
        column("Available", "integer", ""),
        column("Age", "string", "")
    ])
}

/// Returns the cells of an object of a built-in kind, in the order of its [`columns`].
pub fn cells(group: &str, plural: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    (index::of_resource(group, plural).cells)(object, now)
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
    if let Some(conditions) = (index::of_object(object).row_conditions)(object) {
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
    if let Some(internal) = index::of_object(object).internal_annotation {
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        let left = annotations.map(|it| {
            it.remove(internal);
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

    fn row_of(group: &str, plural: &str, mut object: Value) -> Value {
        object["metadata"] = json!({ "name": "a", "creationTimestamp": "2026-01-01T00:00:00Z" });
        cells(group, plural, &object, "2026-01-01T00:00:05Z".parse().expect("a time")).into()
    }

    #[test]
    fn a_certificate_signing_request_has_a_cell_for_each_column() {
        let (group, plural) = ("certificates.k8s.io", "certificatesigningrequests");
        let columns = columns(group, "v1", plural);
        let pending = row_of(group, plural, json!({ "spec": { "signerName": "s", "username": "u" } }));
        assert_eq!(columns.as_array().unwrap().len(), pending.as_array().unwrap().len());
        assert_eq!(pending, json!(["a", "5s", "s", "u", "<none>", "Pending"]));
        let state = |conditions: &[&str], certificate: &str| {
            let conditions: Vec<_> = conditions.iter().map(|it| json!({ "type": it })).collect();
            let request = json!({ "spec": { "username": "u", "expirationSeconds": 3600 },
                "status": { "conditions": conditions, "certificate": certificate } });
            row_of(group, plural, request)
        };
        assert_eq!(state(&["Approved"], "abc"), json!(["a", "5s", "<none>", "u", "60m", "Approved,Issued"]));
        assert_eq!(state(&["Approved", "Denied", "Failed"], "")[5], "Denied,Failed");
    }

    /// Recorded from kube-apiserver.
    #[test]
    fn rows_are_those_of_kube_apiserver() {
        let flow = "flowcontrol.apiserver.k8s.io";
        let schema = json!({ "spec": { "matchingPrecedence": 123, "priorityLevelConfiguration": { "name": "exempt" },
            "distinguisherMethod": { "type": "ByUser" } },
            "status": { "conditions": [{ "type": "Dangling", "status": "False" }] } });
        assert_eq!(row_of(flow, "flowschemas", schema), json!(["a", "exempt", 123, "ByUser", "5s", "False"]));
        let bare = json!({ "spec": { "priorityLevelConfiguration": { "name": "x" } } });
        assert_eq!(row_of(flow, "flowschemas", bare), json!(["a", "x", 0, "<none>", "5s", "?"]));
        let queuing = json!({ "queues": 10, "handSize": 3, "queueLengthLimit": 5 });
        let limited = json!({ "nominalConcurrencyShares": 5, "limitResponse": { "queuing": queuing } });
        let level = json!({ "spec": { "type": "Limited", "limited": limited } });
        assert_eq!(
            row_of(flow, "prioritylevelconfigurations", level),
            json!(["a", "Limited", 5, 10, 3, 5, "5s"])
        );
        assert_eq!(
            row_of(flow, "prioritylevelconfigurations", json!({ "spec": { "type": "Exempt" } })),
            json!(["a", "Exempt", "<none>", "<none>", "<none>", "<none>", "5s"])
        );
        let of_service = json!({ "group": "", "resource": "services", "namespace": "default", "name": "s" });
        assert_eq!(
            row_of("networking.k8s.io", "ipaddresses", json!({ "spec": { "parentRef": of_service } })),
            json!(["a", "services/default/s", "5s"])
        );
        let missing = json!({ "spec": { "service": { "name": "s", "namespace": "n" } }, "status": { "conditions":
            [{ "type": "Available", "status": "False", "reason": "ServiceNotFound" }] } });
        assert_eq!(
            row_of("apiregistration.k8s.io", "apiservices", missing),
            json!(["a", "n/s", "False (ServiceNotFound)", "5s"])
        );
        assert_eq!(
            row_of("apiregistration.k8s.io", "apiservices", json!({})),
            json!(["a", "Local", "Unknown", "5s"])
        );
    }
}
