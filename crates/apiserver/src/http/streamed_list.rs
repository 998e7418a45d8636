//! A long list that is encoded while it is sent: item by item, as its client reads.
//!
//! It holds the listed objects, which it shares with the store, and the bytes of a few items. So
//! the memory of a server does not depend on the number of its clients that list.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;

use super::backend::Backend;
use super::content::{Content, unencodable};
use super::document::{Incomplete, Produce};
use super::guard::Panics;
use super::negotiated::Negotiated;
use super::pace::Pace;
use super::pieces::Pieces;
use super::show_list::{JsonList, ListMetadata, empty_protobuf_list};
use super::show_protobuf::{ProtobufList, has_stored_metadata, stored_metadata};
use crate::ApiError;
use crate::panics::caught_in;
use crate::reading::Selection;
use crate::registry::Kind;
use crate::request::{Encoding, ObjectForm};
use crate::store::Encoded;

/// The number of bytes of stored objects from which a list is encoded while it is sent, if they do
/// not have the bytes of the list already.
const STREAMED: usize = 1024 * 1024;

/// A list, and its position.
#[derive(Debug)]
struct StreamedList {
    items: std::vec::IntoIter<Arc<Encoded>>,
    encoder: Encoder,
    shown: Option<Shown>,
    is_ended: bool,
    panics: Panics,
    kind: Arc<Kind>,
}

/// The encoding of the items.
#[derive(Debug)]
enum Encoder {
    Json(Box<JsonList>),
    /// The bytes before the first item, those after the last, and the number of bytes of items that
    /// are still to come: the head has said it.
    Protobuf {
        head: Bytes,
        tail: Bytes,
        left: usize,
        is_metadata: bool,
    },
}

/// The form in which the client sees the objects, and the selection from them.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) kind: Arc<Kind>,
    pub(super) selection: Selection,
}

/// Returns a list of stored objects that is encoded while it is sent; `None` if it has to be
/// encoded at once: because it is short or shares its bytes with the store, because YAML and
/// indented JSON are made of it, or because its length is not known before its end. `shown` is set
/// if the client sees other objects than the stored ones.
///
/// # Errors
///
/// Returns 406 if one object was requested.
pub(super) async fn streamed_list(
    items: &[Arc<Encoded>],
    metadata: &ListMetadata,
    kind: &Arc<Kind>,
    negotiated: &Negotiated,
    now: Timestamp,
    shown: Option<Shown>,
    panics: Panics,
) -> Result<Option<Content>, ApiError> {
    let encoder = match negotiated.encoding {
        Encoding::Json if !negotiated.pretty => {
            let list = JsonList::new(metadata, kind, negotiated, now)?;
            let is_made = |it: &&Arc<Encoded>| shown.is_some() || !list.has_bytes_of(it);
            if !is_long(items.iter().filter(is_made)) {
                return Ok(None);
            }
            Encoder::Json(Box::new(list))
        }
        Encoding::Protobuf if shown.is_none() => {
            if !is_long(items.iter().filter(|it| it.is_closed())) {
                return Ok(None);
            }
            match protobuf_encoder(items, metadata, kind, negotiated.form).await? {
                Some(encoder) => encoder,
                None => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    let (items, kind) = (items.to_vec(), Arc::clone(kind));
    let list = StreamedList { items: items.into_iter(), encoder, shown, is_ended: false, panics, kind };
    Ok(Some(Content::Streamed(negotiated.encoding, Box::new(list))))
}

fn is_long<'a>(items: impl Iterator<Item = &'a Arc<Encoded>>) -> bool {
    items.map(|it| it.length()).fold(0, usize::saturating_add) >= STREAMED
}

/// Returns the encoder of a list in protobuf, which begins with its length; `None` if an object is
/// not stored in protobuf.
async fn protobuf_encoder(
    items: &[Arc<Encoded>],
    metadata: &ListMetadata,
    kind: &Kind,
    form: ObjectForm,
) -> Result<Option<Encoder>, ApiError> {
    let (list, is_whole) = empty_protobuf_list(metadata, kind, form)?;
    let (mut length, mut pace) = (0_usize, Pace::default());
    for item in items {
        let Some(of_item) = item.protobuf_entry().filter(|_| kind.shows_bytes_of(item)) else {
            return Ok(None);
        };
        let of_item = match is_whole {
            true => of_item,
            false if !has_stored_metadata(kind) => return Ok(None),
            false => {
                // It is decompressed twice, and so never held.
                pace.after(item.length()).await;
                stored_metadata(item).map_err(|it| unencodable(&it))?.len()
            }
        };
        length = length.saturating_add(of_item);
    }
    let list = ProtobufList::new(&list).map_err(|it| unencodable(&it))?;
    let (head, tail) = list.around(length);
    Ok(Some(Encoder::Protobuf { head, tail, left: length, is_metadata: !is_whole }))
}

impl StreamedList {
    /// Returns an item as the client sees it.
    fn show(&self, item: Arc<Encoded>) -> Option<Arc<Encoded>> {
        let Some(shown) = &self.shown else { return Some(item) };
        let seen = shown.backend.show_now(&shown.kind, item)?;
        shown.selection.holds(&seen).then_some(seen)
    }
}

impl Produce for StreamedList {
    fn next(&mut self, budget: &mut usize) -> Result<Option<Pieces>, Incomplete> {
        // A panic ends this response, and not its connection.
        let produced = caught_in(|| self.produce(budget));
        produced.unwrap_or_else(|panic| {
            self.panics.answer(&panic, "GET", &self.kind.def.plural);
            Err(Incomplete)
        })
    }
}

impl StreamedList {
    fn produce(&mut self, budget: &mut usize) -> Result<Option<Pieces>, Incomplete> {
        if self.is_ended {
            return Ok(None);
        }
        let mut pieces = Pieces::default();
        while *budget > 0 {
            let Some(item) = self.items.next() else {
                self.is_ended = true;
                self.encoder.end(&mut pieces)?;
                break;
            };
            // A hidden item takes work too.
            let (read, before) = (item.length(), pieces.len());
            if let Some(item) = self.show(item) {
                self.encoder.add(&item, &mut pieces)?;
            }
            *budget = budget.saturating_sub(read.max(pieces.len().saturating_sub(before)));
        }
        Ok(Some(pieces))
    }
}

impl Encoder {
    fn add(&mut self, item: &Encoded, out: &mut Pieces) -> Result<(), Incomplete> {
        match self {
            Self::Json(list) => list.add(item, out).map_err(|it| incomplete(&ApiError::from(it).to_string())),
            Self::Protobuf { head, left, is_metadata, .. } => {
                out.push(std::mem::take(head));
                let entry = match is_metadata {
                    true => stored_metadata(item),
                    false => item.protobuf().map(|it| Pieces::from_iter([it.entry()])),
                };
                let entry = entry.map_err(|it| incomplete(&it.to_string()))?;
                *left = left
                    .checked_sub(entry.len())
                    .ok_or_else(|| incomplete("it is longer than its head says"))?;
                out.extend(entry);
                Ok(())
            }
        }
    }

    fn end(&mut self, out: &mut Pieces) -> Result<(), Incomplete> {
        match self {
            Self::Json(list) => {
                list.end(out);
                out.push(Bytes::from_static(b"\n"));
            }
            Self::Protobuf { left: 1.., .. } => return Err(incomplete("it is shorter than its head says")),
            Self::Protobuf { head, tail, .. } => {
                out.push(std::mem::take(head));
                out.push(std::mem::take(tail));
            }
        }
        Ok(())
    }
}

fn incomplete(reason: &str) -> Incomplete {
    tracing::error!(reason, "a list is cut: it cannot be completed");
    Incomplete
}
