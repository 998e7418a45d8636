//! The compressed form of a received object.
//!
//! An object that is not read is held once, compressed. One that has just changed is also kept
//! open, because watches send it now; the writer of the store decides for how long. Without the
//! feature `zstd`, nothing is compressed.

use parking_lot::RwLock;
use std::sync::Arc;

use bytes::Bytes;

use super::encodings::{Encodings, Shape};
use super::event_type::EventType;
#[cfg(not(feature = "zstd"))]
use super::no_compression::CompressedBytes;
#[cfg(feature = "zstd")]
use dogwatch_wire::CompressedBytes;

#[cfg(not(feature = "zstd"))]
pub(crate) use super::no_compression::BytesCompressor;
#[cfg(feature = "zstd")]
pub(crate) use dogwatch_wire::BytesCompressor;

/// A received object that is compressed.
#[derive(Debug)]
pub(super) struct Compressed {
    bytes: CompressedBytes,
    /// The positions in the bytes before the compression.
    shape: Shape,
    /// The number of bytes before the compression.
    length: usize,
    /// The object as it arrived, while it is kept open. Locked only briefly.
    kept: RwLock<Option<Arc<Encodings>>>,
}

impl Compressed {
    /// Compresses the bytes of a received object. Returns `None` if they do not become smaller.
    pub(super) fn new(encodings: &Encodings, compressor: &BytesCompressor) -> Option<Self> {
        let (bytes, shape) = encodings.received();
        let length = bytes.len();
        Some(Self { bytes: compressor.compress(&bytes)?, shape, length, kept: RwLock::new(None) })
    }

    /// Returns the object as it arrived.
    pub(super) fn open(&self) -> Arc<Encodings> {
        let kept = self.kept.read().clone();
        kept.unwrap_or_else(|| {
            Arc::new(Encodings::of_received(Bytes::from(self.bytes.decompress()), &self.shape))
        })
    }

    /// Keeps the object open.
    pub(super) fn keep(&self, encodings: Arc<Encodings>) {
        *self.kept.write() = Some(encodings);
    }

    /// Closes the object. Readers that have it open are not affected.
    pub(super) fn close(&self) {
        *self.kept.write() = None;
    }

    /// Returns true if the object is kept open.
    pub(super) fn is_open(&self) -> bool {
        self.kept.read().is_some()
    }

    /// Returns the number of bytes before the compression.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Returns the number of bytes of the entry of a list, if it is stored in protobuf.
    pub(super) fn protobuf_entry(&self) -> Option<usize> {
        match &self.shape {
            Shape::Json(..) => None,
            Shape::Protobuf(.., entry) => Some(entry.len()),
        }
    }

    /// Returns the size of the closed object in bytes.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }

    /// Returns the event type that the object was encoded with.
    pub(super) fn event_type(&self) -> EventType {
        match &self.shape {
            Shape::Json(event_type, _) | Shape::Protobuf(event_type, ..) => *event_type,
        }
    }
}
