//! How far a manager has come, for whoever asks whether it is ready.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Written by the parts of a manager, read by its readiness checks.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// What does not have its first state yet.
    waiting: Mutex<BTreeSet<String>>,
    stopping: AtomicBool,
}

impl Progress {
    fn waiting(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is somebody to wait for.
    pub(super) fn wait_for(&self, name: &str) {
        self.waiting().insert(name.to_owned());
    }

    /// It has its first state.
    pub(super) fn synced(&self, name: &str) {
        self.waiting().remove(name);
    }

    /// It ends.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether everything has its first state.
    pub(super) fn check_synced(&self) -> Result<(), String> {
        let waiting = self.waiting();
        match waiting.is_empty() {
            true => Ok(()),
            false => Err(format!("not synced: {}", waiting.iter().cloned().collect::<Vec<_>>().join(", "))),
        }
    }

    /// Whether it goes on.
    pub(super) fn check_running(&self) -> Result<(), String> {
        match self.stopping.load(Ordering::Relaxed) {
            true => Err("the process is shutting down".to_owned()),
            false => Ok(()),
        }
    }
}
