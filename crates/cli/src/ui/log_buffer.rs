//! The last lines of a log: a ring with a limit of lines and of bytes. Pure.

use std::collections::VecDeque;

use crate::sanitize::without_controls;

/// The number of lines that are kept.
const MAX_LINES: usize = 5_000;
/// The bytes of all lines that are kept.
const MAX_BYTES: usize = 4 << 20;
/// The characters of a line that are kept.
const MAX_LINE: usize = 4_096;

/// The last lines of a log.
#[derive(Debug, Default)]
pub(super) struct LogBuffer {
    lines: VecDeque<String>,
    bytes: usize,
    /// The number of lines that were removed for newer ones.
    pub(super) dropped: u64,
}

impl LogBuffer {
    /// Adds a line; removes the oldest ones if there are too many.
    pub(super) fn push(&mut self, line: &str) {
        let mut kept: String = line.chars().take(MAX_LINE).collect();
        if kept.len() < line.len() {
            kept.push('…');
        }
        // A tab is a control character too, but frequent in logs.
        let line = without_controls(&kept.replace('\t', "    "));
        self.bytes = self.bytes.saturating_add(line.len());
        self.lines.push_back(line);
        while self.lines.len() > MAX_LINES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.len());
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the lines from this one on.
    pub(super) fn from(&self, top: usize) -> impl Iterator<Item = &str> {
        self.lines.iter().skip(top).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept() {
        let mut log = LogBuffer::default();
        for at in 0..MAX_LINES + 10 {
            log.push(&at.to_string());
        }
        assert_eq!((log.len(), log.dropped, log.from(0).next()), (MAX_LINES, 10, Some("10")));
        let long = "x".repeat(MAX_LINE * 2);
        for _ in 0..MAX_LINES {
            log.push(&long);
        }
        assert!(log.bytes <= MAX_BYTES && log.len() < MAX_LINES, "{} {}", log.bytes, log.len());
        assert!(log.from(log.len() - 1).all(|it| it.ends_with('…')));
    }

    #[test]
    fn lines_cannot_control_the_terminal() {
        let mut log = LogBuffer::default();
        log.push("a\tb\u{1b}[2J");
        assert_eq!(log.from(0).collect::<Vec<_>>(), ["a    b\u{fffd}[2J"]);
    }
}
