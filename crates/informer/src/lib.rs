//! A local copy of a collection that is never wrong for long.
//!
//! ```text
//! ListWatch ─► Reflector ─► DeltaQueue ─► StoreWriter ─► FanOut ─► your handlers
//!  (server)     deltas       bounded       Store ▲        a mailbox each
//!                                          Lister │ reads, from anywhere
//! ```
//!
//! Everything flows to the right, and nothing looks back: the queue does not know the store, the store does not know the
//! handlers. Objects are behind `Arc`s from the store on, and are never copied.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod change;
mod delta;
mod list_watch;
mod index;
mod store;
mod lister;

pub use change::{Change, Deleted};
pub use delta::Delta;
pub use index::{Index, IndexError, NAMESPACE_INDEX};
pub use list_watch::{ListEvent, ListWatch, Lists, Watches};
pub use lister::{Lister, NamespaceLister, NotFound};
pub use store::{Page, Snapshot, Store, StoreWriter, WaitError};
