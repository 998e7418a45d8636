//! The board behind its lock, and the bell that wakes watches when it changes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::board::Board;
use crate::bell::Bell;

/// What all clones of a lab and all its watches share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// How many rules act on requests.
    request_rules: AtomicUsize,
    /// Never held across an await.
    board: Mutex<Board>,
    /// Rung at each change that a watch has to hear of.
    pub(super) bell: Arc<Bell>,
}

impl Shared {
    /// Whether any rule acts on requests: one atomic load.
    pub(super) fn acts_on_requests(&self) -> bool {
        self.request_rules.load(Ordering::Acquire) > 0
    }

    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the board, and tells all watches.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Board) -> T) -> T {
        let mut board = self.board();
        let changed = change(&mut board);
        self.request_rules.store(board.request_rules(), Ordering::Release);
        drop(board);
        self.bell.ring();
        changed
    }
}
