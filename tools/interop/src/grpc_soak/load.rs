//! An open-loop load: a fixed number of calls per second whatever the responses are, and its
//! outcome.
//!
//! Every call is made when it is due, unless too many are in flight because the machine cannot keep
//! up with the rate. Such calls are skipped, not made later, and show in the achieved rate.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
const MOST: usize = 1_000;
/// The interval at which due calls are made. It is the resolution of tokio's timer, so a few calls
/// are made at a time.
const TICK: Duration = Duration::from_millis(1);
/// The time within which calls have to end after the last one was made. Those that take longer are
/// lost.
const PATIENCE: Duration = Duration::from_secs(30);
/// The share of the requested rate below which the output has a warning.
const NEARLY: f64 = 0.98;

/// The outcome of calls. Latencies are of those that were answered, from when they were due.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Outcome {
    pub(super) wanted: u32,
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

    pub(super) fn reached(&self) -> f64 {
        self.calls as f64 / self.seconds.max(f64::EPSILON)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |it: u64| it as f64 / 1e3;
        let Self { wanted, seconds, calls, failed, lost, .. } = self;
        write!(f, "{calls} calls in {seconds:.1} s, {failed} failed, {lost} lost, ")?;
        write!(f, "p50 {:.2} ms, p99 {:.2} ms; ", ms(self.p50_us), ms(self.p99_us))?;
        write!(f, "requested {wanted}/s, achieved {:.0}/s", self.reached())?;
        if self.reached() < NEARLY * f64::from(*wanted) {
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
pub(super) struct Flow {
    stop: oneshot::Sender<()>,
    calling: JoinHandle<Outcome>,
}

impl Flow {
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
    let (began, book, mut made) = (Instant::now(), Arc::new(Book::default()), 0);
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
            if book.under_way.load(Ordering::Relaxed) < MOST {
                book.under_way.fetch_add(1, Ordering::Relaxed);
                let moment = began + Duration::from_secs_f64(number as f64 / f64::from(rate));
                tokio::spawn(one(client.clone(), number, moment, Arc::clone(&book)));
            }
        }
        made = due;
    }
    let (seconds, end) = (began.elapsed().as_secs_f64(), Instant::now() + PATIENCE);
    while book.under_way.load(Ordering::Acquire) > 0 && Instant::now() < end {
        ticks.tick().await;
    }
    let lost = book.under_way.load(Ordering::Acquire) as u64;
    let told = std::mem::take(&mut *book.told());
    told.outcome(rate, seconds, lost)
}

/// Returns the number of calls that are due after `elapsed`. The first one is due immediately.
fn due(elapsed: Duration, rate: u32) -> u64 {
    (elapsed.as_micros() * u128::from(rate) / 1_000_000) as u64 + 1
}

async fn one(client: Grpc<KubeChannel>, number: u64, due: Instant, book: Arc<Book>) {
    let answer = echo::one(client, number).await;
    book.told().add(answer.map(|()| due.elapsed()).map_err(|it| it.to_string()));
    book.under_way.fetch_sub(1, Ordering::Release);
}

/// The state that all calls of a load share.
#[derive(Debug, Default)]
struct Book {
    under_way: AtomicUsize,
    /// Never locked across an await.
    told: Mutex<Told>,
}

impl Book {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The statistics of the calls so far.
#[derive(Debug, Default)]
struct Told {
    micros: Vec<u64>,
    failed: u64,
    why: String,
}

impl Told {
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

    fn outcome(mut self, wanted: u32, seconds: f64, lost: u64) -> Outcome {
        self.micros.sort_unstable();
        let calls = self.micros.len() as u64 + self.failed + lost;
        let (p50_us, p99_us) = (self.at(50), self.at(99));
        Outcome { wanted, seconds, calls, failed: self.failed, lost, p50_us, p99_us, why: self.why }
    }

    /// The given percentile of the latencies. They have to be sorted.
    fn at(&self, percent: usize) -> u64 {
        let place = (self.micros.len() * percent / 100).min(self.micros.len().saturating_sub(1));
        self.micros.get(place).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(micros: impl IntoIterator<Item = u64>, failures: &[&str]) -> Told {
        let mut told = Told::default();
        micros.into_iter().for_each(|it| told.add(Ok(Duration::from_micros(it))));
        failures.iter().for_each(|it| told.add(Err((*it).to_owned())));
        told
    }

    #[test]
    fn every_call_is_answered_failed_or_lost_and_latencies_are_of_the_answered() {
        let outcome = told((1..=100).rev(), &["away", "odd"]).outcome(51, 2.0, 3);
        assert_eq!((outcome.calls, outcome.failed, outcome.lost, outcome.answered()), (105, 2, 3, 100));
        assert_eq!((outcome.p50_us, outcome.p99_us, outcome.why.as_str()), (51, 100, "away"));
        let none = told([], &[]).outcome(1, 0.0, 0);
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
        let said = |seconds| told(1..=100, &[]).outcome(50, seconds, 0).to_string();
        assert!(said(2.0).ends_with("requested 50/s, achieved 50/s"), "{}", said(2.0));
        assert!(said(2.01).ends_with("achieved 50/s"), "{}", said(2.01));
        assert!(said(4.0).contains("requested 50/s, achieved 25/s: RATE NOT ACHIEVED"), "{}", said(4.0));
    }
}
