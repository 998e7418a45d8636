//! Parts of one exchange with a server: retries, rate limit, warnings, error responses and metrics.
//!
//! Pure decisions and small parts; [`crate::client`] has the loop that uses them.

pub(crate) mod retry;
pub(crate) mod limiter;
pub(crate) mod warning;
pub(crate) mod error_response;
pub(crate) mod metrics;

pub use retry::{DEFAULT_MAX_RETRIES, ServerBackoff};
pub use warning::{DistinctWarnings, IgnoreWarnings, LogWarnings, Warning, WarningHandler};
