//! Scrolling: the keys that move, a cursor in a list, and a window on a text. Pure.

use super::key::Key;

/// The columns by which a text scrolls sideways.
const SIDE_STEP: usize = 8;

/// A movement in a list or a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

impl Move {
    /// Returns the movement of a key: those of a pager.
    pub(super) fn of(key: Key) -> Option<Self> {
        Some(match key {
            Key::Up | Key::Char('k') => Self::Up,
            Key::Down | Key::Char('j') => Self::Down,
            Key::PageUp | Key::Char('b') => Self::PageUp,
            Key::PageDown | Key::Char(' ') => Self::PageDown,
            Key::Home | Key::Char('g') => Self::Home,
            Key::End | Key::Char('G') => Self::End,
            _ => return None,
        })
    }

    /// Returns the position after the movement, from 0 to `last`.
    pub(super) fn from(self, at: usize, page: usize, last: usize) -> usize {
        let page = page.max(1);
        let moved = match self {
            Self::Up => at.saturating_sub(1),
            Self::Down => at.saturating_add(1),
            Self::PageUp => at.saturating_sub(page),
            Self::PageDown => at.saturating_add(page),
            Self::Home => 0,
            Self::End => last,
        };
        moved.min(last)
    }
}

/// Returns the first line of a window of `page` lines, from the one before, so that it shows `at`.
pub(super) fn top_with(top: usize, at: usize, page: usize) -> usize {
    let page = page.max(1);
    top.clamp(at.saturating_add(1).saturating_sub(page), at)
}

/// A window on a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TextScroll {
    pub(super) top: usize,
    /// The columns to the left of the window.
    pub(super) left: usize,
}

impl TextScroll {
    /// Scrolls a text of `lines` lines. Returns true if the key was one that scrolls.
    pub(super) fn press(&mut self, key: Key, page: usize, lines: usize) -> bool {
        match key {
            Key::Left => self.left = self.left.saturating_sub(SIDE_STEP),
            Key::Right => self.left = self.left.saturating_add(SIDE_STEP),
            key => match Move::of(key) {
                Some(moved) => self.top = moved.from(self.top, page, lines.saturating_sub(page.max(1))),
                None => return false,
            },
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn movements_stop_at_both_ends() {
        for (moved, at, expected) in [
            (Move::Up, 0, 0),
            (Move::Down, 9, 9),
            (Move::Down, 3, 4),
            (Move::PageDown, 3, 7),
            (Move::PageDown, 8, 9),
            (Move::PageUp, 3, 0),
            (Move::Home, 5, 0),
            (Move::End, 5, 9),
        ] {
            assert_eq!(moved.from(at, 4, 9), expected, "{moved:?} {at}");
        }
    }

    #[test]
    fn a_window_moves_as_little_as_possible() {
        for (top, at, expected) in [(0, 3, 0), (0, 4, 1), (5, 2, 2), (2, 5, 2), (usize::MAX, 7, 7)] {
            assert_eq!(top_with(top, at, 4), expected, "{top} {at}");
        }
        assert_eq!(top_with(0, 3, 0), 3);
    }

    #[test]
    fn a_text_scrolls_until_its_last_page() {
        let mut scroll = TextScroll::default();
        assert!(scroll.press(Key::End, 10, 25) && scroll.press(Key::Right, 10, 25));
        assert_eq!(scroll, TextScroll { top: 15, left: 8 });
        assert!(!scroll.press(Key::Char('x'), 10, 25));
        scroll.press(Key::Home, 10, 25);
        scroll.press(Key::PageDown, 30, 25);
        assert_eq!(scroll.top, 0, "all of it is shown");
    }
}
