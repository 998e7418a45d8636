//! The pages over the table.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::super::page::{LogPage, Page, TreePage};
use super::super::scroll::{TextScroll, top_with};
use super::super::state::State;
use super::super::theme::Theme;
use super::super::{health, help};
use super::now::Now;
use super::text::line;
use crate::display_width::{skip, wrap};
use crate::sanitize::without_controls;

/// Draws the page on top.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, state: &State, theme: Theme, now: Now) {
    match state.pages.last() {
        Some(Page::Help(scroll)) => texts(buffer, area, help::LINES.iter().copied(), *scroll, theme),
        Some(Page::Health(scroll)) => {
            let lines = health::lines(&state.kinds, now.instant);
            texts(buffer, area, lines.iter().map(String::as_str), *scroll, theme);
        }
        Some(Page::Document(page)) if page.lines.is_empty() => {
            let problem = page.problem.as_deref().unwrap_or("reading");
            texts(buffer, area, paragraph(problem, area).iter().map(String::as_str), page.scroll, theme);
        }
        Some(Page::Document(page)) => {
            texts(buffer, area, page.lines.iter().map(String::as_str), page.scroll, theme);
        }
        Some(Page::Tree(page)) => tree(buffer, area, page, theme),
        Some(Page::Log(page)) => log(buffer, area, page, theme),
        None => {}
    }
}

fn texts<'a>(
    buffer: &mut Buffer,
    area: Rect,
    lines: impl Iterator<Item = &'a str>,
    scroll: TextScroll,
    theme: Theme,
) {
    for (at, text) in lines.skip(scroll.top).take(usize::from(area.height)).enumerate() {
        line(buffer, area, at, skip(text, scroll.left), theme.plain());
    }
}

/// Returns a text in the width of an area: more of a reason than fits into the title.
fn paragraph(text: &str, area: Rect) -> Vec<String> {
    wrap(&without_controls(text), usize::from(area.width))
}

fn tree(buffer: &mut Buffer, area: Rect, page: &TreePage, theme: Theme) {
    let more = if page.tree.is_truncated { " There are more objects than are shown." } else { "" };
    let covered = page.tree.covered.join(", ");
    let covered = format!("Dependents are searched in the watched kinds: {covered}.{more}");
    // The list of kinds is the part that may be cut, not the tree.
    let first =
        wrap(&without_controls(&covered), usize::from(area.width)).into_iter().next().unwrap_or_default();
    let first = if first.len() < covered.len() {
        let count = page.tree.covered.len();
        format!("Dependents of {count} watched kinds (see h).{more}")
    } else {
        first
    };
    line(buffer, area, 0, &first, theme.hint());
    let rows = usize::from(area.height.saturating_sub(1));
    let top = top_with(page.at.saturating_sub(rows / 2), page.at, rows);
    for (at, node) in page.tree.nodes.iter().enumerate().skip(top).take(rows) {
        let note = if node.note.is_empty() { String::new() } else { format!("  ({})", node.note) };
        let mark = if node.is_root { "* " } else { "  " };
        let text = without_controls(&format!("{mark}{}{}{note}", "  ".repeat(node.depth), node.name));
        let style = if at == page.at { theme.selected(true) } else { theme.plain() };
        line(buffer, area, at - top + 1, &text, style);
    }
}

fn log(buffer: &mut Buffer, area: Rect, page: &LogPage, theme: Theme) {
    let rows = usize::from(area.height);
    if page.buffer.len() == 0 {
        let reason = page.end.as_deref().unwrap_or("waiting for lines");
        let lines = paragraph(reason, area);
        texts(buffer, area, lines.iter().map(String::as_str), TextScroll::default(), theme);
    }
    for (at, text) in page.buffer.from(page.top(rows)).take(rows).enumerate() {
        line(buffer, area, at, skip(text, page.scroll.left), theme.plain());
    }
}
