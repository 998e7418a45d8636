//! The health of the background loops: the controllers and simulators that run, the number of their
//! panics, and the ones that are down.
//!
//! Written by their supervisor; read by `/readyz` and `/metrics`.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;

/// The health of all controllers and simulators of a cluster.
#[derive(Debug, Default)]
pub struct BackgroundHealth {
    loops: Mutex<BTreeMap<&'static str, LoopHealth>>,
}

/// The health of one controller or simulator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopHealth {
    /// The number of panics. Most panics concern one object and do not end the loop.
    pub panics: u64,
    /// The reason that the loop is down, or `None` while it runs. It is restarted after a back-off.
    pub down: Option<String>,
}

impl BackgroundHealth {
    /// Returns every controller and simulator that was started, by name.
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

    fn guard(&self) -> MutexGuard<'_, BTreeMap<&'static str, LoopHealth>> {
        self.loops.lock()
    }
}
