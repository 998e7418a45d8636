//! Drawing: the state as a picture, on any backend of ratatui.
//!
//! Text from objects was sanitized when it became part of the state, or is sanitized here.

mod now;
mod text;
mod frame_parts;
mod kind_list;
mod table;
mod pages;

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use unicode_width::UnicodeWidthStr;

use super::areas::{self, Areas};
use super::page::Page;
use super::state::State;
use super::theme::Theme;

pub(super) use now::Now;

/// Draws the view.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, theme: Theme, now: Now) {
    let areas = areas_of(frame.area(), state, now);
    let buffer = frame.buffer_mut();
    frame_parts::tabs(buffer, areas.tabs, state, theme);
    frame_parts::title(buffer, areas.title, state, theme, now);
    if state.pages.is_empty() {
        kind_list::draw(buffer, areas.kinds, state, theme);
        table::draw(buffer, areas.table, state, theme, now);
    } else {
        pages::draw(buffer, areas.body, state, theme, now);
    }
    let typed = frame_parts::hint(buffer, areas.hint, state, theme);
    if let Some(typed) = typed {
        let x = u16::try_from(typed.width()).unwrap_or(u16::MAX).min(areas.hint.width.saturating_sub(1));
        frame.set_cursor_position(Position { x: areas.hint.x.saturating_add(x), y: areas.hint.y });
    }
}

/// Returns the number of lines of a page, and of the rows of a table.
pub(super) fn page_sizes(screen: Rect, state: &State, now: Now) -> (usize, usize) {
    let areas = areas_of(screen, state, now);
    let lines = usize::from(areas.body.height);
    match state.pages.last() {
        // The first line of a tree is about the kinds that it covers.
        Some(Page::Tree(_)) => (lines.saturating_sub(1), lines),
        _ => (lines, lines.saturating_sub(1)),
    }
}

fn areas_of(screen: Rect, state: &State, now: Now) -> Areas {
    let title = frame_parts::title_lines(state, usize::from(screen.width), now).len();
    areas::divide(screen, title, state.focus)
}

#[cfg(test)]
mod tests;
