//! The two ways to call: as fast as possible with a number of concurrent calls, and at a fixed rate
//! whatever the responses are.

use std::time::Duration;

use anyhow::Result;
use prost::bytes::Bytes;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tonic::Status;

use super::echo::{Callee, PAYLOAD};
use super::outcome::{CallStats, Clocks, Outcome};

/// The deadline of a call at a fixed rate. A call that misses it has failed.
const TIMEOUT: Duration = Duration::from_secs(5);

fn payload() -> Bytes {
    Bytes::from(vec![7; PAYLOAD])
}

/// Calls without a pause, with `in_flight` concurrent calls.
pub(super) async fn burst<C: Callee>(callees: &[C], in_flight: usize, time: Duration) -> Result<Outcome> {
    let (clocks, end, payload) = (Clocks::start(), Instant::now() + time, payload());
    let mut workers = JoinSet::new();
    for callee in callees.iter().cycle().take(in_flight) {
        let (mut callee, payload) = (callee.clone(), payload.clone());
        workers.spawn(async move {
            let (mut stats, mut now) = (CallStats::default(), Instant::now());
            while now < end {
                let answer = callee.call(payload.clone()).await;
                let after = Instant::now();
                stats.add(after - now, answer);
                now = after;
            }
            stats
        });
    }
    let mut all = CallStats::default();
    while let Some(stats) = workers.join_next().await {
        all.join(stats?);
    }
    Ok(clocks.outcome(all))
}

/// Calls at a fixed rate. Dropping this stops it.
#[derive(Debug)]
pub(super) struct Steady {
    clocks: Clocks,
    stop: oneshot::Sender<()>,
    calling: JoinHandle<Result<CallStats>>,
}

impl Steady {
    pub(super) fn begin<C: Callee>(callees: Vec<C>, rate: u32) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { clocks: Clocks::start(), stop, calling: tokio::spawn(call(callees, rate, stopped)) }
    }

    /// Stops, and waits for the calls in flight.
    pub(super) async fn end(self) -> Result<Outcome> {
        drop(self.stop);
        Ok(self.clocks.outcome(self.calling.await??))
    }
}

/// Latencies count from the time a call was due, not from when it was made, so that a slow client
/// does not look better by calling late (coordinated omission).
async fn call<C: Callee>(
    callees: Vec<C>,
    rate: u32,
    mut stopped: oneshot::Receiver<()>,
) -> Result<CallStats> {
    let (mut stats, mut calls, payload) = (CallStats::default(), JoinSet::new(), payload());
    let mut ticks = interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for callee in callees.iter().cycle() {
        let due = tokio::select! {
            _ = &mut stopped => break,
            due = ticks.tick() => due,
        };
        let (mut callee, payload) = (callee.clone(), payload.clone());
        calls.spawn(async move {
            let late = |_| Err(Status::deadline_exceeded("no response in time"));
            let answer = timeout(TIMEOUT, callee.call(payload)).await.unwrap_or_else(late);
            (due.elapsed(), answer)
        });
        while let Some(ended) = calls.try_join_next() {
            let (took, answer) = ended?;
            stats.add(took, answer);
        }
    }
    while let Some(ended) = calls.join_next().await {
        let (took, answer) = ended?;
        stats.add(took, answer);
    }
    Ok(stats)
}
