//! The terminal while the view is shown: raw mode, the alternate screen, its size and its keys.
//!
//! It is restored when the screen is dropped, which also happens on a signal, and before a panic is
//! reported.

use std::io::{self, BufWriter, IsTerminal, Stdout};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event;
use crossterm::style::ResetColor;
use crossterm::terminal::{self, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use tokio::sync::mpsc;

use super::key::Key;
use crate::advice::NoScreen;

/// The assumed size of a terminal that does not report one.
const DEFAULT_SIZE: (u16, u16) = (80, 24);
/// The number of keys that may wait; a keyboard that repeats is faster than a slow terminal.
const QUEUE_LENGTH: usize = 16;
/// More than a picture has, so that it is written at once.
const BUFFER_SIZE: usize = 64 << 10;

/// An input of the terminal.
#[derive(Clone, Copy, Debug)]
pub(super) enum Input {
    Key(Key),
    /// The size has changed.
    Resized,
}

/// The terminal, while the view is shown.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    size: Rect,
    /// Set after a panic, when the terminal was restored.
    is_left: Arc<AtomicBool>,
}

/// Checks that the terminal can show the view.
///
/// # Errors
/// Returns an error if it is not a terminal, or cannot be drawn on.
pub(super) fn check() -> Result<(), NoScreen> {
    let reason = match () {
        () if !io::stdout().is_terminal() => "stdout is not a terminal",
        () if !io::stdin().is_terminal() => "stdin, which the keys come from, is not a terminal",
        () if crate::terminal::is_dumb() => "the terminal cannot be drawn on (TERM=dumb)",
        () => return Ok(()),
    };
    Err(NoScreen(reason.into()))
}

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        let (before, is_left) = (panic::take_hook(), Arc::new(AtomicBool::new(false)));
        let left = Arc::clone(&is_left);
        panic::set_hook(Box::new(move |panic| {
            // The message would disappear with the alternate screen. The first of several panics
            // restores the terminal.
            if !left.swap(true, Ordering::SeqCst) {
                restore();
            }
            before(panic);
        }));
        terminal::enable_raw_mode()?;
        let size = size();
        let backend = CrosstermBackend::new(BufWriter::with_capacity(BUFFER_SIZE, io::stdout()));
        // The size is ours: a terminal may report none.
        let options = TerminalOptions { viewport: Viewport::Fixed(size) };
        let screen = Self { terminal: Terminal::with_options(backend, options)?, size, is_left };
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Begins to read keys, in a thread that is never joined: a read from a keyboard cannot be
    /// cancelled.
    pub(super) fn read_keys(&self) -> io::Result<mpsc::Receiver<Input>> {
        let (sender, inputs) = mpsc::channel(QUEUE_LENGTH);
        let read = move || {
            while let Ok(event) = event::read() {
                let input = match event {
                    event::Event::Key(key) => Key::of(&key).map(Input::Key),
                    event::Event::Resize(..) => Some(Input::Resized),
                    _ => None,
                };
                if let Some(input) = input
                    && sender.blocking_send(input).is_err()
                {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("keys".to_owned()).spawn(read)?;
        Ok(inputs)
    }

    /// Returns the size of the terminal now.
    pub(super) fn update_size(&mut self) -> io::Result<Rect> {
        let now = size();
        if now != self.size {
            self.size = now;
            self.terminal.resize(now)?;
        }
        Ok(now)
    }

    /// Draws a picture; only the cells that differ from the last one are written.
    pub(super) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(picture).map(|_| ())
    }

    /// Returns true if a panic has restored the terminal.
    pub(super) fn is_left(&self) -> bool {
        self.is_left.load(Ordering::SeqCst)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if !self.is_left() {
            restore();
        }
    }
}

/// Restores the terminal. If it is gone there is nothing to restore.
fn restore() {
    let _ = execute!(io::stdout(), ResetColor, LeaveAlternateScreen, cursor::Show);
    let _ = terminal::disable_raw_mode();
}

/// Returns the size of the terminal that stdout is.
fn size() -> Rect {
    // A serial line, or a terminal in a container, may report a size of zero.
    let (width, height) = reported_size().filter(|it| it.0 > 0 && it.1 > 0).unwrap_or(DEFAULT_SIZE);
    Rect::new(0, 0, width, height)
}

#[cfg(unix)]
fn reported_size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some((size.ws_col, size.ws_row))
}

#[cfg(not(unix))]
fn reported_size() -> Option<(u16, u16)> {
    terminal::size().ok()
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
