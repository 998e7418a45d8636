//! The representation of objects: complete, as a table, or as metadata only.
//!
//! Everything here is the same for all encodings. Lists are in `show_list.rs`.

use dogwatch_core::{Reason, Status};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::content::{Content, unencodable};
use super::negotiated::Negotiated;
use super::pieces::Pieces;
use crate::ApiError;
use crate::cluster::ResponseObject;
use crate::custom::columns::{self as custom_columns, CellRoom};
use crate::kinds::shape::go_package;
use crate::print;
use crate::registry::Kind;
use crate::request::{Encoding, ObjectForm};

/// Encodes one object.
///
/// # Errors
///
/// Returns 406 if a list was requested.
pub(super) fn object(
    shown: &ResponseObject,
    kind: &Kind,
    negotiated: &Negotiated,
    now: Timestamp,
) -> Result<Content, ApiError> {
    if let (ObjectForm::Whole, ResponseObject::Stored(stored)) = (negotiated.form, shown)
        && kind.shows_bytes_of(stored)
    {
        return Ok(match negotiated.encoding {
            Encoding::Protobuf => {
                let encoded = stored.protobuf().map_err(|it| unencodable(&it))?;
                Content::Protobuf(Pieces::from_iter([encoded.object()]))
            }
            _ => Content::Json(Pieces::from_iter([stored.bytes()])),
        });
    }
    let value = match shown {
        ResponseObject::Stored(stored) => kind.try_show(stored)?,
        ResponseObject::Value(value) => value.clone(),
    };
    let shown = match negotiated.form {
        _ if value["kind"] == "Status" => value,
        ObjectForm::Table => {
            let row = row(kind, &value, negotiated, now, &mut CellRoom::default());
            print::table(Some(columns(kind, &value)), list_metadata_of(&value), vec![row])
        }
        ObjectForm::Metadata => print::partial_metadata(&value),
        ObjectForm::MetadataList => return Err(not_a_list(kind)),
        _ => value,
    };
    Content::of(&shown, negotiated.encoding).map_err(|it| unencodable(&it))
}

/// Returns true for the Scale of an object, and false for a custom object of that kind name.
fn is_scale(object: &Value) -> bool {
    object["kind"] == "Scale" && object["apiVersion"] == "autoscaling/v1"
}

/// Returns the table columns for an object; an object of another kind gets the default columns.
pub(super) fn columns(kind: &Kind, object: &Value) -> Value {
    match kind.custom_version() {
        _ if is_scale(object) => print::scale_columns(),
        _ if object["kind"] != *kind.def.kind => print::default_columns(),
        Some(version) => custom_columns::definitions(&version.columns).into(),
        None => print::columns(&kind.def.group, &kind.def.version, &kind.def.plural),
    }
}

/// Returns the table row of an object; the rows of a table share the room for the cells of custom
/// kinds.
pub(super) fn row(
    kind: &Kind,
    object: &Value,
    negotiated: &Negotiated,
    now: Timestamp,
    room: &mut CellRoom,
) -> Value {
    let cells = match kind.custom_version() {
        _ if is_scale(object) => print::scale_cells(object, now),
        _ if object["kind"] != *kind.def.kind => print::name_and_age(object, now),
        Some(version) => custom_columns::cells(object, &version.columns, now, room),
        None => (kind.rules.cells)(object, now),
    };
    print::row(cells, object, negotiated.include)
}

/// Returns the list metadata of a table with one object.
pub(super) fn list_metadata_of(object: &Value) -> Value {
    let version = object.pointer("/metadata/resourceVersion").cloned();
    version.map_or_else(|| json!({}), |it| json!({ "resourceVersion": it }))
}

/// Returns the name of the Go type of a built-in kind, which the messages in k8s.io/apiserver
/// v0.36.4 pkg/endpoints/handlers/response.go contain.
fn go_type(kind: &Kind) -> String {
    format!("*{}.{}", go_package(kind.stored_group()), kind.def.kind)
}

fn not_a_list(kind: &Kind) -> ApiError {
    if kind.def.custom {
        return ApiError::unexplained("content is not a list");
    }
    let object = go_type(kind);
    not_acceptable(format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list ({object})"
    ))
}

/// Returns 406: the request wants one object.
pub(super) fn is_a_list(kind: &Kind) -> ApiError {
    let list = if kind.def.custom {
        "*unstructured.UnstructuredList".to_owned()
    } else {
        format!("{}List", go_type(kind))
    };
    not_acceptable(format!(
        "you requested PartialObjectMetadata, but the requested object is a list ({list})"
    ))
}

fn not_acceptable(message: String) -> ApiError {
    ApiError(Box::new(Status::failure(Reason::NotAcceptable, message)))
}
