//! The encoding of watch events: the representation of objects, and bookmarks in it.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::status_json;
use super::content::unencodable;
use super::negotiated::Negotiated;
use super::pieces::Pieces;
use super::show;
use super::show_protobuf::has_stored_metadata;
use crate::ApiError;
use crate::cluster::Source;
use crate::custom::columns::CellRoom;
use crate::kinds::shape;
use crate::print;
use crate::protobuf::{self, EncodeError, Envelope};
use crate::reading::Frame;
use crate::registry::Kind;
use crate::request::{Encoding, ObjectForm};

/// The encoder of one watch's events.
#[derive(Debug)]
pub(super) struct WatchEncoder {
    kind: Arc<Kind>,
    negotiated: Negotiated,
    /// Set after the first event of a table, the only one that has the columns.
    columns_sent: bool,
    /// The room that earlier rows have left.
    room: CellRoom,
}

impl WatchEncoder {
    /// Creates an encoder for a kind in the negotiated representation.
    pub(super) fn new(kind: Arc<Kind>, negotiated: Negotiated) -> Self {
        Self { kind, negotiated, columns_sent: false, room: CellRoom::default() }
    }

    /// Encodes an event. Where the representation allows, the bytes are shared with the store and
    /// all other watches.
    ///
    /// # Errors
    /// Returns an error, and encodes nothing, if the object has no such representation. It has to
    /// be the last event: a client that gets further ones would not know that it missed one.
    pub(super) fn event(&mut self, frame: &Frame, source: &Source, out: &mut Pieces) -> Result<(), ApiError> {
        if self.has_stored_metadata() && self.kind.shows_bytes_of(&frame.object) {
            let stored = frame.object.protobuf().map_err(|it| unencodable(&it))?;
            metadata_event(frame.event_type.as_str(), stored.metadata().unwrap_or_default(), out);
        } else if self.negotiated.form != ObjectForm::Whole || !self.kind.shows_bytes_of(&frame.object) {
            let object = self.kind.try_show(&frame.object)?;
            self.room.renew(frame.object.length());
            out.push(self.shaped(frame.event_type.as_str(), object, source.now())?);
        } else if self.negotiated.encoding == Encoding::Protobuf {
            frame.write_protobuf(out).map_err(|it| unencodable(&it))?;
        } else {
            frame.write(out);
        }
        Ok(())
    }

    /// Returns true if the metadata that is to be sent is in the encoding of each object.
    fn has_stored_metadata(&self) -> bool {
        let is_metadata = matches!(self.negotiated.form, ObjectForm::Metadata | ObjectForm::MetadataList);
        is_metadata && self.negotiated.encoding == Encoding::Protobuf && has_stored_metadata(&self.kind)
    }

    /// Encodes a bookmark: every change up to this version was sent. `ends_initial` marks the end
    /// of the initial events.
    pub(super) fn bookmark(&mut self, version: u64, ends_initial: bool, now: Timestamp) -> Bytes {
        let def = &self.kind.def;
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if ends_initial {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let mut object = json!({ "kind": def.kind, "apiVersion": def.api_version(), "metadata": metadata });
        if let Some(fields) = object.as_object_mut().filter(|_| !def.custom) {
            // In kube-apiserver a bookmark is an empty object of the kind (`newFunc` in
            // k8s.io/apiserver v0.36.4 pkg/storage/cacher/cacher.go), so the fields without
            // `omitempty` appear.
            shape::apply(&def.group, &def.version, &def.kind, fields);
        }
        self.shaped("BOOKMARK", object, now).unwrap_or_else(|refusal| self.last_error(&refusal))
    }

    /// Encodes an error as the last event.
    pub(super) fn last_error(&self, refusal: &ApiError) -> Bytes {
        Self::error(refusal, self.negotiated.encoding)
    }

    /// Encodes an error as the last event of a watch in an encoding.
    pub(super) fn error(refusal: &ApiError, encoding: Encoding) -> Bytes {
        let status = status_json(refusal, None);
        let in_protobuf = || {
            let status: Value = serde_json::from_slice(&status).unwrap_or_default();
            framed("ERROR", &status).unwrap_or_default()
        };
        match encoding {
            Encoding::Protobuf => in_protobuf(),
            _ => Bytes::from([br#"{"type":"ERROR","object":"#, &status[..], b"}\n"].concat()),
        }
    }

    fn shaped(&mut self, event: &str, object: Value, now: Timestamp) -> Result<Bytes, ApiError> {
        let shown = match self.negotiated.form {
            ObjectForm::Table => {
                let columns = (!self.columns_sent).then(|| show::columns(&self.kind, &object));
                self.columns_sent = true;
                let row = show::row(&self.kind, &object, &self.negotiated, now, &mut self.room);
                print::table(columns, show::list_metadata_of(&object), vec![row])
            }
            ObjectForm::Metadata | ObjectForm::MetadataList => print::partial_metadata(&object),
            _ => object,
        };
        match self.negotiated.encoding {
            Encoding::Protobuf => framed(event, &shown).map_err(|it| unencodable(&it)),
            _ => Ok(Bytes::from(format!("{{\"type\":\"{event}\",\"object\":{shown}}}\n"))),
        }
    }
}

/// Assembles an event with the metadata of an object as a frame in protobuf.
fn metadata_event(event: &str, metadata: Bytes, out: &mut Pieces) {
    let object = Envelope::head("meta.k8s.io/v1", "PartialObjectMetadata", metadata.len());
    let length = object.len() + metadata.len() + Envelope::TAIL.len();
    out.push(Bytes::from([protobuf::watch_head(event, length), object].concat()));
    out.push(metadata);
    out.push(Bytes::from_static(Envelope::TAIL));
}

/// Encodes an event as a frame in protobuf.
fn framed(event: &str, object: &Value) -> Result<Bytes, EncodeError> {
    let object = protobuf::encode(object)?;
    Ok(Bytes::from([protobuf::watch_head(event, object.len()), object].concat()))
}
