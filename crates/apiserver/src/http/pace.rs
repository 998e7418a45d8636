//! The pace of long work: after each part of it, other tasks get their turn.

/// The number of bytes of objects that are encoded in one go: about a millisecond of work.
const STEP: usize = 64 * 1024;

/// The work since other tasks had their turn.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    bytes: usize,
}

impl Pace {
    /// Counts the work on an object of this length, and lets other tasks run if it has added up.
    pub(crate) async fn after(&mut self, length: usize) {
        self.bytes = self.bytes.saturating_add(length);
        if self.bytes >= STEP {
            self.bytes = 0;
            tokio::task::yield_now().await;
        }
    }
}
