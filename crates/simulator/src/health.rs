//! The health of the simulated components: the number of their panics, and the ones that are down.
//!
//! Written by their supervisor; read by the program that runs the simulator, which may show it at
//! the readiness endpoint of an API server in the same process.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The health of all components of a simulator.
///
/// ```
/// use dogwatch_simulator::SimulatorHealth;
///
/// fn check(health: &SimulatorHealth) -> Result<(), String> {
///     let down = health.components().into_iter().find_map(|(name, it)| Some((name, it.down?)));
///     down.map_or(Ok(()), |(name, reason)| Err(format!("{name} is down: {reason}")))
/// }
/// # assert_eq!(check(&SimulatorHealth::default()), Ok(()));
/// ```
#[derive(Debug, Default)]
pub struct SimulatorHealth {
    components: Mutex<BTreeMap<&'static str, ComponentHealth>>,
}

/// The health of one component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComponentHealth {
    /// The number of panics. Most panics concern one object and do not end the component.
    pub panics: u64,
    /// The reason that the component is down, or `None` while it runs. It is restarted after a
    /// back-off.
    pub down: Option<String>,
}

impl SimulatorHealth {
    /// Returns every component that was started, by name.
    pub fn components(&self) -> BTreeMap<&'static str, ComponentHealth> {
        self.components.lock().clone()
    }

    /// Returns the health of a component, if it was started.
    pub fn component(&self, name: &str) -> Option<ComponentHealth> {
        self.components.lock().get(name).cloned()
    }

    /// Records that a component is running.
    pub(crate) fn up(&self, name: &'static str) {
        self.components.lock().entry(name).or_default().down = None;
    }

    /// Records that a component has ended.
    pub(crate) fn down(&self, name: &'static str, reason: String) {
        self.components.lock().entry(name).or_default().down = Some(reason);
    }

    /// Records a panic of a component.
    pub(crate) fn panicked(&self, name: &'static str) {
        let mut components = self.components.lock();
        let health = components.entry(name).or_default();
        health.panics = health.panics.saturating_add(1);
    }
}
