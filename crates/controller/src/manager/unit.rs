//! The units of a manager: controllers and tasks, each in a runtime task of its own, by name.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use dogwatch_core::ErrorChain;
use futures_core::future::BoxFuture;
use tokio::task::{Id, JoinError};
use tokio_util::sync::CancellationToken;

use super::error::ManagerError;
use crate::action::BoxError;
use crate::controller::text_of;
use crate::owned_tasks::OwnedTasks;

/// A unit that runs until it is stopped, or ends by itself.
pub(super) struct Unit {
    pub(super) name: String,
    run: Run,
}

type Run = Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, Result<(), ManagerError>> + Send>;

/// The names of the units that have not ended yet; shared, so that a timed-out shutdown can report
/// them.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningUnits(Arc<Mutex<Vec<String>>>);

impl Unit {
    pub(super) fn new<F>(name: String, run: impl FnOnce(CancellationToken) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), ManagerError>> + Send + 'static,
    {
        Self { name, run: Box::new(move |stop| Box::pin(run(stop))) }
    }

    /// Creates a unit from a task of the program.
    pub(super) fn task<F, E>(name: String, run: impl FnOnce(CancellationToken) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let called = name.clone();
        Self::new(name, move |stop| {
            let running = run(stop);
            async move { running.await.map_err(|error| ManagerError::Task { name: called, source: error.into() }) }
        })
    }
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unit").field(&self.name).finish()
    }
}

impl RunningUnits {
    fn names(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock()
    }

    /// Returns the names of the units that have not ended yet.
    pub(super) fn still(&self) -> Vec<String> {
        self.names().clone()
    }
}

/// A registered name; dropping it removes the name.
struct RunningUnit {
    name: String,
    running_units: RunningUnits,
}

impl RunningUnit {
    fn new(name: String, running_units: &RunningUnits) -> Self {
        running_units.names().push(name.clone());
        Self { name, running_units: running_units.clone() }
    }
}

impl Drop for RunningUnit {
    fn drop(&mut self) {
        self.running_units.names().retain(|it| *it != self.name);
    }
}

/// Runs the units until all have ended. The first one that fails stops all others, and its error is
/// returned.
///
/// Dropping the future drops the futures of all units before the drop returns: a leader's work is
/// over when its lease is released.
pub(super) async fn run_all(
    units: Vec<Unit>,
    stop: CancellationToken,
    running_units: RunningUnits,
) -> Result<(), ManagerError> {
    let mut tasks = OwnedTasks::new();
    let mut registered: HashMap<Id, RunningUnit> = HashMap::new();
    for unit in units {
        let running = (unit.run)(stop.clone());
        registered.insert(tasks.spawn(running), RunningUnit::new(unit.name, &running_units));
    }
    let mut outcome = Ok(());
    while let Some((id, ended)) = tasks.join_next().await {
        let name = registered.remove(&id).map(|it| it.name.clone()).unwrap_or_default();
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => Err(ManagerError::Panicked { name: name.clone(), panic: panic_text(error) }),
        };
        match ended {
            Ok(()) if stop.is_cancelled() => tracing::debug!(name, "ended"),
            Ok(()) => tracing::info!(name, "ended without a stop"),
            Err(error) => {
                tracing::error!(name, error = %ErrorChain(&error), "failed; stopping the manager");
                stop.cancel();
                outcome = outcome.and(Err(error));
            }
        }
    }
    outcome
}

fn panic_text(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => text_of(&*panic),
        Err(cancelled) => cancelled.to_string(),
    }
}
