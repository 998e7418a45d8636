//! Two ingress managers of which one works: again and again the one that leads is stopped, and the other takes over.

use std::time::Duration;

use anyhow::Context as _;
use dogwatch::Client;
use dogwatch::controller::{CancellationToken, LeaderElector, Manager, ManagerError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::part::{Part, Stage, Voice};

/// How long a lease counts, how long a leader goes on without renewing it, and how often all try: small, so that a person sees it.
const LEASE: Duration = Duration::from_secs(3);
const RENEW: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(500);
/// How often it is looked who leads.
const LOOK: Duration = Duration::from_millis(20);
/// How long a leader leads, unless the demo is over sooner.
const TERM: Duration = Duration::from_secs(8);

/// The managers, and how often one took over from the other.
pub(super) struct Managers {
    client: Client,
    voice: Voice,
    term: Duration,
    /// How many leaders were stopped; the other one took over from all but maybe the last.
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
    /// Managers for a demo of this length: the first leader is stopped in the middle of it at the latest.
    pub(super) fn new(stage: &Stage, length: Option<Duration>) -> Self {
        let term = length.map_or(TERM, |it| TERM.min(it / 2));
        Self {
            client: stage.client.clone(),
            voice: stage.voice.clone(),
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
            self.voice.say(format!("{leader} leads, and {other} stands by with warm caches"));
            tokio::select! {
                () = tokio::time::sleep(self.term) => {}
                ended = leads.ended() => return ended,
                ended = stands_by.ended() => return ended,
            }
            self.voice.say(format!("{leader} is stopped"));
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
        let manager = manager.controller(controller).elect(elector.clone());
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let mut task = JoinSet::new();
        task.spawn(async move { manager.run_until(stopped.cancelled()).await });
        Ok(Self { name, elector, stop, task })
    }

    /// Waits until it leads.
    async fn leads(&mut self) -> anyhow::Result<()> {
        let mut looks = tokio::time::interval(LOOK);
        while !self.elector.is_leader() {
            tokio::select! {
                _ = looks.tick() => {}
                ended = self.ended() => return ended.and_then(|()| anyhow::bail!("{} ended by itself", self.name)),
            }
        }
        Ok(())
    }

    /// Waits until it has ended. One that was not stopped ends only when something is wrong.
    async fn ended(&mut self) -> anyhow::Result<()> {
        let ended = self.task.join_next().await.context("it has ended already")?;
        ended.context("it panicked")?.with_context(|| format!("{} failed", self.name))
    }
}

impl Part for Managers {
    fn run(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        self.work().boxed()
    }

    fn summary(&self) -> Vec<(&'static str, String)> {
        vec![("leadership", leadership(self.stopped, &self.handovers))]
    }
}

/// How often the leader changed, and how long it took.
fn leadership(stopped: usize, handovers: &[Duration]) -> String {
    let mut told = match handovers {
        [] if stopped == 0 => return "no leader was stopped".to_owned(),
        [] => "the leader was stopped".to_owned(),
        [once] => format!("taken over once, after {once:.1?}"),
        several => {
            let longest = several.iter().max().copied().unwrap_or_default();
            format!("taken over {} times, after {longest:.1?} at most", several.len())
        }
    };
    if stopped > handovers.len() {
        told.push_str("; the demo ended before the other one took over");
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_that_was_stopped_at_the_end_is_not_forgotten() {
        let second = Duration::from_secs(1);
        for (stopped, handovers, expected) in [
            (0, &[][..], "no leader was stopped"),
            (1, &[], "the leader was stopped; the demo ended before the other one took over"),
            (1, &[second], "taken over once, after 1.0s"),
            (2, &[second, second * 2], "taken over 2 times, after 2.0s at most"),
            (2, &[second], "taken over once, after 1.0s; the demo ended before the other one took over"),
        ] {
            assert_eq!(leadership(stopped, handovers), expected);
        }
    }
}
