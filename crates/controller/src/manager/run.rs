//! The course of a manager: what begins when, and what ends before what.

use std::collections::BTreeSet;
use std::future::{Future, pending, ready};
use std::sync::Arc;
use std::time::Duration;

use dogwatch_informer::InformerFactory;
use futures_util::FutureExt;
use futures_util::future::try_join_all;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::error::ManagerError;
use super::parts::{Part, Roll, run_all};
use super::progress::Progress;
use super::whole::Manager;
use crate::checks::Checks;
use crate::controller::Controller;
use crate::leader::{Ended, LeaderElector};
use crate::signals::Signals;

/// How much longer than its lease a leader may go on before the process is taken for stuck: the tolerance of Kubernetes' own components.
const STUCK_AFTER: Duration = Duration::from_secs(20);

/// What the election is called among the parts.
const ELECTION: &str = "leader election";

/// What waits for the informers, in the check of them.
const INFORMERS: &str = "informers";

impl Manager {
    /// Runs until SIGTERM or SIGINT comes, and ends in order; a second signal ends it at once.
    ///
    /// # Errors
    /// When a part fails, leadership is lost, or not all has ended within the grace period. Everything has ended or was cut off then.
    pub async fn run(self) -> Result<(), ManagerError> {
        let mut signals = Signals::listen().map_err(ManagerError::Signals)?;
        let (stop, at_once) = (CancellationToken::new(), CancellationToken::new());
        let (first, second) = (stop.clone(), at_once.clone());
        let listen = async move {
            let signal = signals.next().await;
            tracing::info!(signal, "ending, as told; a second signal ends it at once");
            first.cancel();
            signals.next().await;
            second.cancel();
            pending().await
        };
        tokio::select! {
            outcome = self.course(stop.cancelled(), at_once.cancelled()) => outcome,
            never = listen => never,
        }
    }

    /// As [`run`](Self::run), but until the future resolves, whatever signals come.
    ///
    /// # Errors
    /// When a part fails, leadership is lost, or not all has ended within the grace period. Everything has ended or was cut off then.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), ManagerError> {
        self.course(stop, pending()).await
    }

    async fn course(
        mut self,
        asked: impl Future<Output = ()>,
        at_once: impl Future<Output = ()>,
    ) -> Result<(), ManagerError> {
        self.check_names()?;
        let (stop, progress) = (CancellationToken::new(), Arc::new(Progress::default()));
        // Held until everything else has ended, so that probes are answered to the end.
        let _endpoints = self.answer(&progress);
        let informers = self.informers.clone();
        for controller in &mut self.controllers {
            progress.wait_for(&named(controller));
            controller.watch()?;
        }
        informers.start();
        let (grace, roll) = (self.grace, Roll::default());
        let parts = self.into_parts(&progress, &roll);
        let mut running = std::pin::pin!(run_all(parts, stop.clone(), roll.clone()).fuse());

        let mut outcome = None;
        tokio::select! {
            () = asked => {}
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
        tokio::select! {
            biased;
            ended = tokio::time::timeout(grace, ending) => {
                ended.unwrap_or_else(|_| Err(ManagerError::Late { after: grace, still: left(&roll) }))
            }
            () = at_once => Err(ManagerError::Interrupted { still: left(&roll) }),
        }
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

    /// Answers probes until what is returned is dropped.
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

    /// Everything that runs, with the election as one part of it.
    fn into_parts(self, progress: &Arc<Progress>, roll: &Roll) -> Vec<Part> {
        let mut parts = self.tasks;
        parts.push(informers_synced(self.informers, progress));
        let leads = self.elector.is_some();
        let (leading, others): (Vec<_>, Vec<_>) =
            self.controllers.into_iter().partition(|it| leads && it.works_as_leader());
        parts.extend(others.into_iter().map(|it| controller_part(it, Arc::clone(progress))));
        match self.elector {
            Some(elector) => {
                let group = Leading { controllers: leading, tasks: self.leader_tasks, elector };
                let (progress, roll) = (Arc::clone(progress), roll.clone());
                parts.push(Part::new(ELECTION.to_owned(), move |stop| group.run(stop, progress, roll)));
            }
            None => parts.extend(self.leader_tasks),
        }
        parts
    }
}

/// What runs only while the manager leads.
struct Leading {
    controllers: Vec<Controller>,
    tasks: Vec<Part>,
    elector: LeaderElector,
}

impl Leading {
    /// Waits for the caches, then for the lease, and then lets all of it work.
    async fn run(
        self,
        stop: CancellationToken,
        progress: Arc<Progress>,
        roll: Roll,
    ) -> Result<(), ManagerError> {
        let synced = try_join_all(self.controllers.iter().map(|it| synced(it, &progress)));
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            synced = synced => drop(synced?),
        }
        let mut parts = self.tasks;
        parts.extend(self.controllers.into_iter().map(|it| controller_part(it, Arc::clone(&progress))));
        let standby_stops = async {
            stop.cancelled().await;
            // A leader ends in its own time, with its work.
            if self.elector.is_leader() {
                pending().await
            }
        };
        let work = run_all(parts, stop.clone(), roll);
        match self.elector.run_until(standby_stops, |_| work).await {
            Ok(outcome) => outcome,
            Err(Ended::Stopped) => Ok(()),
            Err(lost) => Err(ManagerError::LeadershipLost(lost)),
        }
    }
}

fn named(controller: &Controller) -> String {
    format!("controller {}", controller.name())
}

async fn synced(controller: &Controller, progress: &Progress) -> Result<(), ManagerError> {
    controller.synced().await?;
    progress.synced(&named(controller));
    Ok(())
}

fn controller_part(controller: Controller, progress: Arc<Progress>) -> Part {
    Part::new(named(&controller), move |stop| async move {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            synced = synced(&controller, &progress) => synced?,
        }
        Ok(controller.work(Box::pin(stop.cancelled())).await?)
    })
}

/// Informers that no controller watches are waited for too, by those who ask whether the manager is ready.
fn informers_synced(informers: InformerFactory, progress: &Arc<Progress>) -> Part {
    progress.wait_for(INFORMERS);
    let progress = Arc::clone(progress);
    Part::new(INFORMERS.to_owned(), move |stop| async move {
        tokio::select! {
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

/// What is worth naming of what has not ended.
fn left(roll: &Roll) -> Vec<String> {
    let mut names = roll.still();
    if names.iter().any(|it| it != ELECTION) {
        names.retain(|it| it != ELECTION);
    }
    if names.is_empty() {
        names.push(INFORMERS.to_owned());
    }
    names.sort_unstable();
    names
}

/// Adds a check of our own, unless the program has one of this name.
fn add_first(
    checks: &mut Checks,
    name: &str,
    check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
) {
    if !checks.has(name) {
        checks.add(name, move || ready(check()));
    }
}
