//! Bytes in, Kubernetes objects out.
//!
//! Nothing here reads a socket or waits: the caller feeds bytes in chunks of any size, and objects
//! come out one by one as soon as their last byte has arrived. A list of a gigabyte needs only the
//! memory of its largest item.
//!
//! ```text
//! body chunk ─► ListDecoder<T>  ─► Ok(T) or UndecodableItem, …, finish() ─► ListMeta
//!            └► WatchDecoder<T> ─► Ok(WatchEvent<T>) or UndecodableItem, …
//! ```
//!
//! `T` is any type that serde can read: a k8s-openapi type, a `DynamicObject`, or a struct with a
//! few fields. Fields that `T` does not name are skipped at almost no cost;
//! `metadata.managedFields` are skipped even if `T` names them, unless [`Fields`] says to keep
//! them.
//!
//! ```
//! use dogwatch_wire::ListDecoder;
//!
//! #[derive(serde::Deserialize)]
//! struct PodNode { metadata: dogwatch_core::Meta, spec: Spec }
//!
//! #[derive(serde::Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct Spec { node_name: Option<String> }
//!
//! let body = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[
//!     {"metadata":{"name":"a","namespace":"default"},"spec":{"nodeName":"node-1","containers":[]}},
//!     {"metadata":{"name":"b","namespace":"default"},"spec":{"nodeName":5}}]}"#;
//!
//! let mut list = ListDecoder::<PodNode>::json();
//! let mut lines = Vec::new();
//! for chunk in body.chunks(10) {
//!     list.feed(chunk, |item| lines.push(match item {
//!         Ok(pod) => format!("{} runs on {:?}", pod.metadata.name, pod.spec.node_name),
//!         Err(bad) => bad.to_string(),
//!     }))?;
//! }
//! assert_eq!(list.finish()?.version.as_str(), "7");
//! assert_eq!(lines[0], r#"a runs on Some("node-1")"#);
//! assert!(lines[1].starts_with("default/b cannot be decoded at spec.nodeName: invalid type: integer `5`"));
//! # Ok::<(), dogwatch_wire::ListError>(())
//! ```
//!
//! The crate has a JSON reader of its own because serde_json examines each byte of skipped values,
//! and needs the end of an item before it can read it. Here one pass over 64 bytes at a time finds
//! the end of the item and records the positions of its quotes and brackets, which the reader uses
//! to skip. `cargo xtask bench wire` measures the difference.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod fields;
mod event;
mod bad_item;
mod error;
mod list_meta;
mod read_error;
mod token;
mod json;
mod protobuf;
mod key;
mod packed_bytes;
mod reader;
mod body;
mod list;
mod watch;
mod object;
#[cfg(feature = "zstd")]
mod compression;
mod packed;
#[cfg(feature = "zstd")]
mod compressor;
#[cfg(feature = "zstd")]
mod compressed_bytes;

pub use bad_item::UndecodableItem;
#[cfg(feature = "zstd")]
pub use compressed_bytes::{BytesCompressor, CompressedBytes};
#[cfg(feature = "zstd")]
pub use compressor::Compressor;
pub use error::{ListError, WatchError};
pub use event::{Bookmark, EventKind, WatchEvent};
pub use fields::Fields;
pub use list::ListDecoder;
pub use list_meta::ListMeta;
pub use object::{
    decode_with, from_protobuf, from_slice, has_protobuf, to_protobuf, to_vec, value_to_protobuf,
    with_resource_version,
};
pub use packed::{Packed, PackedBytes};
pub use protobuf::{EncodeError, Envelope, entry_head, list_entry, metadata_message, watch_head};
pub use watch::WatchDecoder;

/// The code in the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
