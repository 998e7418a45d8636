//! The rules and orders behind their lock, and the notifier that wakes watches when they change.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::state::FaultState;
use crate::change_notifier::ChangeNotifier;

/// The state that all clones of a fault injector and all its watches share.
#[derive(Debug, Default)]
pub(super) struct SharedState {
    /// The number of rules that act on requests.
    request_rules: AtomicUsize,
    /// Never held across an await.
    state: Mutex<FaultState>,
    /// Notified at each change of `state`.
    pub(super) changes: Arc<ChangeNotifier>,
}

impl SharedState {
    /// Returns true if any rule acts on requests: one atomic load.
    pub(super) fn acts_on_requests(&self) -> bool {
        self.request_rules.load(Ordering::Acquire) > 0
    }

    pub(super) fn state(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock()
    }

    /// Changes the rules or orders, and notifies all watches.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut FaultState) -> T) -> T {
        let mut state = self.state();
        let changed = change(&mut state);
        self.request_rules.store(state.request_rules(), Ordering::Release);
        drop(state);
        self.changes.notify();
        changed
    }
}
