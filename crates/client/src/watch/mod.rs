//! Watches at two levels: one open body, and one that starts again where it ended.

mod stream;
mod resume;
mod retry;

pub use retry::RetryWatcher;
pub(crate) use stream::WatchSource;
pub use stream::WatchStream;
