//! The list of kinds, with the number of objects of those that are watched.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::super::scroll::top_with;
use super::super::state::{Focus, State};
use super::super::theme::Theme;
use super::text::line;
use crate::display_width::cut;
use crate::sanitize::without_controls;

/// Draws the kinds that match their filter.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, state: &State, theme: Theme) {
    if area.is_empty() {
        return;
    }
    let shown = state.shown_kinds();
    let heading = match state.kind_filter.as_str() {
        "" => format!("KINDS ({})", shown.len()),
        filter => format!("KINDS with \"{}\" ({})", without_controls(filter), shown.len()),
    };
    line(buffer, area, 0, &heading, theme.heading());
    let rows = usize::from(area.height.saturating_sub(1));
    // The selected one is in the middle where possible, so that its neighbours are visible.
    let last = shown.len().saturating_sub(rows);
    let top = top_with(state.kind_at.saturating_sub(rows / 2).min(last), state.kind_at, rows);
    for (at, kind) in shown.iter().enumerate().skip(top).take(rows) {
        let Some(kind) = state.kinds.get(*kind) else { continue };
        let count = match &kind.pane {
            None => String::new(),
            Some(pane) if pane.is_synced() => pane.table.len().to_string(),
            Some(pane) if pane.synced_at.is_none() => "...".to_owned(),
            Some(pane) => format!("{}!", pane.table.len()),
        };
        let name = without_controls(&kind.served.group_resource());
        let room = usize::from(area.width).saturating_sub(count.len() + 1);
        let name = cut(&name, room);
        let style = match at == state.kind_at {
            true => theme.selected(state.focus == Focus::Kinds),
            false if kind.pane.is_some() => theme.heading(),
            false => theme.plain(),
        };
        line(buffer, area, at - top + 1, &format!("{name:<room$} {count}"), style);
    }
    // The gap between the kinds and the table is one column wide.
    for y in area.top()..area.bottom() {
        if let Some(cell) = buffer.cell_mut((area.right(), y)) {
            cell.set_symbol("│").set_style(theme.hint());
        }
    }
}
