//! The syntax of protobuf as Kubernetes uses it: messages are read token by token, as if they were
//! JSON, and written from JSON.
//!
//! ```text
//! message ──Fields──► numbers and bytes ──Schema──► names and types ─► Cursor ─► tokens
//! ```
//!
//! Names, types and omissions of fields come from a table of all messages of the API
//! (`data/protobuf.txt`, made by `cargo xtask gen`), so that there is no code for single kinds.

mod fields;
mod schema;
mod times;
mod output;
mod canonical;
mod envelope;
mod assembly;
mod metadata;
mod check;
mod cursor;
mod encode;

pub use assembly::{entry_head, list_entry, metadata_message, watch_head};
pub(crate) use canonical::canonical;
pub(crate) use check::check;
pub(crate) use cursor::{Cursor, MessageValue};
pub use encode::EncodeError;
pub(crate) use encode::encode;
pub use envelope::Envelope;
pub(crate) use fields::{Fields, varint};
pub(crate) use metadata::{join, split, with_version};
pub(crate) use schema::Schema;
