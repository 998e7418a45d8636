//! The observations, line by line with their time, and a summary at the end.

use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

/// The time within which an expectation has to be met. Controllers back off for up to half a
/// minute.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The interval at which an expectation is checked.
const POLL: Duration = Duration::from_millis(100);

/// The observations so far.
#[derive(Debug)]
pub(super) struct Report {
    start: Instant,
    seen: usize,
    missed: Vec<String>,
}

impl Report {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), seen: 0, missed: Vec::new() }
    }

    /// Prints a line without a verdict.
    pub(super) fn note(&self, what: &str) {
        println!("[{:5.1} s]        {what}", self.start.elapsed().as_secs_f32());
    }

    /// Repeats `observe` until it returns an observation, and prints that. An expectation that is
    /// not met in time is printed as missed, with the last reason. Returns true if it was met; the
    /// scenario continues either way.
    pub(super) async fn expect(
        &mut self,
        what: &str,
        mut observe: impl AsyncFnMut() -> Result<Observation>,
    ) -> bool {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let unseen = match observe().await {
                Ok(Observation::Seen(seen)) => {
                    self.seen += 1;
                    println!("[{:5.1} s] seen   {what}: {seen}", self.start.elapsed().as_secs_f32());
                    return true;
                }
                Ok(Observation::NotYet(why)) => why,
                Err(error) => format!("{error:#}"),
            };
            if Instant::now() >= deadline {
                println!("[{:5.1} s] MISSED {what}: {unseen}", self.start.elapsed().as_secs_f32());
                self.missed.push(what.to_owned());
                return false;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Prints the summary. Returns true if all expectations were met.
    pub(super) fn finish(&self) -> bool {
        let all = self.seen + self.missed.len();
        println!("{} of {all} seen in {:.0} s", self.seen, self.start.elapsed().as_secs_f32());
        for missed in &self.missed {
            println!("missed: {missed}");
        }
        self.missed.is_empty()
    }
}

/// The result of a check.
#[derive(Debug)]
pub(super) enum Observation {
    /// The expectation is met: a description of the state.
    Seen(String),
    /// The expectation is not met yet: the state instead.
    NotYet(String),
}

/// Returns [`Observation::Seen`] if `seen` is true, and [`Observation::NotYet`] otherwise, with the
/// same description.
pub(super) fn observed_if(seen: bool, what: impl Into<String>) -> Result<Observation> {
    Ok(if seen { Observation::Seen(what.into()) } else { Observation::NotYet(what.into()) })
}
