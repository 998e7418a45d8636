//! Watches: one open response, or one that resumes where it ended; and waiting on either.

mod stream;
mod resume;
mod retry;
mod until;

pub use retry::RetryWatcher;
pub(crate) use stream::WatchSource;
pub use stream::WatchStream;
pub use until::{ConditionResult, EventCondition, UntilError, in_order, until};
