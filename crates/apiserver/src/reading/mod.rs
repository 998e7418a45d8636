//! Reading: what a list shows and what a watch tells. Pure: a history in, objects or frames out.

mod selection;
mod list;
mod watch;

pub use list::{Page, list};
pub use selection::Selection;
pub use watch::{Frame, bookmark, tell};
