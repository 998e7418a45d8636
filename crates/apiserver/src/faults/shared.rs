//! The rules and orders behind their lock, and the notifier that wakes watches when they change.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::board::Board;
use crate::bell::ChangeNotifier;

/// The state that all clones of a fault injector and all its watches share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The number of rules that act on requests.
    request_rules: AtomicUsize,
    /// Never held across an await.
    board: Mutex<Board>,
    /// Notified at each change of `board`.
    pub(super) changes: Arc<ChangeNotifier>,
}

impl Shared {
    /// Returns true if any rule acts on requests: one atomic load.
    pub(super) fn acts_on_requests(&self) -> bool {
        self.request_rules.load(Ordering::Acquire) > 0
    }

    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the rules or orders, and notifies all watches.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Board) -> T) -> T {
        let mut board = self.board();
        let changed = change(&mut board);
        self.request_rules.store(board.request_rules(), Ordering::Release);
        drop(board);
        self.changes.notify();
        changed
    }
}
