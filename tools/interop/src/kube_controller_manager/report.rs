//! What was seen, line by line, with the time it took, and a summary at the end.

use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

/// How long something may take to happen. Controllers back off for up to half a minute.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often we look.
const POLL: Duration = Duration::from_millis(100);

/// What was seen so far.
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

    /// Says something that is neither good nor bad.
    pub(super) fn note(&self, what: &str) {
        println!("[{:5.1} s]        {what}", self.start.elapsed().as_secs_f32());
    }

    /// Looks again and again until `look` says what it sees, and reports that. What it does not see in time is reported as
    /// missed, with its last word on why; the story goes on either way, and hears whether it was seen.
    pub(super) async fn expect(&mut self, what: &str, mut look: impl AsyncFnMut() -> Result<Look>) -> bool {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let unseen = match look().await {
                Ok(Look::Seen(seen)) => {
                    self.seen += 1;
                    println!("[{:5.1} s] seen   {what}: {seen}", self.start.elapsed().as_secs_f32());
                    return true;
                }
                Ok(Look::NotYet(why)) => why,
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

    /// Prints the summary. Whether all was seen.
    pub(super) fn finish(&self) -> bool {
        let all = self.seen + self.missed.len();
        println!("{} of {all} seen in {:.0} s", self.seen, self.start.elapsed().as_secs_f32());
        for missed in &self.missed {
            println!("missed: {missed}");
        }
        self.missed.is_empty()
    }
}

/// What a look gives.
#[derive(Debug)]
pub(super) enum Look {
    /// It is there: how it looks.
    Seen(String),
    /// It is not there yet: what is there instead.
    NotYet(String),
}

/// Seen if so, and in any case what there is.
pub(super) fn seen_if(seen: bool, what: impl Into<String>) -> Result<Look> {
    Ok(if seen { Look::Seen(what.into()) } else { Look::NotYet(what.into()) })
}
