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
        Self { client: stage.client.clone(), voice: stage.voice.clone(), term, handovers: Vec::new() }
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
        let told = match self.handovers.as_slice() {
            [] => "no leader was stopped".to_owned(),
            [once] => format!("taken over once, after {once:.1?}"),
            several => {
                let longest = several.iter().max().copied().unwrap_or_default();
                format!("taken over {} times, after {longest:.1?} at most", several.len())
            }
        };
        vec![("leadership", told)]
    }
}
