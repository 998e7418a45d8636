//! An open load: so many calls a second whatever comes back, and how they went.
//!
//! A call that is due is made, unless so many are under way that the machine cannot be up to the rate; what is left out is not made up
//! for, and shows in the rate that was reached.

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

/// How many calls may be under way: a fifth of a second of the highest rate. With more of them one would measure a queue.
const MOST: usize = 1_000;
/// How often calls are made: as often as tokio's clock has a moment, so a few at a time.
const TICK: Duration = Duration::from_millis(1);
/// How long calls may go on after the last one was made. Those that take longer are lost.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of the rate that was wanted, so much has to be reached to say no more about it.
const NEARLY: f64 = 0.98;

/// How calls went. The times are of those that were answered, from when they were due.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Outcome {
    pub(super) wanted: u32,
    /// In which calls were made.
    pub(super) seconds: f64,
    pub(super) calls: u64,
    pub(super) failed: u64,
    /// Neither answered nor failed.
    pub(super) lost: u64,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
    /// The first failure; empty without one.
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
        write!(f, "wanted {wanted}/s, reached {:.0}/s", self.reached())?;
        if self.reached() < NEARLY * f64::from(*wanted) {
            let build = if cfg!(debug_assertions) { "debug" } else { "release" };
            write!(f, ": NOT THE WANTED RATE, this machine has no room for more in a {build} build")?;
        }
        if !self.why.is_empty() {
            write!(f, "; the first failure: {}", self.why)?;
        }
        Ok(())
    }
}

/// Calls that are made at a rate. Dropping it ends the making, not the calls.
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

    /// Makes no more calls, and waits for those that are under way.
    ///
    /// # Errors
    /// When it has panicked.
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
        // However late this task has its turn, it knows what is due.
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

/// How many calls are due by then; the first one is at once.
fn due(elapsed: Duration, rate: u32) -> u64 {
    (elapsed.as_micros() * u128::from(rate) / 1_000_000) as u64 + 1
}

async fn one(client: Grpc<KubeChannel>, number: u64, due: Instant, book: Arc<Book>) {
    let answer = echo::one(client, number).await;
    book.told().add(answer.map(|()| due.elapsed()).map_err(|it| it.to_string()));
    book.under_way.fetch_sub(1, Ordering::Release);
}

/// What all calls of a flow have in common.
#[derive(Debug, Default)]
struct Book {
    under_way: AtomicUsize,
    /// Never held across an await.
    told: Mutex<Told>,
}

impl Book {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What calls have come to so far.
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

    /// The time that so many of a hundred calls stayed within. They are in order.
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
    fn every_call_is_answered_or_failed_or_lost_and_times_are_of_the_answered() {
        let outcome = told((1..=100).rev(), &["away", "odd"]).outcome(51, 2.0, 3);
        assert_eq!((outcome.calls, outcome.failed, outcome.lost, outcome.answered()), (105, 2, 3, 100));
        assert_eq!((outcome.p50_us, outcome.p99_us, outcome.why.as_str()), (51, 100, "away"));
        let none = told([], &[]).outcome(1, 0.0, 0);
        assert_eq!((none.calls, none.p50_us, none.p99_us), (0, 0, 0));
    }

    #[test]
    fn calls_are_due_by_the_clock_from_the_first_moment_on() {
        let due_after = |millis| due(Duration::from_millis(millis), 5_000);
        assert_eq!([0, 1, 2, 1_000, 60_000].map(due_after), [1, 6, 11, 5_001, 300_001]);
        assert_eq!(due(Duration::from_micros(399), 5_000), 2);
    }

    #[test]
    fn a_rate_that_was_not_reached_is_said() {
        let said = |seconds| told(1..=100, &[]).outcome(50, seconds, 0).to_string();
        assert!(said(2.0).ends_with("wanted 50/s, reached 50/s"), "{}", said(2.0));
        assert!(said(2.01).ends_with("reached 50/s"), "{}", said(2.01));
        assert!(said(4.0).contains("wanted 50/s, reached 25/s: NOT THE WANTED RATE"), "{}", said(4.0));
    }
}
