//! Keys that are typed while the live table is shown: they are not echoed over it, `q` quits, and
//! the keys of a pager scroll.
//!
//! Echo and line mode are turned off separately instead of with crossterm's raw mode, which also
//! turns off Ctrl-C and Ctrl-Z.

use tokio::sync::mpsc;

/// The number of keys that may wait; a keyboard that repeats is faster than a slow terminal.
const QUEUE_LENGTH: usize = 16;

/// A key that has a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// The next of several tables.
    Next,
}

/// The keyboard, while the table is shown.
#[derive(Debug)]
pub(super) struct Keys {
    typed: Option<mpsc::Receiver<Key>>,
}

impl Keys {
    /// Begins to read keys, if there is a keyboard in the foreground.
    pub(super) fn read(mode: Option<&EchoOff>) -> Self {
        Self { typed: mode.and_then(|_| spawn_reader()) }
    }

    /// Returns true if there is a keyboard.
    pub(super) fn are_read(&self) -> bool {
        self.typed.is_some()
    }

    /// Returns the next key; never, if there are no more.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub(super) async fn next(&mut self) -> Key {
        if let Some(typed) = &mut self.typed
            && let Some(key) = typed.recv().await
        {
            return key;
        }
        self.typed = None;
        std::future::pending().await
    }
}

/// Reads keys in a thread of its own, which is never joined: a read from a keyboard cannot be
/// cancelled.
fn spawn_reader() -> Option<mpsc::Receiver<Key>> {
    let (sender, typed) = mpsc::channel(QUEUE_LENGTH);
    let read = move || {
        let (mut stdin, mut byte, mut decoder) = (std::io::stdin().lock(), [0], KeyDecoder::default());
        while let Ok(1) = std::io::Read::read(&mut stdin, &mut byte) {
            if let Some(key) = decoder.push(byte[0])
                && sender.blocking_send(key).is_err()
            {
                return;
            }
        }
    };
    std::thread::Builder::new().name("keys".to_owned()).spawn(read).ok().map(|_| typed)
}

/// Decodes the bytes of a terminal. Special keys are escape sequences: `ESC [ A`, `ESC [ 5 ~`, or
/// `ESC O A` in application mode.
#[derive(Debug, Default)]
struct KeyDecoder {
    state: Escape,
    /// The first parameter of the sequence: the number of the key before a `~`.
    number: u8,
    /// Set after the first parameter: the others are modifiers such as Shift.
    has_modifiers: bool,
}

/// The progress in an escape sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    Begun,
    /// After `ESC [`.
    Sequence,
    /// After `ESC O`.
    Application,
}

impl KeyDecoder {
    /// Takes the next byte. Returns a key if it completes one that has a meaning.
    fn push(&mut self, byte: u8) -> Option<Key> {
        match (self.state, byte) {
            (_, 0x1b) => self.state = Escape::Begun,
            (Escape::Begun, b'[') => *self = Self { state: Escape::Sequence, ..Self::default() },
            (Escape::Begun, b'O') => self.state = Escape::Application,
            (Escape::Sequence, b'0'..=b'9') if !self.has_modifiers => {
                self.number = self.number.saturating_mul(10).saturating_add(byte - b'0');
            }
            (Escape::Sequence, b';') => self.has_modifiers = true,
            // Parameters and intermediate bytes of a control sequence (ECMA-48).
            (Escape::Sequence, 0x20..=0x3f) => {}
            (Escape::Sequence | Escape::Application, _) => {
                self.state = Escape::None;
                return special_key(byte, self.number);
            }
            // After a lone ESC, a key is itself.
            (Escape::None | Escape::Begun, _) => {
                self.state = Escape::None;
                return plain_key(byte);
            }
        }
        None
    }
}

fn special_key(last: u8, number: u8) -> Option<Key> {
    match (last, number) {
        (b'A', _) => Some(Key::Up),
        (b'B', _) => Some(Key::Down),
        (b'H', _) | (b'~', 1 | 7) => Some(Key::Home),
        (b'F', _) | (b'~', 4 | 8) => Some(Key::End),
        (b'~', 5) => Some(Key::PageUp),
        (b'~', 6) => Some(Key::PageDown),
        _ => None,
    }
}

/// Returns the meaning of a letter: those of `less`.
fn plain_key(byte: u8) -> Option<Key> {
    match byte {
        b'q' | b'Q' => Some(Key::Quit),
        b'k' => Some(Key::Up),
        b'j' => Some(Key::Down),
        b'b' => Some(Key::PageUp),
        b' ' => Some(Key::PageDown),
        b'g' => Some(Key::Home),
        b'G' => Some(Key::End),
        b'\t' => Some(Key::Next),
        _ => None,
    }
}

#[cfg(unix)]
mod mode {
    use std::io::{self, IsTerminal};

    use rustix::process::getpgrp;
    use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

    /// The state of the terminal before its echo was turned off.
    #[derive(Clone, Debug)]
    pub(in crate::watch) struct EchoOff {
        before: Termios,
    }

    impl EchoOff {
        /// Turns off echo and line mode. Returns `None` if stdin is not a terminal, or if the
        /// process is in the background and may not change it.
        pub(in crate::watch) fn enter() -> Option<Self> {
            let stdin = io::stdin();
            // A terminal without job control has no background.
            let in_foreground = tcgetpgrp(&stdin).map_or(true, |group| group == getpgrp());
            if !stdin.is_terminal() || !in_foreground {
                return None;
            }
            let before = tcgetattr(&stdin).ok()?;
            let mut quiet = before.clone();
            quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
            tcsetattr(&stdin, OptionalActions::Now, &quiet).ok()?;
            Some(Self { before })
        }

        /// Restores the terminal.
        pub(in crate::watch) fn leave(&self) {
            // If the terminal is gone there is nothing to restore. Unread keys are not meant for
            // the shell.
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
        }
    }
}

#[cfg(not(unix))]
mod mode {
    /// On other platforms the console is left unchanged, and keys are not read.
    #[derive(Clone, Debug)]
    pub(in crate::watch) enum EchoOff {}

    impl EchoOff {
        pub(in crate::watch) fn enter() -> Option<Self> {
            None
        }

        pub(in crate::watch) fn leave(&self) {
            match *self {}
        }
    }
}

pub(super) use mode::EchoOff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_terminal_are_decoded() {
        for (bytes, expected) in [
            ("q", &[Key::Quit][..]),
            ("zz?", &[]),
            ("\u{1b}[A\u{1b}OB", &[Key::Up, Key::Down]),
            ("\u{1b}[5~\u{1b}[6~", &[Key::PageUp, Key::PageDown]),
            ("\u{1b}[H\u{1b}OF\u{1b}[1~\u{1b}[8~", &[Key::Home, Key::End, Key::Home, Key::End]),
            // With Ctrl or Shift.
            ("\u{1b}[1;5A\u{1b}[6;2~", &[Key::Up, Key::PageDown]),
            ("jk bgG", &[Key::Down, Key::Up, Key::PageDown, Key::PageUp, Key::Home, Key::End]),
            ("\t", &[Key::Next]),
            // The letters of other sequences are not keys, and Esc alone has no meaning.
            ("\u{1b}[3~\u{1b}[200~q\u{1b}[1;5q", &[Key::Quit]),
            ("\u{1b}\u{1b}q", &[Key::Quit]),
        ] {
            let mut decoder = KeyDecoder::default();
            let keys: Vec<_> = bytes.bytes().filter_map(|it| decoder.push(it)).collect();
            assert_eq!(keys, expected, "{bytes:?}");
        }
    }
}
