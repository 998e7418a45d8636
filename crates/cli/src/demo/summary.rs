//! The summary at the end: a line for each act, with its outcome as far as the story got.

use std::fmt::Write as _;
use std::time::Duration;

use super::acts::ACTS;
use super::stage::{Ink, Look};
use super::wrapping::wrapped;

/// The column in which the outcomes begin.
const OUTCOME: usize = 31;

/// The outcomes of the acts so far.
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// The outcomes of the finished acts, in order.
    outcomes: Vec<String>,
    /// Set while the next act is being played.
    is_playing: bool,
}

impl Summary {
    /// Records that the next act begins.
    pub(super) fn begin_act(&mut self) {
        self.is_playing = true;
    }

    /// Records the outcome of the act that is being played.
    pub(super) fn end_act(&mut self, outcome: String) {
        self.is_playing = false;
        self.outcomes.push(outcome);
    }

    /// Returns the number of finished acts.
    pub(super) fn finished(&self) -> usize {
        self.outcomes.len()
    }

    /// Formats the summary.
    pub(super) fn text(&self, look: Look, elapsed: Duration) -> String {
        let title = format!("SUMMARY after {:.1} s", elapsed.as_secs_f64());
        let mut text = format!("\n{}\n", look.paint(Ink::Headline, &title));
        for (index, (title, _)) in ACTS.iter().enumerate() {
            let outcome = match self.outcomes.get(index) {
                Some(outcome) => outcome,
                None if self.is_playing && index == self.outcomes.len() => "interrupted",
                None => "not reached",
            };
            let outcome = wrapped(outcome, look.width, OUTCOME);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {} {title:26} {outcome}", index + 1);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_that_did_not_finish_are_named() {
        let mut summary = Summary::default();
        summary.begin_act();
        summary.end_act("3 pods".to_owned());
        summary.begin_act();
        let text = summary.text(Look::default(), Duration::from_millis(1250));
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines[0], "SUMMARY after 1.2 s");
        assert_eq!(lines[1], "  1 List, then watch           3 pods");
        assert_eq!(lines[2], "  2 The connection is cut      interrupted");
        assert_eq!(lines[6], "  6 A handler is slow          not reached");
        let narrow = summary.text(Look { width: Some(38), ..Look::default() }, Duration::ZERO);
        assert!(narrow.contains("slow          not\n                               reached\n"), "{narrow}");
    }
}
