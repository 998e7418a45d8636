//! The styles of the view. Without colours, marks and attributes say the same.

use dogwatch::api::EventKind;
use ratatui::style::{Color, Modifier, Style};

/// The styles, with or without colours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub(super) coloured: bool,
}

impl Theme {
    pub(super) fn plain(self) -> Style {
        Style::default()
    }

    pub(super) fn heading(self) -> Style {
        Style::default().add_modifier(Modifier::BOLD)
    }

    pub(super) fn selected(self, has_focus: bool) -> Style {
        let style = Style::default();
        if has_focus { style.add_modifier(Modifier::REVERSED) } else { style.add_modifier(Modifier::BOLD) }
    }

    pub(super) fn warning(self) -> Style {
        self.with(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(super) fn hint(self) -> Style {
        Style::default().add_modifier(Modifier::DIM)
    }

    pub(super) fn change(self, event: Option<EventKind>) -> Style {
        match event {
            Some(EventKind::Added) => self.with(Color::Green),
            Some(EventKind::Modified) => self.with(Color::Yellow),
            Some(EventKind::Deleted) => self.with(Color::Red),
            _ => Style::default(),
        }
    }

    fn with(self, colour: Color) -> Style {
        if self.coloured { Style::default().fg(colour) } else { Style::default() }
    }
}

/// Returns the mark of a recent change.
pub(super) fn mark(event: Option<EventKind>) -> char {
    match event {
        Some(EventKind::Added) => '+',
        Some(EventKind::Modified) => '~',
        Some(EventKind::Deleted) => '-',
        _ => ' ',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_a_change_still_has_a_mark() {
        let theme = Theme { coloured: false };
        for event in [EventKind::Added, EventKind::Modified, EventKind::Deleted] {
            assert_eq!(theme.change(Some(event)), Style::default());
            assert_ne!(mark(Some(event)), ' ');
            assert_ne!(Theme { coloured: true }.change(Some(event)), Style::default());
        }
        assert_eq!(mark(None), ' ');
    }
}
