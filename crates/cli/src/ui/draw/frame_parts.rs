//! The lines around the tables and pages: the watched kinds, the title, and the keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use super::super::document::Form;
use super::super::health;
use super::super::page::{DocumentPage, LogPage, Page};
use super::super::state::{Focus, State};
use super::super::theme::Theme;
use super::now::Now;
use super::text::line;
use crate::display_width::{cut, items, wrap};
use crate::sanitize::without_controls;
use crate::watch::view;

/// The keys of a table, the most useful ones first: those that do not fit are left out.
const TABLE_KEYS: [&str; 10] = [
    "q quit",
    "? help",
    "/ filter",
    "d describe",
    "y YAML",
    "s sort",
    "t tree",
    "l log",
    "h health",
    "Tab next",
];

/// Draws the watched kinds, with the current one marked. If not all fit, the first ones are left
/// out.
pub(super) fn tabs(buffer: &mut Buffer, area: Rect, state: &State, theme: Theme) {
    let tabs = state.kinds.watched().map(|(at, kind, pane)| {
        let problem = if pane.is_synced() { "" } else { "!" };
        (Some(at) == state.current, format!(" {}{problem} ", without_controls(&kind.served.group_resource())))
    });
    let mut tabs: Vec<_> = tabs.collect();
    let end_of_current = |tabs: &[(bool, String)]| -> usize {
        let current = tabs.iter().position(|it| it.0).unwrap_or(0);
        tabs.iter().take(current + 1).map(|it| it.1.width()).sum()
    };
    while tabs.len() > 1 && !tabs[0].0 && end_of_current(&tabs) > usize::from(area.width) {
        tabs.remove(0);
    }
    line(buffer, area, 0, "", theme.heading());
    let mut x = area.x;
    for (is_current, tab) in tabs {
        let left = area.right().saturating_sub(x);
        if left == 0 || area.height == 0 {
            return;
        }
        let style = if is_current { theme.selected(true) } else { theme.plain() };
        x = buffer.set_stringn(x, area.y, cut(&tab, left.into()), left.into(), style).0;
    }
}

/// Draws the title: a warning if the rows are not those of the server.
pub(super) fn title(buffer: &mut Buffer, area: Rect, state: &State, theme: Theme, now: Now) {
    let is_synced = state.current_pane().is_none_or(|it| it.is_synced());
    let style = if is_synced || !state.pages.is_empty() { theme.heading() } else { theme.warning() };
    for (at, text) in title_lines(state, usize::from(area.width), now).iter().enumerate() {
        line(buffer, area, at, text, style);
    }
}

/// Returns the title, wrapped.
pub(super) fn title_lines(state: &State, width: usize, now: Now) -> Vec<String> {
    let title = match state.pages.last() {
        Some(Page::Help(_)) => "Help".to_owned(),
        Some(Page::Health(_)) => "Health of the caches".to_owned(),
        Some(Page::Document(page)) => document_title(state, page),
        Some(Page::Tree(page)) => format!("Owners and dependents of {}", state.kinds.name_of(&page.root)),
        Some(Page::Log(page)) => log_title(state, page),
        None => table_title(state, now),
    };
    wrap(&without_controls(&title), width)
}

fn table_title(state: &State, now: Now) -> String {
    let Some((at, pane)) = state.current.zip(state.current_pane()) else {
        return "No kind is watched: choose one with the arrows and Enter".to_owned();
    };
    let Some(kind) = state.kinds.get(at) else { return String::new() };
    let what = view::title(&kind.served, state.kinds.namespace_of(at));
    let mut title = health::title(&what, pane, now.instant);
    if !pane.filter.is_empty() {
        title.push_str(&format!("; {} match \"{}\"", pane.shown_count(), pane.filter));
    }
    title
}

fn document_title(state: &State, page: &DocumentPage) -> String {
    let form = match page.form {
        Form::Yaml => "YAML",
        Form::Description => "description",
    };
    let pane = state.kinds.pane(page.target.kind);
    let progress = match &page.problem {
        Some(problem) => format!("; {problem}"),
        None if page.is_loading() => "; reading".to_owned(),
        None if pane.is_some_and(|it| !it.is_synced()) => "; NOT SYNCED: as of the last change".to_owned(),
        None => String::new(),
    };
    format!("{}: {form}{progress}", state.kinds.name_of(&page.target))
}

fn log_title(state: &State, page: &LogPage) -> String {
    let container =
        page.containers.get(page.container).map(|it| format!(", container {it}")).unwrap_or_default();
    let dropped = match page.buffer.dropped {
        0 => String::new(),
        count => format!("; {count} older lines dropped"),
    };
    let end = page.end.as_ref().map(|it| format!("; {it}")).unwrap_or_default();
    let paused = if page.follows { "" } else { "; paused, G follows" };
    let name = state.kinds.name_of(&page.target);
    let lines = match page.buffer.len() {
        1 => "1 line".to_owned(),
        count => format!("{count} lines"),
    };
    format!("Log of {name}{container}: {lines}{dropped}{end}{paused}")
}

/// Draws the filter that is being typed, a message, or the keys. Returns the text before the
/// cursor.
pub(super) fn hint(buffer: &mut Buffer, area: Rect, state: &State, theme: Theme) -> Option<String> {
    if state.typing.is_some() {
        let typed = format!("/{}", without_controls(state.filter()));
        line(buffer, area, 0, &typed, theme.plain());
        return Some(typed);
    }
    if let Some(message) = &state.message {
        line(buffer, area, 0, &without_controls(message), theme.warning());
        return None;
    }
    let keys: &[&str] = match state.pages.last() {
        Some(Page::Log(page)) if page.containers.len() > 1 => {
            &["q back", "? help", "c next container", "y YAML", "d describe"]
        }
        Some(Page::Log(_) | Page::Document(_)) => {
            &["q back", "? help", "y YAML", "d describe", "t tree", "l log"]
        }
        Some(Page::Tree(_)) => &["q back", "? help", "Enter go to", "y YAML", "d describe", "l log"],
        Some(_) => &["q back"],
        None if state.focus == Focus::Kinds => {
            &["q quit", "? help", "Enter watch", "/ filter", "x stop", "Tab tables", "h health"]
        }
        None => &TABLE_KEYS,
    };
    let keys = items(keys, usize::from(area.width));
    line(buffer, area, 0, &keys, theme.hint());
    None
}
