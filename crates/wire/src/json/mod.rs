//! The JSON decoder: values are found by their brackets, and read through serde.
//!
//! ```text
//! chunk ─► buffer ──scan──► a whole value and its marks ──cursor, reader──► T
//! ```
//!
//! [`ListSplitter`] and [`WatchSplitter`] know the structure between the values; the modules above
//! them know only single values. Another encoding would have two splitters of its own and share all
//! types outside this folder.

mod block;
mod scan;
mod value_buffer;
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
