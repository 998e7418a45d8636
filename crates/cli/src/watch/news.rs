//! What a person is told beside the objects: how far the first list has come, what keeps the copy from being in step, and when that is
//! over. Each thing once.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use dogwatch::{Health, HealthState, Object, SharedInformer};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::sanitize::without_controls;

/// How often the informer is asked how it is doing.
const LOOK: Duration = Duration::from_millis(200);
/// How often the progress is told where lines stay. On a terminal it is one line that is written over.
const PROGRESS: Duration = Duration::from_secs(2);

/// What is new about the health of an informer, as lines.
#[derive(Debug)]
pub(super) struct News {
    /// What is followed, as the user would name it.
    what: String,
    /// How often a collection that is gone is asked for.
    again: Duration,
    /// The problem that was told last and is not over.
    problem: Option<String>,
    gone: bool,
    poison: u64,
}

impl News {
    pub(super) fn new(what: &str, again: Duration) -> Self {
        Self { what: what.to_owned(), again, problem: None, gone: false, poison: 0 }
    }

    /// What was not told yet.
    pub(super) fn lines(&mut self, health: &Health) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(problem) = &health.problem
            && self.problem.as_ref() != Some(&problem.message)
        {
            lines.push(problem.message.clone());
            self.problem = Some(problem.message.clone());
        }
        let (what, again) = (&self.what, self.again);
        match health.state {
            HealthState::Gone if !self.gone => {
                lines.push(format!("{what} is not served any more: asking again every {again:?}"));
                self.gone = true;
            }
            HealthState::Synced if self.gone => {
                lines.push(format!("{what} is served again"));
                (self.gone, self.problem) = (false, None);
            }
            HealthState::Synced if health.problem.is_none() && self.problem.is_some() => {
                lines.push(format!("{what} is in step again"));
                self.problem = None;
            }
            _ => {}
        }
        if let Some(bad) = health.last_poison.as_ref().filter(|_| health.poison > self.poison) {
            lines.push(format!("skipped: {bad}"));
        }
        self.poison = health.poison;
        // Much of it is what the server said.
        lines.iter().map(|it| without_controls(it)).collect()
    }

    /// How far the list has come, while there is one.
    pub(super) fn progress(&self, health: &Health) -> Option<String> {
        match health.state {
            HealthState::Listing { items } => Some(format!("{}: {items} objects so far", self.what)),
            _ => None,
        }
    }
}

/// Tells the news of an informer on stderr, as they arise.
pub(super) struct Bulletin {
    news: News,
    looks: Interval,
    terminal: bool,
    /// Where lines stay: when the next progress is told.
    next: Instant,
    /// Whether a line of progress stands on the terminal.
    standing: bool,
}

impl Bulletin {
    pub(super) fn new(news: News) -> Self {
        let mut looks = tokio::time::interval_at(Instant::now() + LOOK, LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let next = Instant::now() + PROGRESS;
        Self { news, looks, terminal: io::stderr().is_terminal(), next, standing: false }
    }

    /// Waits until it is time to look again, and tells what is new. It may be dropped at any time.
    pub(super) async fn next<T: Object>(&mut self, informer: &SharedInformer<T>) {
        self.looks.tick().await;
        self.look(&informer.health());
    }

    /// Tells what is new.
    pub(super) fn look(&mut self, health: &Health) {
        // If stderr is gone there is nobody to tell.
        let mut err = io::stderr().lock();
        for line in self.news.lines(health) {
            self.clear(&mut err);
            let _ = writeln!(err, "{line}");
        }
        match self.news.progress(health) {
            Some(progress) if self.terminal => {
                let _ = write!(err, "\r{progress}\x1b[K");
                self.standing = true;
            }
            Some(progress) if Instant::now() >= self.next => {
                let _ = writeln!(err, "{progress}");
                self.next = Instant::now() + PROGRESS;
            }
            Some(_) => {}
            None => self.clear(&mut err),
        }
    }

    /// Takes the line of progress away.
    fn clear(&mut self, err: &mut impl Write) {
        if std::mem::take(&mut self.standing) {
            let _ = write!(err, "\r\x1b[K");
        }
    }
}

impl Drop for Bulletin {
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

    fn told(news: &mut News, health: &Health) -> Vec<String> {
        news.lines(health)
    }

    #[test]
    fn a_definition_that_goes_and_comes_back_is_told_once_each() {
        let mut news = News::new("widgets.example.com", Duration::from_secs(5));
        assert_eq!(told(&mut news, &health(HealthState::Synced)), [] as [&str; 0]);
        let gone = "widgets.example.com is not served any more: asking again every 5s";
        assert_eq!(told(&mut news, &health(HealthState::Gone)), [gone]);
        assert_eq!(told(&mut news, &health(HealthState::Gone)), [] as [&str; 0]);
        assert_eq!(told(&mut news, &health(HealthState::Starting)), [] as [&str; 0]);
        assert_eq!(told(&mut news, &health(HealthState::Gone)), [] as [&str; 0]);
        let back = "widgets.example.com is served again";
        assert_eq!(told(&mut news, &health(HealthState::Synced)), [back]);
        assert_eq!(told(&mut news, &health(HealthState::Synced)), [] as [&str; 0]);
    }

    #[test]
    fn progress_is_told_while_a_list_comes_in() {
        let news = News::new("pods", Duration::ZERO);
        let listing = health(HealthState::Listing { items: 1500 });
        assert_eq!(news.progress(&listing).as_deref(), Some("pods: 1500 objects so far"));
        assert_eq!(news.progress(&health(HealthState::Synced)), None);
    }
}
