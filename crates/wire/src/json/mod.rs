//! The syntax of JSON: values are found by their brackets, and read token by token.
//!
//! ```text
//! chunk ─► ValueBuffer ──Scanner──► a whole value and its marks ─► Cursor ─► tokens
//! ```
//!
//! These modules know only single values; `body` knows lists and watches.

mod block;
mod scan;
mod value_buffer;
mod text;
mod number;
mod compact;
mod cursor;

pub(crate) use compact::compact;
pub(crate) use cursor::{Cursor, trim};
pub(crate) use number::number;
pub(crate) use scan::{Mark, ScanResult, Scanner};
pub(crate) use value_buffer::{Progress, ScannedValue, ValueBuffer};
