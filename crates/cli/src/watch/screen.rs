//! The live view on a terminal: tables, redrawn as they change, on the alternate screen.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Stdout, Write};
use std::panic;
use std::time::Duration;

use crossterm::style::{Color, Print, ResetColor, SetForegroundColor};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue};
use dogwatch::SharedInformer;
use dogwatch::api::EventKind;
use dogwatch::informer::{Change, HealthState};
use futures_util::stream::{self, SelectAll, StreamExt};
use jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior};

use super::keys::{EchoOff, Key, Keys};
use super::layout::Shape;
use super::live_table::{LiveTable, Marked, Window};
use super::name_filter::NameFilter;
use super::rows::{Columns, Row};
use super::stack;
use super::status::{self, StatusPrinter};
use crate::display_width::{cut, wrap};
use crate::sanitize::without_controls;

/// The interval at which the screen is redrawn after changes. Faster changes would not be readable.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);
/// The assumed size of a terminal that does not report one.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// Returns true if stdout is a terminal that can be drawn on.
pub(super) fn is_possible() -> bool {
    io::stdout().is_terminal() && !crate::terminal::is_dumb()
}

/// The collection of a table.
pub(super) struct Subject {
    /// For example `pods in default`.
    pub(super) title: String,
    /// The text in the place of an empty table.
    pub(super) nothing_found: String,
    pub(super) columns: Columns,
    pub(super) shape: Shape,
    pub(super) names: NameFilter,
}

/// One of the stacked tables.
pub(super) struct Pane {
    pub(super) informer: SharedInformer<Row>,
    subject: Subject,
    /// Prints status messages, if stderr is not the terminal.
    status_printer: Option<StatusPrinter>,
    table: LiveTable,
    window: Window,
    /// The last time at which the rows were those of the server.
    synced_at: Option<Instant>,
}

/// Shows the collections until an informer ends or the future is dropped; then the terminal is
/// restored, with the last picture on it.
pub(super) async fn show(mut panes: Vec<Pane>) -> anyhow::Result<()> {
    let mut changes = SelectAll::new();
    for (at, pane) in panes.iter().enumerate() {
        let all = pane.informer.changes()?.map(Some).chain(stream::once(std::future::ready(None)));
        changes.push(all.map(move |change| (at, change)).boxed());
        pane.informer.start();
    }
    let screen = Screen::enter()?;
    let mut keys = Keys::read(screen.echo_off.as_ref());
    if keys.are_read() {
        panes.iter_mut().for_each(|it| it.window = Window::at_top());
    }
    let mut view = LiveView { panes, selected: 0, screen };
    let mut draws = tokio::time::interval(DRAW_INTERVAL);
    draws.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // In this order, however fast the changes are.
            biased;
            key = keys.next() => match key {
                Key::Quit => return Ok(()),
                key => {
                    view.press(key);
                    view.draw(keys.are_read())?;
                }
            },
            _ = draws.tick() => {
                view.draw(keys.are_read())?;
                view.panes.iter_mut().for_each(Pane::print_status);
            }
            Some((at, change)) = changes.next() => view.panes[at].apply(change)?,
        }
    }
}

impl Pane {
    pub(super) fn new(
        informer: SharedInformer<Row>,
        subject: Subject,
        status_printer: Option<StatusPrinter>,
    ) -> Self {
        let (table, window) = (LiveTable::by_sort_key(), Window::Newest);
        Self { informer, subject, status_printer, table, window, synced_at: None }
    }

    /// Applies a change; `None` is the end of the informer.
    fn apply(&mut self, change: Option<Change<Row>>) -> anyhow::Result<()> {
        match change {
            Some(change) if self.subject.names.wants(change.object().as_ref()) => {
                self.table.change(&change, Instant::now());
            }
            Some(_) => {}
            None => {
                return Err(anyhow::anyhow!("{}", self.informer.health()).context("the informer has ended"));
            }
        }
        Ok(())
    }

    /// Returns the lines of the table. One that is empty, and known to be, says so.
    fn lines(&mut self, room: usize, times: (Instant, Timestamp)) -> Vec<Marked> {
        let mut lines = match self.table.is_empty() && self.synced_at.is_some() {
            true => vec![(None, without_controls(&self.subject.nothing_found))],
            false => {
                let (columns, shape) = (self.subject.columns.get(), self.subject.shape.clone());
                self.table.lines(columns, shape, room, &mut self.window, times)
            }
        };
        lines.truncate(room);
        lines
    }

    fn print_status(&mut self) {
        if let Some(status_printer) = &mut self.status_printer {
            status_printer.print_new(&self.informer.health());
        }
    }

    /// Returns the title, which says how far the rows can be trusted.
    fn title(&mut self, now: Instant) -> String {
        let health = self.informer.health();
        if health.state == HealthState::Synced {
            self.synced_at = Some(now);
        }
        self.table.forget(now);
        let since = self.synced_at.map(|it| now.duration_since(it));
        let mut title = status::title(&self.subject.title, self.table.len(), &health, since);
        let missing = self.subject.names.missing(|name| self.table.has(name));
        if !missing.is_empty() && since.is_some() {
            title.push_str(&format!("; waiting for {}", missing.join(", ")));
        }
        title
    }
}

/// The picture on the terminal, and its input.
struct LiveView {
    panes: Vec<Pane>,
    /// The pane that the keys scroll.
    selected: usize,
    screen: Screen,
}

impl LiveView {
    fn press(&mut self, key: Key) {
        match key {
            Key::Next => self.selected = (self.selected + 1) % self.panes.len().max(1),
            key => self.panes[self.selected].window.scroll(key),
        }
    }

    fn draw(&mut self, has_keys: bool) -> io::Result<()> {
        let now = Instant::now();
        let Self { panes, selected, screen } = self;
        let is_one = panes.len() == 1;
        let titles = panes.iter_mut().enumerate().map(|(at, pane)| {
            let keys = match (at, has_keys) {
                (0, true) if is_one => "; q quits",
                (0, true) => "; Tab selects a table, q quits",
                (0, false) => "; Ctrl-C quits",
                _ => "",
            };
            let mark = if at == *selected && has_keys && !is_one { "> " } else { "" };
            without_controls(&format!("{mark}{}{keys}", pane.title(now)))
        });
        let titles: Vec<_> = titles.collect();
        screen.draw(|width, height| {
            let titles: Vec<_> = titles.iter().map(|it| wrap(it, width)).collect();
            // One empty line for each title: below it, or between two tables.
            let used: usize = titles.iter().map(|it| it.len().saturating_add(1)).sum();
            let needs: Vec<_> = panes.iter().map(|it| it.table.height()).collect();
            let rooms = stack::divide(height.saturating_sub(used), &needs);
            let times = (now, Timestamp::now());
            let mut lines: Vec<Marked> = Vec::new();
            for (at, (pane, title)) in panes.iter_mut().zip(titles).enumerate() {
                if at > 0 {
                    lines.push((None, String::new()));
                }
                lines.extend(title.into_iter().map(|it| (None, it)));
                if is_one {
                    lines.push((None, String::new()));
                }
                lines.extend(pane.lines(rooms[at], times));
            }
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
        for (_, line) in &mut lines {
            if let Cow::Owned(shorter) = cut(line, width) {
                *line = shorter;
            }
        }
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::pseudo_terminal;

    /// Runs itself again on a terminal, where it panics while the screen is shown.
    #[tokio::test]
    async fn a_panic_restores_the_terminal_before_it_is_reported() {
        const MESSAGE: &str = "a bug of the view";
        if pseudo_terminal::is_on_terminal() {
            let _screen = Screen::enter().expect("a terminal");
            panic!("{MESSAGE}");
        }
        let test = "a_panic_restores_the_terminal_before_it_is_reported";
        let left = pseudo_terminal::run_again(module_path!(), test).await;
        pseudo_terminal::assert_restored(&left, MESSAGE);
    }
}
