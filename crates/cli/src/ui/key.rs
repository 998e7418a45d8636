//! Keys, as far as they have a meaning in the view.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Esc,
    Backspace,
    Tab,
    BackTab,
    Left,
    Right,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C: in raw mode it is a key and not a signal.
    Interrupt,
    /// Ctrl-U: deletes the line that is being typed.
    Clear,
}

impl Key {
    /// Translates a key of the terminal; `None` if it has no meaning.
    pub(super) fn of(event: &KeyEvent) -> Option<Self> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        let with_control = event.modifiers.contains(KeyModifiers::CONTROL);
        Some(match event.code {
            KeyCode::Char('c') if with_control => Self::Interrupt,
            KeyCode::Char('u') if with_control => Self::Clear,
            KeyCode::Char('h') if with_control => Self::Backspace,
            KeyCode::Char(_) if with_control || event.modifiers.contains(KeyModifiers::ALT) => return None,
            KeyCode::Char(letter) => Self::Char(letter),
            KeyCode::Enter => Self::Enter,
            KeyCode::Esc => Self::Esc,
            KeyCode::Backspace => Self::Backspace,
            KeyCode::Tab => Self::Tab,
            KeyCode::BackTab => Self::BackTab,
            KeyCode::Left => Self::Left,
            KeyCode::Right => Self::Right,
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            KeyCode::PageUp => Self::PageUp,
            KeyCode::PageDown => Self::PageDown,
            KeyCode::Home => Self::Home,
            KeyCode::End => Self::End,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_a_meaning_are_translated() {
        let none = KeyModifiers::NONE;
        for (code, modifiers, expected) in [
            (KeyCode::Char('y'), none, Some(Key::Char('y'))),
            (KeyCode::Char('G'), KeyModifiers::SHIFT, Some(Key::Char('G'))),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, Some(Key::Interrupt)),
            (KeyCode::Char('q'), KeyModifiers::CONTROL, None),
            (KeyCode::Char('q'), KeyModifiers::ALT, None),
            (KeyCode::PageDown, none, Some(Key::PageDown)),
            (KeyCode::F(1), none, None),
        ] {
            assert_eq!(Key::of(&KeyEvent::new(code, modifiers)), expected, "{code:?}");
        }
        let released = KeyEvent::new_with_kind(KeyCode::Enter, none, KeyEventKind::Release);
        assert_eq!(Key::of(&released), None);
    }
}
