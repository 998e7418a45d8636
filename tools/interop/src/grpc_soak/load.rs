//! An open-loop load: a fixed number of calls per second whatever the responses are, and its
//! outcome.
//!
//! Every call is made when it is due, unless too many are in flight because the machine cannot keep
//! up with the rate. Such calls are skipped, not made later, and show in the achieved rate.

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use dogwatch_grpc::KubeChannel;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::client::Grpc;

use super::echo;

/// The maximum number of calls in flight: a fifth of a second at the highest rate. With more, the
/// queueing delay would be measured.
const MAX_IN_FLIGHT: usize = 1_000;
/// The interval at which due calls are made. It is the resolution of tokio's timer, so a few calls
/// are made at a time.
const TICK: Duration = Duration::from_millis(1);
/// The time within which calls have to end after the last one was made. Those that take longer are
/// lost.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The share of the requested rate below which the output has a warning.
const MIN_RATE_SHARE: f64 = 0.98;

/// The outcome of calls. Latencies are of those that were answered, from when they were due.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Outcome {
    pub(super) requested: u32,
    /// The time in which calls were made.
    pub(super) seconds: f64,
    pub(super) calls: u64,
    pub(super) failed: u64,
    /// The number of calls that neither were answered nor failed.
    pub(super) lost: u64,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
    /// The first failure. Empty without one.
    pub(super) why: String,
}

impl Outcome {
    pub(super) fn answered(&self) -> u64 {
        self.calls - self.failed - self.lost
    }

    pub(super) fn achieved(&self) -> f64 {
        self.calls as f64 / self.seconds.max(f64::EPSILON)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |it: u64| it as f64 / 1e3;
        let Self { requested, seconds, calls, failed, lost, .. } = self;
        write!(f, "{calls} calls in {seconds:.1} s, {failed} failed, {lost} lost, ")?;
        write!(f, "p50 {:.2} ms, p99 {:.2} ms; ", ms(self.p50_us), ms(self.p99_us))?;
        write!(f, "requested {requested}/s, achieved {:.0}/s", self.achieved())?;
        if self.achieved() < MIN_RATE_SHARE * f64::from(*requested) {
            let build = if cfg!(debug_assertions) { "debug" } else { "release" };
            write!(f, ": RATE NOT ACHIEVED, this machine is too slow for it with a {build} build")?;
        }
        if !self.why.is_empty() {
            write!(f, "; the first failure: {}", self.why)?;
        }
        Ok(())
    }
}

/// Calls made at a fixed rate. Dropping this stops making calls, but does not cancel those in
/// flight.
#[derive(Debug)]
pub(super) struct SteadyLoad {
    stop: oneshot::Sender<()>,
    calling: JoinHandle<Outcome>,
}

impl SteadyLoad {
    pub(super) fn begin(client: Grpc<KubeChannel>, rate: u32) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { stop, calling: tokio::spawn(call(client, rate.max(1), stopped)) }
    }

    /// Stops making calls, and waits for those in flight.
    ///
    /// # Errors
    /// If the task has panicked.
    pub(super) async fn end(self) -> Result<Outcome> {
        drop(self.stop);
        Ok(self.calling.await?)
    }
}

async fn call(client: Grpc<KubeChannel>, rate: u32, mut stopped: oneshot::Receiver<()>) -> Outcome {
    let (began, state, mut made) = (Instant::now(), Arc::new(LoadState::default()), 0);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => break,
            _ = ticks.tick() => {}
        }
        // The due calls follow from the elapsed time, so a late tick catches up.
        let due = due(began.elapsed(), rate);
        for number in made..due {
            if state.in_flight.load(Ordering::Relaxed) < MAX_IN_FLIGHT {
                state.in_flight.fetch_add(1, Ordering::Relaxed);
                let due_at = began + Duration::from_secs_f64(number as f64 / f64::from(rate));
                tokio::spawn(one(client.clone(), number, due_at, Arc::clone(&state)));
            }
        }
        made = due;
    }
    let (seconds, end) = (began.elapsed().as_secs_f64(), Instant::now() + TIMEOUT);
    while state.in_flight.load(Ordering::Acquire) > 0 && Instant::now() < end {
        ticks.tick().await;
    }
    let lost = state.in_flight.load(Ordering::Acquire) as u64;
    let stats = std::mem::take(&mut *state.stats());
    stats.outcome(rate, seconds, lost)
}

/// Returns the number of calls that are due after `elapsed`. The first one is due immediately.
fn due(elapsed: Duration, rate: u32) -> u64 {
    (elapsed.as_micros() * u128::from(rate) / 1_000_000) as u64 + 1
}

async fn one(client: Grpc<KubeChannel>, number: u64, due: Instant, state: Arc<LoadState>) {
    let answer = echo::one(client, number).await;
    state.stats().add(answer.map(|()| due.elapsed()).map_err(|it| it.to_string()));
    state.in_flight.fetch_sub(1, Ordering::Release);
}

/// The state that all calls of a load share.
#[derive(Debug, Default)]
struct LoadState {
    in_flight: AtomicUsize,
    /// Never locked across an await.
    stats: Mutex<CallStats>,
}

impl LoadState {
    fn stats(&self) -> MutexGuard<'_, CallStats> {
        self.stats.lock()
    }
}

/// The statistics of the calls so far.
#[derive(Debug, Default)]
struct CallStats {
    micros: Vec<u64>,
    failed: u64,
    why: String,
}

impl CallStats {
    fn add(&mut self, ended: Result<Duration, String>) {
        match ended {
            Ok(took) => self.micros.push(took.as_micros() as u64),
            Err(why) => {
                self.failed += 1;
                if self.why.is_empty() {
                    self.why = why;
                }
            }
        }
    }

    fn outcome(mut self, requested: u32, seconds: f64, lost: u64) -> Outcome {
        self.micros.sort_unstable();
        let calls = self.micros.len() as u64 + self.failed + lost;
        let (p50_us, p99_us) = (self.percentile(50), self.percentile(99));
        Outcome { requested, seconds, calls, failed: self.failed, lost, p50_us, p99_us, why: self.why }
    }

    /// The given percentile of the latencies. They have to be sorted.
    fn percentile(&self, percent: usize) -> u64 {
        let index = (self.micros.len() * percent / 100).min(self.micros.len().saturating_sub(1));
        self.micros.get(index).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(micros: impl IntoIterator<Item = u64>, failures: &[&str]) -> CallStats {
        let mut stats = CallStats::default();
        micros.into_iter().for_each(|it| stats.add(Ok(Duration::from_micros(it))));
        failures.iter().for_each(|it| stats.add(Err((*it).to_owned())));
        stats
    }

    #[test]
    fn every_call_is_answered_failed_or_lost_and_latencies_are_of_the_answered() {
        let outcome = stats((1..=100).rev(), &["away", "odd"]).outcome(51, 2.0, 3);
        assert_eq!((outcome.calls, outcome.failed, outcome.lost, outcome.answered()), (105, 2, 3, 100));
        assert_eq!((outcome.p50_us, outcome.p99_us, outcome.why.as_str()), (51, 100, "away"));
        let none = stats([], &[]).outcome(1, 0.0, 0);
        assert_eq!((none.calls, none.p50_us, none.p99_us), (0, 0, 0));
    }

    #[test]
    fn calls_are_due_by_the_elapsed_time_and_the_first_one_immediately() {
        let due_after = |millis| due(Duration::from_millis(millis), 5_000);
        assert_eq!([0, 1, 2, 1_000, 60_000].map(due_after), [1, 6, 11, 5_001, 300_001]);
        assert_eq!(due(Duration::from_micros(399), 5_000), 2);
    }

    #[test]
    fn a_rate_that_is_not_achieved_is_reported() {
        let text = |seconds| stats(1..=100, &[]).outcome(50, seconds, 0).to_string();
        assert!(text(2.0).ends_with("requested 50/s, achieved 50/s"), "{}", text(2.0));
        assert!(text(2.01).ends_with("achieved 50/s"), "{}", text(2.01));
        assert!(text(4.0).contains("requested 50/s, achieved 25/s: RATE NOT ACHIEVED"), "{}", text(4.0));
    }
}
