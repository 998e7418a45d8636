//! The run of a manager: the order in which its units start and stop.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::future::{Future, pending, ready};
use std::sync::Arc;
use std::time::Duration;

use dogwatch_informer::InformerFactory;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::ManagerError;
use super::manager::Manager;
use super::progress::Progress;
use super::unit::{RunningUnits, Unit, run_all};
use crate::checks::Checks;
use crate::controller::{Controller, ControllerError};
use crate::leader::{ElectionEnded, LeaderElector};
use crate::signals::Signals;

/// The tolerance, after the lease has expired, before a leader that still works is reported as
/// stuck: that of kube-controller-manager
/// (`k8s.io/kubernetes v1.36.4 cmd/kube-controller-manager/app/controllermanager.go`).
const STUCK_AFTER: Duration = Duration::from_secs(20);

/// The name of the unit that runs the election.
const ELECTION: &str = "leader election";

/// The name of the unit that waits for the informers, in the readiness check.
const INFORMERS: &str = "informers";

impl Manager {
    /// Runs until SIGTERM or SIGINT arrives, and then shuts down in order. A second signal aborts
    /// the shutdown.
    ///
    /// # Errors
    /// Returns an error if a controller or task fails, if leadership is lost, or if not everything
    /// has ended within the grace period. By then everything has ended or was aborted.
    pub async fn run(self) -> Result<(), ManagerError> {
        let mut signals = Signals::listen().map_err(ManagerError::Signals)?;
        let (stop, abort) = (CancellationToken::new(), CancellationToken::new());
        let (first, second) = (stop.clone(), abort.clone());
        let listen = async move {
            let signal = signals.next().await;
            tracing::info!(signal, "shutting down; send the signal again to exit immediately");
            first.cancel();
            signals.next().await;
            second.cancel();
            pending().await
        };
        tokio::select! {
            biased;
            outcome = self.run_with(stop.cancelled(), abort.cancelled()) => outcome,
            never = listen => never,
        }
    }

    /// Like [`run`](Self::run), but runs until the future resolves, and ignores signals.
    ///
    /// # Errors
    /// Returns an error if a controller or task fails, if leadership is lost, or if not everything
    /// has ended within the grace period. By then everything has ended or was aborted.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), ManagerError> {
        self.run_with(stop, pending()).await
    }

    async fn run_with(
        mut self,
        stop_requested: impl Future<Output = ()>,
        abort: impl Future<Output = ()>,
    ) -> Result<(), ManagerError> {
        self.check_names()?;
        let (stop, progress) = (CancellationToken::new(), Arc::new(Progress::default()));
        // Held until everything else has ended, so that probes are answered to the end.
        let _endpoints = self.answer(&progress);
        let informers = self.informers.clone();
        let events = self.events.take();
        let leads = self.elector.is_some();
        for controller in &self.controllers {
            progress.wait_for(&named(controller));
            if leads && controller.needs_leader_election() {
                // It begins to watch when its term begins, and then receives all objects. A standby
                // that watched would collect the key of every object that ever came and went.
                controller.start();
            } else {
                controller.watch()?;
            }
        }
        informers.start();
        let (grace, running_units) = (self.grace, RunningUnits::default());
        let units = self.into_units(&progress, &running_units);
        let mut running = std::pin::pin!(run_all(units, stop.clone(), running_units.clone()).fuse());

        let mut outcome = None;
        tokio::select! {
            biased;
            () = stop_requested => {}
            () = stop.cancelled() => {}
            ended = &mut running => outcome = Some(ended),
        }
        progress.stop();
        stop.cancel();
        let ending = async {
            let ended = match outcome {
                Some(ended) => ended,
                None => running.await,
            };
            informers.shut_down().await;
            ended
        };
        let (shutdown_began, mut abort) = (Instant::now(), std::pin::pin!(abort));
        let ended = tokio::select! {
            biased;
            ended = tokio::time::timeout(grace, ending) => {
                ended.unwrap_or_else(|_| Err(ManagerError::ShutdownTimeout { after: grace, still: still_running(&running_units) }))
            }
            () = &mut abort => return Err(ManagerError::Interrupted { still: still_running(&running_units) }),
        };
        if let Some(events) = events {
            // An event that cannot be written is retried for minutes, and must not hide the
            // outcome.
            let written = events.shutdown(grace.saturating_sub(shutdown_began.elapsed()));
            tokio::select! {
                biased;
                all = written => if !all {
                    tracing::warn!("some events were not written within the grace period");
                },
                () = abort => {}
            }
        }
        ended
    }

    fn check_names(&self) -> Result<(), ManagerError> {
        let mut names = BTreeSet::new();
        let tasks = self.tasks.iter().chain(&self.leader_tasks).map(|it| it.name.as_str());
        for name in tasks.chain(self.controllers.iter().map(Controller::name)) {
            if !names.insert(name) {
                return Err(ManagerError::NameTaken { name: name.to_owned() });
            }
        }
        Ok(())
    }

    /// Serves the endpoints until the returned set is dropped.
    fn answer(&mut self, progress: &Arc<Progress>) -> JoinSet<()> {
        let (synced, running) = (Arc::clone(progress), Arc::clone(progress));
        add_first(&mut self.readyz, "informer-sync", move || synced.check_synced());
        add_first(&mut self.readyz, "shutdown", move || running.check_running());
        if let Some(elector) = self.elector.clone() {
            let check = move || elector.health(STUCK_AFTER).map_err(|it| it.to_string());
            add_first(&mut self.healthz, "leaderElection", check);
        }
        let mut servers = JoinSet::new();
        for endpoints in self.endpoints.drain(..) {
            servers.spawn(endpoints.serve(self.healthz.clone(), self.readyz.clone()));
        }
        servers
    }

    /// Returns all units, with the election as one of them.
    fn into_units(self, progress: &Arc<Progress>, running_units: &RunningUnits) -> Vec<Unit> {
        let mut units = self.tasks;
        units.push(informers_synced(self.informers.clone(), progress));
        let informers = self.informers;
        let leads = self.elector.is_some();
        let (leading, others): (Vec<_>, Vec<_>) =
            self.controllers.into_iter().partition(|it| leads && it.needs_leader_election());
        let unit = |it| controller_unit(it, informers.clone(), Arc::clone(progress));
        units.extend(others.into_iter().map(unit));
        match self.elector {
            Some(elector) => {
                let group = Leading { controllers: leading, tasks: self.leader_tasks, elector, informers };
                let (progress, running_units) = (Arc::clone(progress), running_units.clone());
                units.push(Unit::new(ELECTION.to_owned(), move |stop| {
                    group.run(stop, progress, running_units)
                }));
            }
            None => units.extend(self.leader_tasks),
        }
        units
    }
}

/// The controllers and tasks that run only while the manager leads.
struct Leading {
    controllers: Vec<Controller>,
    tasks: Vec<Unit>,
    elector: LeaderElector,
    informers: InformerFactory,
}

impl Leading {
    /// Waits for the caches, then for the lease, and then runs all of them.
    async fn run(
        self,
        stop: CancellationToken,
        progress: Arc<Progress>,
        running_units: RunningUnits,
    ) -> Result<(), ManagerError> {
        let controllers =
            try_join_all(self.controllers.iter().map(|it| synced(it, &self.informers, &progress)));
        let all = async {
            // Tasks have no timeout of their own; the readiness check reports an informer that does
            // not sync.
            let (controllers, _) = tokio::join!(controllers, self.informers.wait_for_sync(Duration::MAX));
            controllers
        };
        let mut ends: FuturesUnordered<_> = self.controllers.iter().map(Controller::source_ended).collect();
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            synced = all => drop(synced?),
            Some(ended) = ends.next() => return Err(ended.into()),
        }
        drop(ends);
        // Shared, since a standby watches its informers while the same controllers are about to
        // work.
        let controllers: Vec<_> = self.controllers.into_iter().map(Arc::new).collect();
        let mut ends: FuturesUnordered<_> = controllers.iter().map(|it| it.source_ended()).collect();
        let mut source_ended = None;
        let standby_stops = async {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                // The controllers of a leader detect that by themselves.
                Some(ended) = ends.next(), if !self.elector.is_leader() => source_ended = Some(ended),
            }
            // A leader stops together with its work, in its own time.
            if self.elector.is_leader() {
                pending().await
            }
        };
        let mut units = self.tasks;
        let unit = |it: &Arc<Controller>| {
            controller_unit(Arc::clone(it), self.informers.clone(), Arc::clone(&progress))
        };
        units.extend(controllers.iter().map(unit));
        let work = run_all(units, stop.clone(), running_units);
        let outcome = self.elector.run_until(standby_stops, |_| work).await;
        match (outcome, source_ended) {
            (Ok(outcome), _) => outcome,
            (Err(ElectionEnded::Stopped), Some(ended)) => Err(ended.into()),
            (Err(ElectionEnded::Stopped), None) => Ok(()),
            (Err(lost), _) => Err(ManagerError::LeadershipLost(lost)),
        }
    }
}

fn named(controller: &Controller) -> String {
    format!("controller {}", controller.name())
}

/// Waits until a controller and all informers of the manager are synced: a reconciler may read any
/// of them.
async fn synced(
    controller: &Controller,
    informers: &InformerFactory,
    progress: &Progress,
) -> Result<(), ManagerError> {
    let after = controller.sync_timeout();
    let (own, all) = tokio::join!(controller.synced(), informers.wait_for_sync(after));
    own?;
    if !all.unsynced.is_empty() {
        let (controller, pending) = (controller.name().to_owned(), all.unsynced);
        let pending = pending.iter().map(ToString::to_string).collect();
        return Err(ControllerError::NotSynced { controller, after, pending }.into());
    }
    progress.synced(&named(controller));
    Ok(())
}

fn controller_unit(
    controller: impl Borrow<Controller> + Send + Sync + 'static,
    informers: InformerFactory,
    progress: Arc<Progress>,
) -> Unit {
    Unit::new(named(controller.borrow()), move |stop| async move {
        let controller = controller.borrow();
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            synced = synced(controller, &informers, &progress) => synced?,
            ended = controller.source_ended() => return Err(ended.into()),
        }
        Ok(controller.work(Box::pin(stop.cancelled())).await?)
    })
}

/// Reports to the readiness check when all informers are synced, also those that no controller
/// waits for.
fn informers_synced(informers: InformerFactory, progress: &Arc<Progress>) -> Unit {
    progress.wait_for(INFORMERS);
    let progress = Arc::clone(progress);
    Unit::new(INFORMERS.to_owned(), move |stop| async move {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            result = informers.wait_for_sync(Duration::MAX) => {
                if result.is_ok() {
                    progress.synced(INFORMERS);
                }
                stop.cancelled().await;
            }
        }
        Ok(())
    })
}

/// Returns the names of the units that have not ended, without the election if another one is left.
fn still_running(running_units: &RunningUnits) -> Vec<String> {
    let mut names = running_units.still();
    if names.iter().any(|it| it != ELECTION) {
        names.retain(|it| it != ELECTION);
    }
    if names.is_empty() {
        names.push(INFORMERS.to_owned());
    }
    names.sort_unstable();
    names
}

/// Adds a built-in check, unless the program has one of this name.
fn add_first(
    checks: &mut Checks,
    name: &str,
    check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
) {
    if !checks.has(name) {
        checks.add(name, move || ready(check()));
    }
}
