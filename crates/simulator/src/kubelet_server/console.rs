//! The standard streams of a simulated process, with the line editing of a terminal if it has one.
//!
//! Input arrives through a bounded channel: a process that does not read slows its client down.

use bytes::{Buf, Bytes, BytesMut};
use tokio::sync::mpsc;

use super::log_lines::Output;

/// The longest line that a process reads, and the most input that a terminal keeps while a command
/// runs.
const LONGEST_LINE: usize = 64 * 1024;

const INTERRUPT: u8 = 0x03;
const END: u8 = 0x04;
const BACKSPACE: u8 = 0x08;
const KILL_LINE: u8 = 0x15;
const ESCAPE: u8 = 0x1b;
const DELETE: u8 = 0x7f;

/// The standard streams of a simulated process.
#[derive(Debug)]
pub(super) struct Console {
    /// `None` if the client sends no input, or after its end.
    input: Option<mpsc::Receiver<Bytes>>,
    output: mpsc::Sender<(Output, Bytes)>,
    pending: BytesMut,
    has_terminal: bool,
}

/// A line of input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(String),
    /// The user has pressed control and C.
    Interrupted,
    End,
    TooLong,
}

impl Console {
    pub(super) fn new(
        input: Option<mpsc::Receiver<Bytes>>,
        output: mpsc::Sender<(Output, Bytes)>,
        has_terminal: bool,
    ) -> Self {
        Self { input, output, pending: BytesMut::new(), has_terminal }
    }

    pub(super) fn has_terminal(&self) -> bool {
        self.has_terminal
    }

    /// Writes text to an output. A terminal has only one output, and begins lines at its left edge.
    pub(super) async fn print(&self, output: Output, text: &str) {
        match self.has_terminal {
            true => self.write(Output::Stdout, text.replace('\n', "\r\n").into()).await,
            false => self.write(output, text.to_owned().into()).await,
        }
    }

    /// Writes bytes as they are. If the client is gone, they are dropped: the session ends anyway.
    pub(super) async fn write(&self, output: Output, bytes: Bytes) {
        if !bytes.is_empty() {
            let _ = self.output.send((output, bytes)).await;
        }
    }

    /// Returns the next input for a process that copies it: as it comes, or line by line from a
    /// terminal. Returns `None` at the end, and `Some(Err(()))` after an interrupt.
    pub(super) async fn read(&mut self) -> Option<Result<Bytes, ()>> {
        if self.has_terminal {
            return match self.read_line().await {
                Line::Text(line) => Some(Ok(format!("{line}\n").into())),
                Line::Interrupted => Some(Err(())),
                Line::TooLong | Line::End => None,
            };
        }
        if self.pending.is_empty() && !self.receive().await {
            return None;
        }
        Some(Ok(self.pending.split().freeze()))
    }

    /// Returns the next line.
    pub(super) async fn read_line(&mut self) -> Line {
        if self.has_terminal {
            return self.edited_line().await;
        }
        let mut searched = 0;
        loop {
            if let Some(at) = self.pending[searched..].iter().position(|it| *it == b'\n') {
                let line = self.pending.split_to(searched.saturating_add(at));
                self.pending.advance(1);
                return Line::Text(String::from_utf8_lossy(&line).into_owned());
            }
            searched = self.pending.len();
            if searched > LONGEST_LINE {
                return Line::TooLong;
            }
            if !self.receive().await {
                return match self.pending.is_empty() {
                    true => Line::End,
                    false => Line::Text(String::from_utf8_lossy(&self.pending.split()).into_owned()),
                };
            }
        }
    }

    /// Completes when the user of a terminal presses control and C. Other input waits for the next
    /// command.
    pub(super) async fn interrupted(&mut self) {
        loop {
            if self.take_interrupt() {
                self.write(Output::Stdout, Bytes::from_static(b"^C\r\n")).await;
                return;
            }
            if self.pending.len() > LONGEST_LINE || !self.receive().await {
                return std::future::pending().await;
            }
        }
    }

    /// Discards all input. Completes when the user of a terminal presses control and C.
    pub(super) async fn discard_input(&mut self) {
        loop {
            if self.take_interrupt() {
                return;
            }
            self.pending.clear();
            if !self.receive().await {
                return std::future::pending().await;
            }
        }
    }

    /// Removes the input up to an interrupt. Returns false if there is none.
    fn take_interrupt(&mut self) -> bool {
        let at = self.pending.iter().position(|it| *it == INTERRUPT).filter(|_| self.has_terminal);
        if let Some(at) = at {
            self.pending.advance(at.saturating_add(1));
        }
        at.is_some()
    }

    /// Waits for more input. Returns false at its end.
    async fn receive(&mut self) -> bool {
        let Some(input) = &mut self.input else { return false };
        match input.recv().await {
            Some(bytes) => self.pending.extend_from_slice(&bytes),
            None => self.input = None,
        }
        self.input.is_some()
    }

    /// Reads a line as a terminal does: keys are echoed, and edit the line.
    async fn edited_line(&mut self) -> Line {
        let mut editor = Editor::default();
        loop {
            while !self.pending.is_empty() {
                let key = self.pending.get_u8();
                if let Some(line) = editor.press(key) {
                    self.write(Output::Stdout, editor.echo.split().freeze()).await;
                    return line;
                }
            }
            self.write(Output::Stdout, editor.echo.split().freeze()).await;
            if !self.receive().await {
                return Line::End;
            }
        }
    }
}

/// A line that is being edited.
#[derive(Debug, Default)]
struct Editor {
    line: String,
    /// Bytes of a character that is not complete.
    partial: Vec<u8>,
    /// The text for the terminal since it was sent last.
    echo: BytesMut,
    escape: EscapeSequence,
}

/// The part of the sequence of a key such as an arrow that has been read. Such keys do nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EscapeSequence {
    #[default]
    None,
    Begun,
    Parameters,
}

impl Editor {
    /// Processes a key. Returns the line when it is complete.
    fn press(&mut self, key: u8) -> Option<Line> {
        self.escape = match (self.escape, key) {
            (EscapeSequence::None, ESCAPE) => EscapeSequence::Begun,
            (EscapeSequence::None, _) => return self.press_plain(key),
            (EscapeSequence::Begun, b'[' | b'O') => EscapeSequence::Parameters,
            (EscapeSequence::Parameters, 0x20..=0x3f) => EscapeSequence::Parameters,
            _ => EscapeSequence::None,
        };
        None
    }

    fn press_plain(&mut self, key: u8) -> Option<Line> {
        match key {
            b'\r' | b'\n' => {
                self.echo.extend_from_slice(b"\r\n");
                return Some(Line::Text(std::mem::take(&mut self.line)));
            }
            INTERRUPT => {
                self.echo.extend_from_slice(b"^C\r\n");
                return Some(Line::Interrupted);
            }
            END if self.line.is_empty() => return Some(Line::End),
            BACKSPACE | DELETE => self.erase(),
            KILL_LINE => {
                while !self.line.is_empty() {
                    self.erase();
                }
            }
            b'\t' | 0x20..=0xff => self.insert(key),
            _ => {}
        }
        None
    }

    fn insert(&mut self, key: u8) {
        self.partial.push(key);
        let complete = match std::str::from_utf8(&self.partial) {
            Ok(text) => Some(text.to_owned()),
            Err(error) if error.error_len().is_none() => None,
            Err(_) => Some(String::new()),
        };
        if let Some(text) = complete {
            self.partial.clear();
            if self.line.len() < LONGEST_LINE {
                self.line.push_str(&text);
                self.echo.extend_from_slice(text.as_bytes());
            }
        }
    }

    fn erase(&mut self) {
        self.partial.clear();
        if self.line.pop().is_some() {
            self.echo.extend_from_slice(b"\x08 \x08");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console(parts: &[&[u8]], has_terminal: bool) -> (Console, mpsc::Receiver<(Output, Bytes)>) {
        let (input, receiver) = mpsc::channel(64);
        for part in parts {
            input.try_send(Bytes::copy_from_slice(part)).unwrap();
        }
        let (output, outputs) = mpsc::channel(64);
        (Console::new(Some(receiver), output, has_terminal), outputs)
    }

    fn printed(outputs: &mut mpsc::Receiver<(Output, Bytes)>) -> String {
        let mut all = Vec::new();
        while let Ok((_, bytes)) = outputs.try_recv() {
            all.extend_from_slice(&bytes);
        }
        String::from_utf8(all).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn lines_are_read_whatever_their_parts() {
        let (mut console, _outputs) = console(&[b"one\ntw", b"o\n", b"three"], false);
        for expected in ["one", "two", "three"] {
            assert_eq!(console.read_line().await, Line::Text(expected.to_owned()));
        }
        assert_eq!(console.read_line().await, Line::End);
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_without_an_end_is_limited() {
        let part = [b'x'; 4096];
        let parts: Vec<&[u8]> = (0..20).map(|_| &part[..]).collect();
        let (mut piped, _outputs) = console(&parts, false);
        assert_eq!(piped.read_line().await, Line::TooLong);
        let (mut typed, _outputs) = console(&parts, true);
        assert_eq!(typed.read_line().await, Line::End, "a terminal drops what does not fit");
    }

    #[tokio::test(start_paused = true)]
    async fn a_terminal_echoes_and_edits_lines() {
        let (mut console, mut outputs) =
            console(&[b"lx\x7fs \x1b[A\x1b[1;5Cd\xc3", b"\xa4\x08o\r", b"abc\x15q\n\x03\x04"], true);
        assert_eq!(console.read_line().await, Line::Text("ls do".to_owned()));
        assert_eq!(printed(&mut outputs), "lx\x08 \x08s dä\x08 \x08o\r\n");
        assert_eq!(console.read_line().await, Line::Text("q".to_owned()));
        assert_eq!(printed(&mut outputs), "abc\x08 \x08\x08 \x08\x08 \x08q\r\n");
        assert_eq!(console.read_line().await, Line::Interrupted);
        assert_eq!(printed(&mut outputs), "^C\r\n");
        assert_eq!(console.read_line().await, Line::End);
        console.print(Output::Stderr, "a\nb\n").await;
        assert_eq!(outputs.try_recv(), Ok((Output::Stdout, Bytes::from_static(b"a\r\nb\r\n"))));
    }

    #[tokio::test(start_paused = true)]
    async fn an_interrupt_drops_the_input_before_it() {
        let (mut console, mut outputs) = console(&[b"typed ahead", b"\x03echo\r"], true);
        console.interrupted().await;
        assert_eq!(printed(&mut outputs), "^C\r\n");
        assert_eq!(console.read_line().await, Line::Text("echo".to_owned()));
    }
}
