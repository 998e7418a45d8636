//! The time at which a picture is drawn.

use jiff::Timestamp;
use tokio::time::Instant;

/// The time, on the clock of the program and on that of the calendar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) instant: Instant,
    pub(crate) time: Timestamp,
}
