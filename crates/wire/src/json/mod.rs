//! JSON: found by its brackets, read by serde.
//!
//! ```text
//! chunk ─► gather ──scan──► a whole value and its marks ──cursor, reader──► T
//! ```
//!
//! [`ListSplitter`] and [`WatchSplitter`] know what stands between the values; everything above them
//! knows only single values. Another encoding brings its own two splitters and
//! shares all the types outside this folder.

mod block;
mod scan;
mod gather;
mod text;
mod number;
mod cursor;
mod reader;
mod object;
mod list;
mod watch;

pub(crate) use list::ListSplitter;
pub(crate) use object::from_slice;
pub(crate) use watch::WatchSplitter;
