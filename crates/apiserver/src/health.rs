//! The health of the background loops: the controllers that run, the number of their panics, and
//! the ones that are down; and the checks of components outside of the server.
//!
//! Written by their supervisor; read by `/readyz` and `/metrics`.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fmt;

/// The health of all controllers of a cluster.
#[derive(Default)]
pub struct BackgroundHealth {
    loops: Mutex<BTreeMap<&'static str, LoopHealth>>,
    checks: Mutex<BTreeMap<String, ReadyCheck>>,
}

/// Returns true if a component outside of the server is ready.
pub(crate) type ReadyCheck = Box<dyn Fn() -> bool + Send + Sync>;

/// The health of one controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopHealth {
    /// The number of panics. Most panics concern one object and do not end the loop.
    pub panics: u64,
    /// The reason that the loop is down, or `None` while it runs. It is restarted after a back-off.
    pub down: Option<String>,
}

impl BackgroundHealth {
    /// Returns every controller that was started, by name.
    pub fn loops(&self) -> BTreeMap<&'static str, LoopHealth> {
        self.guard().clone()
    }

    /// Records that a loop is running.
    pub(crate) fn up(&self, name: &'static str) {
        self.guard().entry(name).or_default().down = None;
    }

    /// Records that a loop was ended by a panic.
    pub(crate) fn down(&self, name: &'static str, why: &str) {
        self.panicked(name);
        self.guard().entry(name).or_default().down = Some(why.to_owned());
    }

    /// Records a panic that the loop survived.
    pub(crate) fn panicked(&self, name: &'static str) {
        let mut loops = self.guard();
        let health = loops.entry(name).or_default();
        health.panics = health.panics.saturating_add(1);
    }

    /// Adds the check of a component, or replaces it.
    pub(crate) fn add_check(&self, name: String, is_ready: ReadyCheck) {
        self.checks.lock().insert(name, is_ready);
    }

    /// Returns the outcome of each added check, by name.
    pub(crate) fn checks(&self) -> BTreeMap<String, bool> {
        self.checks.lock().iter().map(|(name, is_ready)| (name.clone(), is_ready())).collect()
    }

    fn guard(&self) -> MutexGuard<'_, BTreeMap<&'static str, LoopHealth>> {
        self.loops.lock()
    }
}

impl fmt::Debug for BackgroundHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundHealth").field("loops", &self.loops).finish_non_exhaustive()
    }
}
