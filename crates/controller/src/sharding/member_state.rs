//! The state that a member's handles and its run share: the keys it owns, and those of them that
//! are being worked on.

use parking_lot::{Mutex, MutexGuard};

use tokio::sync::watch;

use super::holds::Holds;
use super::ownership::Ownership;
use crate::leader::clock::Clock;

/// The state of a member. Read by all handles, written by the run.
pub(super) struct MemberState {
    pub(super) me: String,
    pub(super) clock: Clock,
    ownership: Mutex<Ownership>,
    pub(super) holds: Holds,
    /// Counts the changes of the owned keys.
    pub(super) changes: watch::Sender<u64>,
}

impl MemberState {
    pub(super) fn new(me: String, clock: Clock) -> Self {
        Self {
            me,
            clock,
            ownership: Mutex::default(),
            holds: Holds::default(),
            changes: watch::Sender::new(0),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Ownership> {
        self.ownership.lock()
    }

    pub(super) fn owns(&self, key: &str) -> bool {
        self.lock().owns(&self.me, key, self.clock.now())
    }

    pub(super) fn changed(&self) {
        self.changes.send_modify(|it| *it += 1);
    }
}
