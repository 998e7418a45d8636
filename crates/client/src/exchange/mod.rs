//! One exchange with a server: what counts as an answer, when to ask again, how often to ask at all.
//!
//! Pure decisions and small parts; the loop that performs them is in [`crate::client`].

pub(crate) mod retry;
pub(crate) mod limiter;
pub(crate) mod warning;
pub(crate) mod refusal;
pub(crate) mod meter;

pub use retry::{DEFAULT_MAX_RETRIES, ServerBackoff};
pub use warning::{DistinctWarnings, IgnoreWarnings, LogWarnings, Warning, WarningHandler};
