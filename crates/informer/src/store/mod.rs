//! The local cache: one owner writes, any number of readers read, and neither waits for the other.
//!
//! ```text
//! StoreWriter ──edits a clone of──► StoreState ──published in one step──► Store ─► Snapshot
//!   staging: what a relist changes    objects and indexes: trees             any number of readers
//! ```
//!
//! A [`StoreState`](state::StoreState) never changes once it is published. It shares all tree nodes
//! with the previous state, except those on the path to a change. So a snapshot costs one reference
//! count, and a reader holds nothing that the writer needs.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod keys;
mod tree;
mod walk;
mod postings;
mod state;
mod lookup;
mod select;
mod relist;
mod snapshot;
mod handle;
mod writer;

pub use handle::{Store, StoreProgress, WaitError};
pub use snapshot::{Page, Snapshot};
pub(crate) use state::Measure;
pub use writer::StoreWriter;
