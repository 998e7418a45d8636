//! The health of components: the number of their panics, and the ones that are down.
//!
//! Written by their supervisor; read by the program that runs them, which may show it at
//! the readiness endpoint of an API server in the same process.

use std::collections::BTreeMap;
use std::fmt;

use tokio::sync::watch;

/// The health of all components of a simulator, or of all controllers of a controller manager.
///
/// ```
/// use dogwatch_simulator::Health;
///
/// fn check(health: &Health) -> Result<(), String> {
///     let down = health.components().into_iter().find_map(|(name, it)| Some((name, it.down?)));
///     down.map_or(Ok(()), |(name, reason)| Err(format!("{name} is down: {reason}")))
/// }
/// # assert_eq!(check(&Health::default()), Ok(()));
/// ```
#[derive(Default)]
pub struct Health {
    components: watch::Sender<BTreeMap<&'static str, ComponentHealth>>,
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&*self.components.borrow()).finish()
    }
}

/// The health of one component.
///
/// ```
/// use dogwatch_simulator::{ComponentHealth, Health};
///
/// /// Returns true for a component that needs a look at the logs.
/// fn is_suspicious(it: &ComponentHealth) -> bool {
///     it.down.is_some() || it.panics > 0
/// }
///
/// let health = Health::default();
/// assert!(!health.components().values().any(is_suspicious));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComponentHealth {
    /// The number of panics. Most panics concern one object and do not end the component.
    pub panics: u64,
    /// The reason that the component does not work, or `None` while it does: it has not started
    /// yet, or it has failed and is restarted after a back-off.
    pub down: Option<String>,
}

impl Health {
    /// Returns every component, by name.
    pub fn components(&self) -> BTreeMap<&'static str, ComponentHealth> {
        self.components.borrow().clone()
    }

    /// Returns the health of a component, if there is one with this name.
    pub fn component(&self, name: &str) -> Option<ComponentHealth> {
        self.components.borrow().get(name).cloned()
    }

    /// Waits until all components work at the same time.
    pub(crate) async fn ready(&self) {
        let all_work = |all: &BTreeMap<_, ComponentHealth>| all.values().all(|it| it.down.is_none());
        self.components.subscribe().wait_for(all_work).await.expect("`self` holds the sender");
    }

    /// Records that a component works.
    pub(crate) fn up(&self, name: &'static str) {
        self.change(name, |it| it.down = None);
    }

    /// Records that a component does not work.
    pub(crate) fn down(&self, name: &'static str, reason: String) {
        self.change(name, |it| it.down = Some(reason));
    }

    /// Records a panic of a component.
    pub(crate) fn panicked(&self, name: &'static str) {
        self.change(name, |it| it.panics = it.panics.saturating_add(1));
    }

    fn change(&self, name: &'static str, change: impl FnOnce(&mut ComponentHealth)) {
        self.components.send_modify(|all| change(all.entry(name).or_default()));
    }
}
