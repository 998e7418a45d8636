//! The table of the current kind.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::super::state::{Focus, State};
use super::super::theme::{Theme, mark};
use super::now::Now;
use super::text::line;
use crate::display_width::{CUT, skip, wrap};
use crate::sanitize::without_controls;

/// Draws the headings and the rows around the selected one.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, state: &mut State, theme: Theme, now: Now) {
    let has_focus = state.focus == Focus::Table;
    let Some(pane) = state.current.and_then(|at| state.kinds.pane_mut(at)) else { return };
    if area.is_empty() {
        return;
    }
    let rows = usize::from(area.height.saturating_sub(1));
    let top = pane.window(rows);
    let mut layout = pane.layout();
    let mut headings = layout.headings();
    if let Some(sort) = pane.sort
        && let Some(heading) = headings.get_mut(sort.column)
    {
        heading.push(if sort.reversed { '▼' } else { '▲' });
    }
    layout.fit(&headings);
    let shown: Vec<_> = pane.shown_from(top).take(rows).collect();
    let cells: Vec<_> = shown.iter().map(|(_, row)| layout.cells(row, now.time)).collect();
    cells.iter().for_each(|it| layout.fit(it));
    // The first column has the marks of changes.
    let first = if pane.left > 0 { CUT } else { ' ' };
    line(buffer, area, 0, &format!("{first}{}", skip(&layout.line(&headings), pane.left)), theme.heading());
    for (at, ((key, _), cells)) in shown.iter().zip(&cells).enumerate() {
        let change = pane.table.recent_change(key, now.instant);
        let text = format!("{}{}", mark(change), skip(&layout.line(cells), pane.left));
        let mut style = theme.change(change);
        if top + at == pane.at() {
            style = style.patch(theme.selected(has_focus));
        }
        line(buffer, area, at + 1, &text, style);
    }
    if shown.is_empty() && !pane.is_synced() {
        // All of the reason, of which the title may have only the beginning.
        let reason = without_controls(&pane.report.health.to_string());
        for (at, text) in wrap(&reason, usize::from(area.width)).iter().enumerate() {
            line(buffer, area, at + 1, text, theme.warning());
        }
    } else if shown.is_empty() {
        let text = if pane.filter.is_empty() { " No resources found" } else { " No row matches the filter" };
        line(buffer, area, 1, text, theme.hint());
    }
}
