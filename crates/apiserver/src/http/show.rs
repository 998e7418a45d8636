//! The representation of objects and lists: complete, as a table, or as metadata only.
//!
//! Everything here is the same for all encodings; the bytes of a list in protobuf are assembled in
//! `show_protobuf.rs`.

use std::sync::Arc;

use bytes::Bytes;
use dogwatch_core::{Reason, Status};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::content::{Content, unencodable};
use super::negotiated::Negotiated;
use super::pace::Pace;
use super::pieces::Pieces;
use super::show_protobuf::{ProtobufList, has_stored_metadata};
use crate::ApiError;
use crate::cluster::ResponseObject;
use crate::custom::columns::{self as custom_columns, CellRoom};
use crate::kinds::shape::go_package;
use crate::print;
use crate::reading::{Page, Selection};
use crate::registry::{Kind, Unconverted};
use crate::request::{ContinueToken, Encoding, ObjectForm};
use crate::store::Encoded;

/// The metadata of a list.
#[derive(Clone, Debug)]
pub(super) struct ListMetadata {
    /// The version of the listed state.
    version: u64,
    /// The token of the next page.
    next: Option<String>,
    /// The number of objects on later pages.
    remaining: Option<usize>,
    /// The shard selector of a list of only some shards.
    shards: Option<String>,
}

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

/// Encodes a list. It may be long, so that other requests get their turn in between.
///
/// # Errors
///
/// Returns 406 if one object was requested.
pub(super) async fn list(
    items: &[Arc<Encoded>],
    metadata: &ListMetadata,
    kind: &Kind,
    negotiated: &Negotiated,
    now: Timestamp,
) -> Result<Content, ApiError> {
    if negotiated.encoding == Encoding::Protobuf {
        return protobuf_list(items, metadata, kind, negotiated.form).await;
    }
    let json = match negotiated.form {
        ObjectForm::Table => {
            let columns = columns(kind, &json!({ "kind": kind.def.kind }));
            let table = print::table(Some(columns), metadata.to_value(false), Vec::new());
            let mut room = CellRoom::default();
            let row = |it: &Encoded| {
                room.add(it.length());
                Ok(row(kind, &kind.try_show(it)?, negotiated, now, &mut room))
            };
            with_items(table, "rows", items, row).await?
        }
        ObjectForm::MetadataList => {
            let list = print::partial_metadata_list(metadata.to_value(false), []);
            let metadata = |it: &Encoded| Ok(print::partial_metadata(&kind.try_show(it)?));
            with_items(list, "items", items, metadata).await?
        }
        ObjectForm::Metadata => return Err(is_a_list(kind)),
        _ => whole_list(items, metadata, kind).await?,
    };
    Ok(Content::Json(json))
}

/// Encodes a list in protobuf, which has no tables.
async fn protobuf_list(
    items: &[Arc<Encoded>],
    metadata: &ListMetadata,
    kind: &Kind,
    form: ObjectForm,
) -> Result<Content, ApiError> {
    let is_whole = match form {
        ObjectForm::Metadata => return Err(is_a_list(kind)),
        ObjectForm::MetadataList => false,
        _ => true,
    };
    let list = if is_whole {
        let metadata = metadata.of_whole_list(kind.def.custom);
        json!({ "kind": kind.def.list_kind(), "apiVersion": kind.def.api_version(), "metadata": metadata })
    } else {
        print::partial_metadata_list(metadata.to_value(false), [])
    };
    let mut list = ProtobufList::new(&list).map_err(|it| unencodable(&it))?;
    let mut pace = Pace::default();
    for item in items {
        let is_stored = kind.shows_bytes_of(item);
        if !(is_stored && item.is_in_protobuf()) {
            pace.after(item.length()).await;
        }
        let added = if is_whole && is_stored {
            list.add_stored(item)
        } else if is_stored && has_stored_metadata(kind) {
            list.add_stored_metadata(item)
        } else {
            let value = kind.try_show(item)?;
            list.add(&if is_whole { value } else { print::partial_metadata(&value) })
        };
        added.map_err(|it| unencodable(&it))?;
    }
    Ok(Content::Protobuf(list.finish()))
}

/// Encodes an empty list together with items, which go into the last of its fields, one after the
/// other: a value takes many times the memory of its encoding.
async fn with_items(
    list: Value,
    field: &str,
    items: &[Arc<Encoded>],
    mut shown: impl FnMut(&Encoded) -> Result<Value, Unconverted>,
) -> Result<Pieces, Unconverted> {
    if items.is_empty() {
        return Ok(Pieces::from(list.to_string().into_bytes()));
    }
    let mut fields = list;
    if let Some(fields) = fields.as_object_mut() {
        fields.remove(field);
    }
    let mut head = fields.to_string();
    head.truncate(head.len().saturating_sub(1));
    let mut pieces = Pieces::from_iter([Bytes::from(format!("{head},\"{field}\":["))]);
    let mut pace = Pace::default();
    for (at, item) in items.iter().enumerate() {
        pieces.push(Bytes::from(format!("{}{}", if at > 0 { "," } else { "" }, shown(item)?)));
        pace.after(item.length()).await;
    }
    pieces.push(Bytes::from_static(b"]}"));
    Ok(pieces)
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

impl ListMetadata {
    /// Returns the metadata of a page.
    pub(super) fn of(page: &Page, selection: &Selection) -> Self {
        Self {
            version: page.version,
            next: page.next.as_ref().map(ContinueToken::encode),
            remaining: page.remaining,
            shards: selection.shards.as_ref().map(ToString::to_string),
        }
    }

    /// Returns the metadata as JSON; lists of custom kinds always have a `continue` field.
    fn to_value(&self, custom: bool) -> Value {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), self.version.to_string().into());
        if custom || self.next.is_some() {
            metadata.insert("continue".to_owned(), self.next.clone().unwrap_or_default().into());
        }
        if let Some(remaining) = self.remaining {
            metadata.insert("remainingItemCount".to_owned(), remaining.into());
        }
        metadata.into()
    }

    /// Returns the metadata of a list of complete objects.
    fn of_whole_list(&self, custom: bool) -> Value {
        let mut metadata = self.to_value(custom);
        // Only complete lists of built-in kinds have a field for it.
        if let (false, Some(selector)) = (custom, &self.shards) {
            metadata["shardInfo"] = json!({ "selector": selector });
        }
        metadata
    }
}

/// Concatenates the stored bytes of all items. Items of built-in kinds leave out the kind and
/// version that the list has.
async fn whole_list(
    items: &[Arc<Encoded>],
    metadata: &ListMetadata,
    kind: &Kind,
) -> Result<Pieces, Unconverted> {
    let custom = kind.def.custom;
    let (list_kind, api_version) = (json!(kind.def.list_kind()), json!(kind.def.api_version()));
    let metadata = metadata.of_whole_list(custom);
    let (head, tail) = if custom {
        (
            format!(r#"{{"apiVersion":{api_version},"items":["#),
            format!(r#"],"kind":{list_kind},"metadata":{metadata}}}"#),
        )
    } else {
        let head =
            format!(r#"{{"kind":{list_kind},"apiVersion":{api_version},"metadata":{metadata},"items":["#);
        (head, "]}".to_owned())
    };
    let mut pieces = Pieces::from_iter([Bytes::from(head)]);
    let mut pace = Pace::default();
    for (at, item) in items.iter().enumerate() {
        let comma = at > 0;
        if !(kind.shows_bytes_of(item) && item.is_in_json()) {
            pace.after(item.length()).await;
        }
        match (kind.shows_bytes_of(item), custom) {
            (true, true) => {
                if comma {
                    pieces.push(Bytes::from_static(b","));
                }
                pieces.push(item.bytes());
            }
            (true, false) => {
                pieces.push(Bytes::from_static(if comma { b",{" } else { b"{" }));
                pieces.push(item.bare_bytes());
            }
            (false, _) => {
                let mut value = kind.try_show(item)?;
                if let Some(fields) = value.as_object_mut().filter(|_| !custom) {
                    fields.remove("kind");
                    fields.remove("apiVersion");
                }
                pieces.push(Bytes::from(format!("{}{value}", if comma { "," } else { "" })));
            }
        }
    }
    pieces.push(Bytes::from(tail));
    Ok(pieces)
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

fn is_a_list(kind: &Kind) -> ApiError {
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
