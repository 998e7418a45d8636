//! Lists and watch events. Pure functions from a history to objects or frames.

mod selection;
mod list;
mod watch;

pub use list::{Page, list};
pub use selection::Selection;
pub use watch::{Frame, bookmark, event_for};
