//! The progress of a manager, for its readiness checks.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Written by the units of a manager, read by its readiness checks.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The names that are not synced yet.
    waiting: Mutex<BTreeSet<String>>,
    stopping: AtomicBool,
}

impl Progress {
    fn waiting(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.waiting.lock()
    }

    /// Adds a name to wait for.
    pub(super) fn wait_for(&self, name: &str) {
        self.waiting().insert(name.to_owned());
    }

    /// Removes a name, which is synced now.
    pub(super) fn synced(&self, name: &str) {
        self.waiting().remove(name);
    }

    /// Marks the manager as stopping.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Returns an error if something is not synced yet.
    pub(super) fn check_synced(&self) -> Result<(), String> {
        let waiting = self.waiting();
        match waiting.is_empty() {
            true => Ok(()),
            false => Err(format!("not synced: {}", waiting.iter().cloned().collect::<Vec<_>>().join(", "))),
        }
    }

    /// Returns an error if the manager is stopping.
    pub(super) fn check_running(&self) -> Result<(), String> {
        match self.stopping.load(Ordering::Relaxed) {
            true => Err("the process is shutting down".to_owned()),
            false => Ok(()),
        }
    }
}
