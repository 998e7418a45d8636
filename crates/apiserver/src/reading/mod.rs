//! Lists and watch events. Pure functions from a history to objects or frames.

mod selection;
mod list;
mod watch;

pub(crate) use list::{Page, initializing, list};
pub(crate) use selection::Selection;
pub(crate) use watch::{Frame, event_for};
