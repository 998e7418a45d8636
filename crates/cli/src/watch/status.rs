//! The status messages of a watch on stderr: the progress of the first list, problems that keep the
//! cache from syncing, and their resolution. Each is printed once.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use dogwatch::informer::{Health, HealthState};
use dogwatch::{Object, SharedInformer};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::sanitize::without_controls;

/// The interval at which the health of the informer is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// The interval of progress messages if stderr is not a terminal. On a terminal one line is
/// overwritten.
const PROGRESS: Duration = Duration::from_secs(2);

/// Formats changes of the health of an informer as lines.
#[derive(Debug)]
pub(super) struct StatusMessages {
    /// The name of the resource.
    what: String,
    /// The interval at which a removed collection is requested again.
    retry_interval: Duration,
    /// The last printed problem, if it persists.
    problem: Option<String>,
    gone: bool,
    poison: u64,
}

impl StatusMessages {
    pub(super) fn new(what: &str, retry_interval: Duration) -> Self {
        Self { what: what.to_owned(), retry_interval, problem: None, gone: false, poison: 0 }
    }

    /// Returns the lines that were not printed yet.
    pub(super) fn lines(&mut self, health: &Health) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(problem) = &health.problem
            && self.problem.as_ref() != Some(&problem.message)
        {
            lines.push(problem.message.clone());
            self.problem = Some(problem.message.clone());
        }
        let (what, retry_interval) = (&self.what, self.retry_interval);
        match health.state {
            HealthState::NotServed if !self.gone => {
                lines.push(format!("{what} is no longer served; retrying every {retry_interval:?}"));
                self.gone = true;
            }
            HealthState::Synced if self.gone => {
                lines.push(format!("{what} is served again"));
                (self.gone, self.problem) = (false, None);
            }
            HealthState::Synced if health.problem.is_none() && self.problem.is_some() => {
                lines.push(format!("{what} is synced again"));
                self.problem = None;
            }
            _ => {}
        }
        if let Some(bad) =
            health.last_decode_failure.as_ref().filter(|_| health.decode_failures > self.poison)
        {
            lines.push(format!("skipped: {bad}"));
        }
        self.poison = health.decode_failures;
        // Much of the text comes from the server.
        lines.iter().map(|it| without_controls(it)).collect()
    }

    /// Returns the progress of the list, while there is one.
    pub(super) fn progress(&self, health: &Health) -> Option<String> {
        match health.state {
            HealthState::Listing { items } => Some(format!("{}: {items} objects so far", self.what)),
            _ => None,
        }
    }
}

/// Returns a title with the number of objects and how far it can be trusted. `since` is the time
/// since the cache was last synced.
pub(crate) fn title(what: &str, count: usize, health: &Health, since: Option<Duration>) -> String {
    let objects = if count == 1 { "object" } else { "objects" };
    match (&health.state, since) {
        (HealthState::Synced, _) => format!("{what}: {count} {objects}, {health}"),
        (_, None) => format!("{what}: not synced yet ({health})"),
        (_, Some(since)) => {
            let seconds = since.as_secs();
            format!("{what}: NOT SYNCED for {seconds}s, {count} {objects} as of then ({health})")
        }
    }
}

/// Prints status messages of an informer on stderr.
pub(super) struct StatusPrinter {
    messages: StatusMessages,
    checks: Interval,
    terminal: bool,
    /// The time of the next progress message, if stderr is not a terminal.
    next: Instant,
    /// Set while a progress line is on the terminal.
    progress_shown: bool,
}

impl StatusPrinter {
    /// Creates a printer. A line of progress is not overwritten among those of other collections.
    pub(super) fn new(messages: StatusMessages, is_one_of_several: bool) -> Self {
        let mut checks = tokio::time::interval_at(Instant::now() + CHECK_INTERVAL, CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let next = Instant::now() + PROGRESS;
        // A line is overwritten with an escape sequence.
        let terminal = io::stderr().is_terminal() && !crate::terminal::is_dumb() && !is_one_of_several;
        Self { messages, checks, terminal, next, progress_shown: false }
    }

    /// Waits for the next check, and prints new messages.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub(super) async fn next<T: Object>(&mut self, informer: &SharedInformer<T>) {
        self.checks.tick().await;
        self.print_new(&informer.health());
    }

    /// Prints new messages.
    pub(super) fn print_new(&mut self, health: &Health) {
        // If stderr is closed, the messages are lost.
        let mut err = io::stderr().lock();
        for line in self.messages.lines(health) {
            self.clear(&mut err);
            let _ = writeln!(err, "{line}");
        }
        match self.messages.progress(health) {
            Some(progress) if self.terminal => {
                let _ = write!(err, "\r{progress}\x1b[K");
                self.progress_shown = true;
            }
            Some(progress) if Instant::now() >= self.next => {
                let _ = writeln!(err, "{progress}");
                self.next = Instant::now() + PROGRESS;
            }
            Some(_) => {}
            None => self.clear(&mut err),
        }
    }

    /// Clears the progress line.
    fn clear(&mut self, err: &mut impl Write) {
        if std::mem::take(&mut self.progress_shown) {
            let _ = write!(err, "\r\x1b[K");
        }
    }
}

impl Drop for StatusPrinter {
    fn drop(&mut self) {
        self.clear(&mut io::stderr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(state: HealthState) -> Health {
        let mut health = Health::default();
        health.state = state;
        health
    }

    fn printed(messages: &mut StatusMessages, health: &Health) -> Vec<String> {
        messages.lines(health)
    }

    #[test]
    fn the_removal_and_the_return_of_a_definition_are_each_printed_once() {
        let mut messages = StatusMessages::new("widgets.example.com", Duration::from_secs(5));
        assert_eq!(printed(&mut messages, &health(HealthState::Synced)), [] as [&str; 0]);
        let gone = "widgets.example.com is no longer served; retrying every 5s";
        assert_eq!(printed(&mut messages, &health(HealthState::NotServed)), [gone]);
        assert_eq!(printed(&mut messages, &health(HealthState::NotServed)), [] as [&str; 0]);
        assert_eq!(printed(&mut messages, &health(HealthState::Starting)), [] as [&str; 0]);
        assert_eq!(printed(&mut messages, &health(HealthState::NotServed)), [] as [&str; 0]);
        let back = "widgets.example.com is served again";
        assert_eq!(printed(&mut messages, &health(HealthState::Synced)), [back]);
        assert_eq!(printed(&mut messages, &health(HealthState::Synced)), [] as [&str; 0]);
    }

    #[test]
    fn a_title_never_shows_old_objects_as_those_of_the_server() {
        let seconds = |it| Some(Duration::from_secs(it));
        let retrying = HealthState::Retrying { since: Instant::now(), attempts: 2, next: Instant::now() };
        for (state, count, since, expected) in [
            (HealthState::Starting, 0, None, "pods: not synced yet (starting)"),
            (HealthState::Synced, 1, seconds(0), "pods: 1 object, synced"),
            (
                retrying,
                3,
                seconds(42),
                "pods: NOT SYNCED for 42s, 3 objects as of then (retrying after 2 failures)",
            ),
            (
                HealthState::NotServed,
                0,
                seconds(9),
                "pods: NOT SYNCED for 9s, 0 objects as of then (not served)",
            ),
        ] {
            assert_eq!(title("pods", count, &health(state), since), expected);
        }
    }

    #[test]
    fn progress_is_printed_during_a_list() {
        let messages = StatusMessages::new("pods", Duration::ZERO);
        let listing = health(HealthState::Listing { items: 1500 });
        assert_eq!(messages.progress(&listing).as_deref(), Some("pods: 1500 objects so far"));
        assert_eq!(messages.progress(&health(HealthState::Synced)), None);
    }
}
