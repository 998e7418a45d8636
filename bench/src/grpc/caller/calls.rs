//! The two ways to call: as fast as it goes with so many in flight, and so often a second whatever comes back.

use std::time::Duration;

use anyhow::Result;
use prost::bytes::Bytes;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tonic::Status;

use super::echo::{Callee, PAYLOAD};
use super::outcome::{Clocks, Outcome, Told};

/// How long a call at a steady rate may take; then it has failed.
const PATIENCE: Duration = Duration::from_secs(5);

fn payload() -> Bytes {
    Bytes::from(vec![7; PAYLOAD])
}

/// Calls without a pause, so many at a time.
pub(super) async fn burst<C: Callee>(callees: &[C], in_flight: usize, time: Duration) -> Result<Outcome> {
    let (clocks, end, payload) = (Clocks::start(), Instant::now() + time, payload());
    let mut workers = JoinSet::new();
    for callee in callees.iter().cycle().take(in_flight) {
        let (mut callee, payload) = (callee.clone(), payload.clone());
        workers.spawn(async move {
            let (mut told, mut now) = (Told::default(), Instant::now());
            while now < end {
                let answer = callee.call(payload.clone()).await;
                let after = Instant::now();
                told.add(after - now, answer);
                now = after;
            }
            told
        });
    }
    let mut all = Told::default();
    while let Some(told) = workers.join_next().await {
        all.join(told?);
    }
    Ok(clocks.outcome(all))
}

/// Calls at a rate. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Steady {
    clocks: Clocks,
    stop: oneshot::Sender<()>,
    calling: JoinHandle<Result<Told>>,
}

impl Steady {
    pub(super) fn begin<C: Callee>(callees: Vec<C>, rate: u32) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { clocks: Clocks::start(), stop, calling: tokio::spawn(call(callees, rate, stopped)) }
    }

    /// Waits for the calls that are under way.
    pub(super) async fn end(self) -> Result<Outcome> {
        drop(self.stop);
        Ok(self.clocks.outcome(self.calling.await??))
    }
}

/// A call takes from when it was due, not from when it could be made: who is late is not the better for it.
async fn call<C: Callee>(callees: Vec<C>, rate: u32, mut stopped: oneshot::Receiver<()>) -> Result<Told> {
    let (mut told, mut calls, payload) = (Told::default(), JoinSet::new(), payload());
    let mut ticks = interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for callee in callees.iter().cycle() {
        let due = tokio::select! {
            _ = &mut stopped => break,
            due = ticks.tick() => due,
        };
        let (mut callee, payload) = (callee.clone(), payload.clone());
        calls.spawn(async move {
            let late = |_| Err(Status::deadline_exceeded("it takes too long"));
            let answer = timeout(PATIENCE, callee.call(payload)).await.unwrap_or_else(late);
            (due.elapsed(), answer)
        });
        while let Some(ended) = calls.try_join_next() {
            let (took, answer) = ended?;
            told.add(took, answer);
        }
    }
    while let Some(ended) = calls.join_next().await {
        let (took, answer) = ended?;
        told.add(took, answer);
    }
    Ok(told)
}
