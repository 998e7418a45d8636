//! The output of the demo: headlines, what the demo does, what it then measures, and tables.
//!
//! The text is the same everywhere. A terminal adds colours, and pauses to read each line. It knows
//! nothing of the acts; `mod.rs` prints its lines.

use std::io::{self, IsTerminal};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::wrapping::wrapped;
use crate::terminal;

/// The number of lines that may wait to be printed; then the story waits too.
const QUEUE_LENGTH: usize = 16;
/// The time to read a line, on a terminal.
const READING_TIME: Duration = Duration::from_millis(250);

/// The settings of the output.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    pub(super) colour: bool,
    /// The width at which lines are broken at words; `None` for a pipe or a file.
    pub(super) width: Option<usize>,
    /// Pauses after each line.
    pub(super) pauses: bool,
    /// Prints only headlines and tables.
    pub(super) quiet: bool,
}

/// The kind of a line, which is its colour.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ink {
    Headline,
    Action,
    Plain,
    Faint,
}

/// Formats the lines of the story.
#[derive(Debug)]
pub(super) struct Stage {
    look: Look,
    began: Instant,
    lines: mpsc::Sender<String>,
}

impl Look {
    /// Returns the settings that suit stdout.
    pub(super) fn of_stdout(quiet: bool) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let width = || crossterm::terminal::size().map_or(80, |it| usize::from(it.0)).clamp(40, 100);
        Self {
            colour: is_terminal && terminal::allows_colour(),
            width: is_terminal.then(width),
            pauses: is_terminal && !quiet,
            quiet,
        }
    }

    /// Returns the text in its colour.
    pub(super) fn paint(self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Headline => "1;36",
            Ink::Action => "33",
            Ink::Faint => "2",
            Ink::Plain => return text.to_owned(),
        };
        if self.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

impl Stage {
    /// Creates a stage, and the receiver of its lines.
    pub(super) fn new(look: Look, began: Instant) -> (Self, mpsc::Receiver<String>) {
        let (lines, receiver) = mpsc::channel(QUEUE_LENGTH);
        (Self { look, began, lines }, receiver)
    }

    pub(super) fn look(&self) -> Look {
        self.look
    }

    /// Returns the time since the demo was started.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Prints the headline of an act, and a sentence on what it shows.
    pub(super) async fn headline(&self, number: usize, title: &str, about: &str) {
        let gap = if self.look.quiet { "" } else { "\n" };
        let title = self.look.paint(Ink::Headline, &format!("ACT {number}: {title}"));
        self.print(format!("{gap}{title}\n")).await;
        if !self.look.quiet {
            self.print(format!("{}\n", wrapped(about, self.look.width, 0))).await;
            self.pause().await;
        }
    }

    /// Prints an action of the demo: the cause of what follows.
    pub(super) async fn does(&self, text: impl AsRef<str>) {
        self.line("> ", Ink::Action, text.as_ref()).await;
    }

    /// Prints a measured fact.
    pub(super) async fn finds(&self, text: impl AsRef<str>) {
        self.line("  ", Ink::Plain, text.as_ref()).await;
    }

    /// Prints a text as it is, also if the demo is quiet.
    pub(super) async fn print(&self, text: String) {
        // The receiver is gone only when the demo ends.
        let _ = self.lines.send(text).await;
    }

    async fn line(&self, mark: &str, ink: Ink, text: &str) {
        if self.look.quiet {
            return;
        }
        let time = format!("{:5.1}s", self.elapsed().as_secs_f64());
        let indent = time.len() + 1 + mark.len();
        let text = format!("{mark}{}", wrapped(text, self.look.width, indent));
        let (time, text) = (self.look.paint(Ink::Faint, &time), self.look.paint(ink, &text));
        self.print(format!("{time} {text}\n")).await;
        self.pause().await;
    }

    async fn pause(&self) {
        if self.look.pauses {
            tokio::time::sleep(READING_TIME).await;
        }
    }
}

/// Formats a count, such as `1 pod`, `2 pods` and `2 Ingresses`.
pub(super) fn counted(count: usize, of: &str) -> String {
    let ending = match count {
        1 => "",
        _ if of.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {of}{ending}", grouped(count))
}

/// Formats a number with a comma every three digits.
pub(super) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats names as a list, such as `a, b and c`.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.split_last() {
        None => "none".to_owned(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

/// Formats a duration as seconds, or as milliseconds if it is short.
pub(super) fn took(duration: Duration) -> String {
    if duration < Duration::from_millis(100) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn printed(look: Look) -> Vec<String> {
        let (stage, mut lines) = Stage::new(look, Instant::now());
        tokio::time::advance(Duration::from_millis(1500)).await;
        stage.headline(1, "Title", "About it.").await;
        stage.does("A pod is created.").await;
        stage.finds("It is ready.").await;
        stage.print("table\n".to_owned()).await;
        drop(stage);
        let mut printed = Vec::new();
        while let Some(line) = lines.recv().await {
            printed.push(line);
        }
        printed
    }

    #[tokio::test(start_paused = true)]
    async fn lines_have_their_time_and_actions_a_mark() {
        let expected = [
            "\nACT 1: Title\n",
            "About it.\n",
            "  1.5s > A pod is created.\n",
            "  1.5s   It is ready.\n",
            "table\n",
        ];
        assert_eq!(printed(Look::default()).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn lines_are_broken_at_words_on_a_narrow_terminal() {
        let narrow = Look { width: Some(20), ..Look::default() };
        let lines = printed(narrow).await;
        assert_eq!(
            lines[2..4],
            ["  1.5s > A pod is\n         created.\n", "  1.5s   It is\n         ready.\n"]
        );
        assert!(lines.iter().flat_map(|it| it.lines()).all(|it| it.len() <= 20), "{lines:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stage_prints_headlines_and_tables() {
        let quiet = Look { quiet: true, ..Look::default() };
        assert_eq!(printed(quiet).await, ["ACT 1: Title\n", "table\n"]);
    }

    #[tokio::test(start_paused = true)]
    async fn colours_and_pauses_change_no_text() {
        let look = Look { colour: true, width: Some(80), pauses: true, quiet: false };
        let lines = printed(look).await;
        assert_eq!(lines[0], "\n\x1b[1;36mACT 1: Title\x1b[0m\n");
        assert!(
            lines[2].starts_with("\x1b[2m  ")
                && lines[2].ends_with("s\x1b[0m \x1b[33m> A pod is created.\x1b[0m\n")
        );
        assert!(lines[3].ends_with("s\x1b[0m   It is ready.\n"), "{:?}", lines[3]);
    }

    #[test]
    fn numbers_and_lists_are_formatted_for_readers() {
        assert_eq!([0, 1, 2].map(|it| counted(it, "pod")), ["0 pods", "1 pod", "2 pods"]);
        assert_eq!([1, 2].map(|it| counted(it, "Ingress")), ["1 Ingress", "2 Ingresses"]);
        assert_eq!([7, 1000, 1_234_567].map(grouped), ["7", "1,000", "1,234,567"]);
        assert_eq!(listed(["a", "b", "c"]), "a, b and c");
        assert_eq!((listed(["a"]), listed([])), ("a".to_owned(), "none".to_owned()));
        assert_eq!(took(Duration::from_millis(12)), "12 ms");
        assert_eq!(took(Duration::from_millis(1234)), "1.2 s");
    }
}
