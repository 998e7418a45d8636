//! Two ingress managers with leader election: the leader is stopped repeatedly, and the standby
//! takes over.

use std::time::Duration;

use anyhow::Context as _;
use dogwatch::Client;
use dogwatch::controller::{CancellationToken, LeaderElector, Manager, ManagerError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::task::{DemoContext, DemoTask, Output};

/// The lease duration, the renew deadline and the retry period: short, so that a person can watch a
/// handover.
const LEASE: Duration = Duration::from_secs(3);
const RENEW: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(500);
/// The interval at which leadership is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// The time that a leader leads, unless the demo ends sooner.
const TERM: Duration = Duration::from_secs(8);

/// The managers, and the durations of the handovers.
pub(super) struct Managers {
    client: Client,
    output: Output,
    term: Duration,
    /// The number of stopped leaders; the standby took over from all but maybe the last.
    stopped: usize,
    handovers: Vec<Duration>,
}

/// One manager, and the task it runs in.
struct Replica {
    name: &'static str,
    elector: LeaderElector,
    stop: CancellationToken,
    task: JoinSet<Result<(), ManagerError>>,
}

impl Managers {
    /// Creates managers for a demo of this length: the first leader is stopped in the middle of it
    /// at the latest.
    pub(super) fn new(context: &DemoContext, length: Option<Duration>) -> Self {
        let term = length.map_or(TERM, |it| TERM.min(it / 2));
        Self {
            client: context.client.clone(),
            output: context.output.clone(),
            term,
            stopped: 0,
            handovers: Vec::new(),
        }
    }

    async fn work(&mut self) -> anyhow::Result<()> {
        let mut leads = Replica::start(&self.client, "manager-a")?;
        let mut stands_by = Replica::start(&self.client, "manager-b")?;
        tokio::select! {
            began = leads.leads() => began?,
            began = stands_by.leads() => {
                began?;
                std::mem::swap(&mut leads, &mut stands_by);
            }
        }
        loop {
            let (leader, other) = (leads.name, stands_by.name);
            self.output.print(format!("{leader} leads; {other} is on standby with warm caches"));
            tokio::select! {
                () = tokio::time::sleep(self.term) => {}
                ended = leads.ended() => return ended,
                ended = stands_by.ended() => return ended,
            }
            self.output.print(format!("stopping {leader}"));
            self.stopped += 1;
            let stopped = Instant::now();
            leads.stop.cancel();
            leads.ended().await?;
            stands_by.leads().await?;
            self.handovers.push(stopped.elapsed());
            leads = stands_by;
            stands_by = Replica::start(&self.client, leader)?;
        }
    }
}

impl Replica {
    fn start(client: &Client, name: &'static str) -> anyhow::Result<Self> {
        let manager = Manager::new(client.clone());
        let controller = ingress_manager::controller(&manager, client.clone());
        let elector = LeaderElector::builder(client.clone(), "ingress-manager")
            .identity(name)
            .lease_duration(LEASE)
            .renew_deadline(RENEW)
            .retry_period(RETRY)
            .build()?;
        let manager = manager.controller(controller).leader_election(elector.clone());
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let mut task = JoinSet::new();
        task.spawn(async move { manager.run_until(stopped.cancelled()).await });
        Ok(Self { name, elector, stop, task })
    }

    /// Waits until it leads.
    async fn leads(&mut self) -> anyhow::Result<()> {
        let mut checks = tokio::time::interval(CHECK_INTERVAL);
        while !self.elector.is_leader() {
            tokio::select! {
                _ = checks.tick() => {}
                ended = self.ended() => return ended.and_then(|()| anyhow::bail!("{} ended unexpectedly", self.name)),
            }
        }
        Ok(())
    }

    /// Waits until it has ended. Without a stop, it ends only on an error.
    async fn ended(&mut self) -> anyhow::Result<()> {
        let ended = self.task.join_next().await.context("the manager has already ended")?;
        ended.context("the manager panicked")?.with_context(|| format!("{} failed", self.name))
    }
}

impl DemoTask for Managers {
    fn run(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        self.work().boxed()
    }

    fn summary(&self) -> Vec<(&'static str, String)> {
        vec![("leadership", leadership(self.stopped, &self.handovers))]
    }
}

/// Formats the number of handovers, and their duration.
fn leadership(stopped: usize, handovers: &[Duration]) -> String {
    let mut text = match handovers {
        [] if stopped == 0 => return "no leader was stopped".to_owned(),
        [] => "the leader was stopped".to_owned(),
        [once] => format!("1 handover, in {once:.1?}"),
        several => {
            let longest = several.iter().max().copied().unwrap_or_default();
            format!("{} handovers, in at most {longest:.1?}", several.len())
        }
    };
    if stopped > handovers.len() {
        text.push_str("; the demo ended before the standby took over");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handover_that_the_demo_cut_short_is_reported() {
        let second = Duration::from_secs(1);
        for (stopped, handovers, expected) in [
            (0, &[][..], "no leader was stopped"),
            (1, &[], "the leader was stopped; the demo ended before the standby took over"),
            (1, &[second], "1 handover, in 1.0s"),
            (2, &[second, second * 2], "2 handovers, in at most 2.0s"),
            (2, &[second], "1 handover, in 1.0s; the demo ended before the standby took over"),
        ] {
            assert_eq!(leadership(stopped, handovers), expected);
        }
    }
}
