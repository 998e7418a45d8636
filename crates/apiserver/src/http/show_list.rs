//! The representation of lists: complete, as a table, or as metadata only.
//!
//! A list is encoded item by item, so that the values of only one item are in memory. The bytes of
//! a list in protobuf are assembled in `show_protobuf.rs`.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::content::{Content, unencodable};
use super::negotiated::Negotiated;
use super::pace::Pace;
use super::pieces::Pieces;
use super::show::{columns, is_a_list, row};
use super::show_protobuf::{ProtobufList, has_stored_metadata};
use crate::ApiError;
use crate::custom::columns::CellRoom;
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

/// A list in JSON, while it is encoded.
#[derive(Debug)]
pub(super) struct JsonList {
    kind: Arc<Kind>,
    negotiated: Negotiated,
    now: Timestamp,
    /// The room that the cells of earlier rows have left.
    room: CellRoom,
    /// The bytes before the items, until they are written.
    head: Option<Bytes>,
    tail: Bytes,
    /// The list, if it has no items.
    empty: Bytes,
}

/// Encodes a list. It may be long, so that other requests get their turn in between.
///
/// # Errors
///
/// Returns 406 if one object was requested.
pub(super) async fn list(
    items: &[Arc<Encoded>],
    metadata: &ListMetadata,
    kind: &Arc<Kind>,
    negotiated: &Negotiated,
    now: Timestamp,
) -> Result<Content, ApiError> {
    if negotiated.encoding == Encoding::Protobuf {
        return protobuf_list(items, metadata, kind, negotiated.form).await;
    }
    let mut list = JsonList::new(metadata, kind, negotiated, now)?;
    let (mut pieces, mut pace) = (Pieces::default(), Pace::default());
    for item in items {
        if !list.has_bytes_of(item) {
            pace.after(item.length()).await;
        }
        list.add(item, &mut pieces)?;
    }
    list.end(&mut pieces);
    Ok(Content::Json(pieces))
}

/// Returns the metadata of a list in protobuf, in an empty list. The second value is true for whole
/// objects. Protobuf has no tables.
///
/// # Errors
///
/// Returns 406 if one object was requested.
pub(super) fn empty_protobuf_list(
    metadata: &ListMetadata,
    kind: &Kind,
    form: ObjectForm,
) -> Result<(Value, bool), ApiError> {
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
    Ok((list, is_whole))
}

/// Encodes a list in protobuf.
async fn protobuf_list(
    items: &[Arc<Encoded>],
    metadata: &ListMetadata,
    kind: &Kind,
    form: ObjectForm,
) -> Result<Content, ApiError> {
    let (list, is_whole) = empty_protobuf_list(metadata, kind, form)?;
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

impl JsonList {
    /// Starts a list.
    ///
    /// # Errors
    ///
    /// Returns 406 if one object was requested.
    pub(super) fn new(
        metadata: &ListMetadata,
        kind: &Arc<Kind>,
        negotiated: &Negotiated,
        now: Timestamp,
    ) -> Result<Self, ApiError> {
        let (head, tail, empty) = match negotiated.form {
            ObjectForm::Metadata => return Err(is_a_list(kind)),
            ObjectForm::Table => {
                let columns = columns(kind, &json!({ "kind": kind.def.kind }));
                parts(print::table(Some(columns), metadata.to_value(false), Vec::new()), "rows")
            }
            ObjectForm::MetadataList => {
                parts(print::partial_metadata_list(metadata.to_value(false), []), "items")
            }
            _ => whole_parts(metadata, kind),
        };
        let (kind, room) = (Arc::clone(kind), CellRoom::default());
        Ok(Self { kind, negotiated: *negotiated, now, room, head: Some(head), tail, empty })
    }

    /// Returns true if the bytes of an item exist already.
    pub(super) fn has_bytes_of(&self, item: &Encoded) -> bool {
        let is_whole = !matches!(self.negotiated.form, ObjectForm::Table | ObjectForm::MetadataList);
        is_whole && self.kind.shows_bytes_of(item) && item.is_in_json()
    }

    /// Writes an item.
    ///
    /// # Errors
    ///
    /// Returns an error if only a webhook can convert it.
    pub(super) fn add(&mut self, item: &Encoded, out: &mut Pieces) -> Result<(), Unconverted> {
        let comma = match self.head.take() {
            Some(head) => {
                out.push(head);
                ""
            }
            None => ",",
        };
        let kind = &self.kind;
        let value = match self.negotiated.form {
            ObjectForm::Table => {
                self.room.add(item.length());
                row(kind, &kind.try_show(item)?, &self.negotiated, self.now, &mut self.room)
            }
            ObjectForm::MetadataList => print::partial_metadata(&kind.try_show(item)?),
            _ if kind.shows_bytes_of(item) => {
                write_stored(item, comma, kind.def.custom, out);
                return Ok(());
            }
            _ => {
                let mut value = kind.try_show(item)?;
                if let Some(fields) = value.as_object_mut().filter(|_| !kind.def.custom) {
                    fields.remove("kind");
                    fields.remove("apiVersion");
                }
                value
            }
        };
        out.push(Bytes::from(format!("{comma}{value}")));
        Ok(())
    }

    /// Writes the end of the list.
    pub(super) fn end(&mut self, out: &mut Pieces) {
        out.push(if self.head.take().is_some() { self.empty.clone() } else { self.tail.clone() });
    }
}

/// Writes the stored bytes of an item. Those of built-in kinds leave out the kind and version that
/// the list has.
fn write_stored(item: &Encoded, comma: &'static str, custom: bool, out: &mut Pieces) {
    if custom {
        out.push(Bytes::from_static(comma.as_bytes()));
        out.push(item.bytes());
    } else {
        out.push(Bytes::from_static(if comma.is_empty() { b"{" } else { b",{" }));
        out.push(item.bare_bytes());
    }
}

/// Returns the bytes of a list before and after its items, which are the last of its fields, and
/// those of an empty list.
fn parts(empty: Value, field: &str) -> (Bytes, Bytes, Bytes) {
    let whole = Bytes::from(empty.to_string());
    let mut fields = empty;
    if let Some(fields) = fields.as_object_mut() {
        fields.remove(field);
    }
    let mut head = fields.to_string();
    head.truncate(head.len().saturating_sub(1));
    (Bytes::from(format!("{head},\"{field}\":[")), Bytes::from_static(b"]}"), whole)
}

/// Returns the same of a list of whole objects.
fn whole_parts(metadata: &ListMetadata, kind: &Kind) -> (Bytes, Bytes, Bytes) {
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
    let empty = Bytes::from(format!("{head}{tail}"));
    (Bytes::from(head), Bytes::from(tail), empty)
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

    /// Leaves out the number of objects on later pages: those on this one are not counted yet.
    pub(super) fn forget_remaining(&mut self) {
        self.remaining = None;
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
