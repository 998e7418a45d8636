//! The local copy: one owner writes, everybody reads, and nobody waits for anybody.
//!
//! ```text
//! StoreWriter ──edits a clone of──► State ──published in one step──► Store ─► Snapshot
//!   staging: what a relist changes    objects and indexes: trees        any number of readers
//! ```
//!
//! A [`State`](state::State) never changes once it is published. Its trees share all nodes with the state before it, except
//! those on the way to what changed; so a snapshot is one reference count, and a reader holds nothing that the writer needs.
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

pub use handle::{Store, WaitError};
pub use snapshot::{Page, Snapshot};
pub use writer::StoreWriter;
