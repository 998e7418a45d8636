//! The live view on a terminal: the table, redrawn as it changes, on the alternate screen.

use std::io::{self, IsTerminal, Stdout, Write};
use std::panic;
use std::time::Duration;

use crossterm::style::{Color, Print, ResetColor, SetForegroundColor};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue};
use dogwatch::SharedInformer;
use dogwatch::api::EventKind;
use dogwatch::informer::{Health, HealthState};
use futures_util::StreamExt;
use jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior};
use unicode_width::UnicodeWidthChar;

use super::keys::{EchoOff, Key, Keys};
use super::layout::Shape;
use super::live_table::{LiveTable, Marked, Window};
use super::name_filter::NameFilter;
use super::rows::{Columns, Row};
use super::status::{self, StatusPrinter};
use crate::sanitize::without_controls;

/// The interval at which the screen is redrawn after changes. Faster changes would not be readable.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);
/// The assumed size of a terminal that does not report one.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// Returns true if stdout is a terminal that can be drawn on.
pub(super) fn is_possible() -> bool {
    io::stdout().is_terminal() && !crate::terminal::is_dumb()
}

/// The collection of the table.
pub(super) struct Subject {
    /// For example `pods in default`.
    pub(super) title: String,
    pub(super) columns: Columns,
    pub(super) shape: Shape,
    pub(super) names: NameFilter,
}

/// Shows the collection until the informer ends or the future is dropped; then the terminal is
/// restored, with the last picture on it. If stderr is not the terminal, status messages also go
/// there.
pub(super) async fn show(
    informer: &SharedInformer<Row>,
    subject: &Subject,
    mut status_printer: Option<StatusPrinter>,
) -> anyhow::Result<()> {
    let mut changes = informer.changes()?;
    informer.start();
    let screen = Screen::enter()?;
    let mut keys = Keys::read(screen.echo_off.as_ref());
    let window = if keys.are_read() { Window::at_top() } else { Window::Newest };
    let mut view = LiveView { subject, screen, table: LiveTable::default(), window, synced_at: None };
    let mut draws = tokio::time::interval(DRAW_INTERVAL);
    draws.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // In this order, however fast the changes are.
            biased;
            key = keys.next() => match key {
                Key::Quit => return Ok(()),
                key => {
                    view.window.scroll(key);
                    view.draw(&informer.health(), keys.are_read())?;
                }
            },
            _ = draws.tick() => {
                let health = informer.health();
                view.draw(&health, keys.are_read())?;
                if let Some(status_printer) = &mut status_printer {
                    status_printer.print_new(&health);
                }
            }
            change = changes.next() => match change {
                Some(change) if subject.names.wants(change.object().as_ref()) => {
                    view.table.change(&change, Instant::now());
                }
                Some(_) => {}
                None => anyhow::bail!("the informer has ended: {}", informer.health()),
            },
        }
    }
}

/// The picture on the terminal, and its input.
struct LiveView<'a> {
    subject: &'a Subject,
    screen: Screen,
    table: LiveTable,
    window: Window,
    /// The last time at which the rows were those of the server.
    synced_at: Option<Instant>,
}

impl LiveView<'_> {
    fn draw(&mut self, health: &Health, has_keys: bool) -> io::Result<()> {
        let now = Instant::now();
        if health.state == HealthState::Synced {
            self.synced_at = Some(now);
        }
        let Self { subject, screen, table, window, synced_at } = self;
        table.forget(now);
        let since = synced_at.map(|it| now.duration_since(it));
        let mut title = status::title(&subject.title, table.len(), health, since);
        let missing = subject.names.missing(|name| table.has(name));
        if !missing.is_empty() && since.is_some() {
            title.push_str(&format!("; waiting for {}", missing.join(", ")));
        }
        title.push_str(if has_keys { "; q quits" } else { "; Ctrl-C quits" });
        let title = without_controls(&title);
        screen.draw(|width, height| {
            let mut lines: Vec<Marked> = wrap(&title, width).into_iter().map(|it| (None, it)).collect();
            lines.push((None, String::new()));
            let room = height.saturating_sub(lines.len());
            let (columns, times) = (subject.columns.get(), (now, Timestamp::now()));
            lines.extend(table.lines(columns, subject.shape, room, window, times));
            lines
        })
    }
}

/// The terminal, while the live view is active.
struct Screen {
    out: Stdout,
    coloured: bool,
    /// Restores the echo of the terminal, if it was turned off.
    echo_off: Option<EchoOff>,
    /// The size of the terminal at the last drawing, and its lines.
    shown: ((u16, u16), Vec<Marked>),
}

impl Screen {
    fn enter() -> io::Result<Self> {
        let echo_off = EchoOff::enter();
        let (before, echo) = (panic::take_hook(), echo_off.clone());
        panic::set_hook(Box::new(move |panic| {
            // The panic message would disappear with the alternate screen.
            let _ = leave(&mut io::stdout());
            echo.iter().for_each(EchoOff::leave);
            before(panic);
        }));
        let out = io::stdout();
        let coloured = crate::terminal::allows_colour();
        let mut screen = Self { out, coloured, echo_off, shown: Default::default() };
        execute!(screen.out, EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Draws the lines that fit, unless they are already shown.
    fn draw(&mut self, lines: impl FnOnce(usize, usize) -> Vec<Marked>) -> io::Result<()> {
        // A serial line, or a terminal in a container, may report a size of zero.
        let size = terminal::size().ok().filter(|it| it.0 > 0 && it.1 > 0).unwrap_or(DEFAULT_SIZE);
        let (width, height) = (usize::from(size.0), usize::from(size.1));
        let mut lines = lines(width, height);
        lines.truncate(height);
        lines.iter_mut().for_each(|(_, line)| cut(line, width));
        if self.shown.0 == size && self.shown.1 == lines {
            return Ok(());
        }
        for (at, (event, line)) in (0u16..).zip(&lines) {
            // Cleared before it is written: after a line that fills the row, its last character
            // would be cleared too.
            queue!(self.out, cursor::MoveTo(0, at), Clear(ClearType::UntilNewLine))?;
            match colour(*event).filter(|_| self.coloured) {
                Some(colour) => queue!(self.out, SetForegroundColor(colour), Print(line), ResetColor)?,
                None => queue!(self.out, Print(line))?,
            }
        }
        if lines.len() < height {
            queue!(self.out, cursor::MoveTo(0, lines.len() as u16), Clear(ClearType::FromCursorDown))?;
        }
        self.shown = (size, lines);
        self.out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone there is nothing to restore.
        let _ = leave(&mut self.out);
        self.echo_off.iter().for_each(EchoOff::leave);
        for (_, line) in &self.shown.1 {
            let _ = writeln!(self.out, "{line}");
        }
    }
}

fn leave(out: &mut Stdout) -> io::Result<()> {
    execute!(out, ResetColor, LeaveAlternateScreen, cursor::Show)
}

fn colour(event: Option<EventKind>) -> Option<Color> {
    match event? {
        EventKind::Added => Some(Color::Green),
        EventKind::Modified => Some(Color::Yellow),
        EventKind::Deleted => Some(Color::Red),
        _ => None,
    }
}

/// Truncates a line to a number of terminal columns, and marks a line that was longer.
fn cut(line: &mut String, width: usize) {
    if fitting(line, width) < line.len() {
        line.truncate(fitting(line, width.saturating_sub(1)));
        line.push('…');
    }
}

/// Wraps a text into lines of at most `width` columns.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        // At least one character, however narrow the terminal is.
        let end = fitting(rest, width).max(rest.chars().next().map_or(0, char::len_utf8));
        let (line, more) = rest.split_at(end);
        lines.push(line.to_owned());
        rest = more;
    }
    lines
}

/// Returns the number of bytes of a text that fit into `width` columns.
fn fitting(text: &str, width: usize) -> usize {
    let mut used = 0;
    let too_wide = text.char_indices().find(|(_, it)| {
        used += it.width().unwrap_or(0);
        used > width
    });
    too_wide.map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_truncated_and_texts_wrapped_by_their_display_width() {
        for (text, width, cut_to, wrapped) in [
            ("abc", 5, "abc", &["abc"][..]),
            ("abcdefg", 3, "ab…", &["abc", "def", "g"]),
            ("日本語", 4, "日…", &["日本", "語"]),
            ("日", 1, "…", &["日"]),
            ("", 3, "", &[]),
        ] {
            let mut line = text.to_owned();
            cut(&mut line, width);
            assert_eq!(line, cut_to);
            assert_eq!(wrap(text, width), wrapped);
        }
    }
}
