//! The outcome of calls: their number, failures, latencies and CPU time.

use std::time::Duration;

use cpu_time::ProcessTime;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tonic::Status;

/// The outcome of a number of calls. Latencies are those of the calls that succeeded.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Outcome {
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) seconds: f64,
    /// The CPU time of all threads of the calling process.
    pub(crate) cpu_seconds: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    /// The first failure. Empty without one.
    pub(crate) why: String,
}

/// The statistics of the calls so far.
#[derive(Debug, Default)]
pub(super) struct CallStats {
    took: Vec<Duration>,
    failed: u64,
    why: String,
}

impl CallStats {
    pub(super) fn add(&mut self, took: Duration, answer: Result<(), Status>) {
        match answer {
            Ok(()) => self.took.push(took),
            Err(status) => {
                self.failed += 1;
                if self.why.is_empty() {
                    self.why = status.to_string();
                }
            }
        }
    }

    pub(super) fn join(&mut self, other: Self) {
        self.took.extend(other.took);
        self.failed += other.failed;
        if self.why.is_empty() {
            self.why = other.why;
        }
    }

    /// The given percentile of the latencies, in microseconds. The latencies have to be sorted.
    fn percentile(&self, part: f64) -> f64 {
        let index = (part * self.took.len() as f64) as usize;
        let took = self.took.get(index.min(self.took.len().saturating_sub(1)));
        took.map_or(0.0, |it| it.as_secs_f64() * 1e6)
    }
}

/// The wall-clock time and CPU time at the start of the calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    wall: Instant,
    cpu: ProcessTime,
}

impl Clocks {
    pub(super) fn start() -> Self {
        Self { wall: Instant::now(), cpu: ProcessTime::now() }
    }

    pub(super) fn outcome(self, mut stats: CallStats) -> Outcome {
        let (wall, cpu) = (self.wall.elapsed(), self.cpu.elapsed());
        stats.took.sort_unstable();
        Outcome {
            calls: stats.took.len() as u64 + stats.failed,
            failed: stats.failed,
            seconds: wall.as_secs_f64(),
            cpu_seconds: cpu.as_secs_f64(),
            p50_us: stats.percentile(0.5),
            p99_us: stats.percentile(0.99),
            p999_us: stats.percentile(0.999),
            why: stats.why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn latencies_are_of_the_calls_that_succeed() {
        let clocks = Clocks::start();
        let mut stats = CallStats::default();
        (1..=100).rev().for_each(|it| stats.add(Duration::from_micros(it), Ok(())));
        let mut other = CallStats::default();
        other.add(Duration::from_secs(9), Err(Status::unavailable("away")));
        other.add(Duration::from_secs(9), Err(Status::internal("odd")));
        stats.join(other);
        let outcome = clocks.outcome(stats);
        assert_eq!((outcome.calls, outcome.failed), (102, 2));
        assert_eq!((outcome.p50_us, outcome.p99_us, outcome.p999_us), (51.0, 100.0, 100.0));
        assert!(outcome.why.contains("away"), "{}", outcome.why);
    }

    #[tokio::test]
    async fn no_calls_have_latencies_of_zero() {
        let outcome = Clocks::start().outcome(CallStats::default());
        assert_eq!((outcome.calls, outcome.p50_us, outcome.p999_us), (0, 0.0, 0.0));
    }
}
