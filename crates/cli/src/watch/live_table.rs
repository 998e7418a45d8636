//! The live table of a collection: its rows in order, their recent changes, and a window on them if
//! not all fit. Pure; knows no terminal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dogwatch::api::EventKind;
use dogwatch::informer::Change;
use dogwatch::{Object, ObjectKey};
use jiff::Timestamp;
use tokio::time::Instant;

use super::format;
use super::keys::Key;
use super::layout::{Shape, TableLayout};
use super::rows::{Column, Row};

/// The time for which a change is highlighted, and a deleted object is still shown.
const HIGHLIGHT_TIME: Duration = Duration::from_secs(3);

/// A line, and the recent change of its object.
pub(super) type Marked = (Option<EventKind>, String);

/// The rows that are shown if not all fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    /// The most recently changed rows, for a terminal without a keyboard.
    Newest,
    /// The rows from this one on.
    From {
        /// The number of rows above.
        top: usize,
        /// The number of rows that were last shown: a page.
        page: usize,
    },
}

impl Window {
    /// Returns the window at the first row.
    pub(super) fn at_top() -> Self {
        Self::From { top: 0, page: 1 }
    }

    /// Scrolls. The end is known when the rows are next shown.
    pub(super) fn scroll(&mut self, key: Key) {
        let Self::From { top, page } = self else { return };
        *top = match key {
            Key::Up => top.saturating_sub(1),
            Key::Down => top.saturating_add(1),
            Key::PageUp => top.saturating_sub(*page),
            Key::PageDown => top.saturating_add(*page),
            Key::Home => 0,
            Key::End => usize::MAX,
            Key::Quit | Key::Next => *top,
        };
    }
}

/// The rows of a collection, by their changes.
#[derive(Debug, Default)]
pub(crate) struct LiveTable {
    entries: BTreeMap<ObjectKey, Entry>,
}

#[derive(Debug)]
struct Entry {
    row: Arc<Row>,
    /// The last change, unless it is an object of the initial list.
    event: Option<EventKind>,
    at: Instant,
}

impl LiveTable {
    /// Applies a change.
    pub(crate) fn change(&mut self, change: &Change<Row>, now: Instant) {
        let row = Arc::clone(change.object());
        let Some(key) = row.key() else { return };
        let initial = matches!(change, Change::Added { initial: true, .. });
        let event = (!initial).then(|| format::event(change));
        self.entries.insert(key, Entry { row, event, at: now });
    }

    /// Returns the number of objects.
    pub(crate) fn len(&self) -> usize {
        self.entries.values().filter(|it| it.event != Some(EventKind::Deleted)).count()
    }

    /// Removes objects that were deleted long enough ago.
    pub(crate) fn forget(&mut self, now: Instant) {
        self.entries.retain(|_, it| it.event != Some(EventKind::Deleted) || it.is_fresh(now));
    }

    /// Returns the rows in the order of their keys, including those that were just deleted.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Row>)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.row))
    }

    /// Returns a row by its key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<Row>> {
        self.entries.get(key).map(|it| &it.row)
    }

    /// Returns the change of a row, if it is recent.
    pub(crate) fn recent_change(&self, key: &ObjectKey, now: Instant) -> Option<EventKind> {
        self.entries.get(key).filter(|it| it.is_fresh(now))?.event
    }

    /// Returns true if there is no object of this key, although its last state may still be shown.
    pub(crate) fn is_deleted(&self, key: &ObjectKey) -> bool {
        self.entries.get(key).is_none_or(|it| it.event == Some(EventKind::Deleted))
    }

    /// Returns true if an object of this name exists.
    pub(super) fn has(&self, name: &str) -> bool {
        let mut there = self.entries.values().filter(|it| it.event != Some(EventKind::Deleted));
        there.any(|it| it.row.header().name == name)
    }

    /// Returns the number of lines of the headings and all rows.
    pub(super) fn height(&self) -> usize {
        self.entries.len().saturating_add(1)
    }

    /// Returns the headings and the rows, in at most `room` lines. If not all fit, the window
    /// selects them, and the last line names the others.
    pub(super) fn lines(
        &self,
        columns: Arc<[Column]>,
        shape: Shape,
        room: usize,
        window: &mut Window,
        (now, time): (Instant, Timestamp),
    ) -> Vec<Marked> {
        let mut layout = TableLayout::new(columns, shape);
        let (shown, more) = self.fitting(room.saturating_sub(1), window);
        let cells: Vec<_> = shown.iter().map(|it| layout.cells(&it.row, time)).collect();
        cells.iter().for_each(|it| layout.fit(it));
        let mut lines = vec![(None, layout.line(&layout.headings()))];
        for (entry, cells) in shown.iter().zip(&cells) {
            lines.push((entry.event.filter(|_| entry.is_fresh(now)), layout.line(cells)));
        }
        lines.extend(more.map(|it| (None, it)));
        lines
    }

    /// Returns the rows in their order.
    fn sorted(&self) -> Vec<&Entry> {
        let mut all: Vec<_> = self.entries.values().collect();
        // Rows that are alike keep the order of their keys.
        all.sort_by(|one, other| one.row.sort_key.cmp(&other.row.sort_key));
        all
    }

    /// Returns the rows for `room` lines and, if there are more, a line about the others.
    fn fitting(&self, room: usize, window: &mut Window) -> (Vec<&Entry>, Option<String>) {
        let mut all = self.sorted();
        if all.len() <= room {
            if let Window::From { top, .. } = window {
                *top = 0;
            }
            return (all, None);
        }
        // One line is about the other rows.
        let room = room.saturating_sub(1);
        match window {
            Window::Newest => {
                let hidden = all.len() - room;
                let mut times: Vec<_> = all.iter().map(|it| it.at).collect();
                times.sort_by(|one, other| other.cmp(one));
                // Among rows that changed at the same time, the first ones are shown.
                let oldest = room.checked_sub(1).and_then(|it| times.get(it)).copied();
                let mut ties = oldest.map_or(0, |it| times[..room].iter().filter(|at| **at == it).count());
                all.retain(|entry| match oldest.map(|it| entry.at.cmp(&it)) {
                    Some(std::cmp::Ordering::Greater) => true,
                    Some(std::cmp::Ordering::Equal) if ties > 0 => {
                        ties -= 1;
                        true
                    }
                    _ => false,
                });
                let more = format!(
                    "... and {hidden} more, changed earlier; narrow them down with -n, -l or --field-selector"
                );
                (all, Some(more))
            }
            Window::From { top, page } => {
                *page = room.max(1);
                *top = (*top).min(all.len().saturating_sub(*page));
                let (count, end) = (all.len(), top.saturating_add(room).min(all.len()));
                let more =
                    format!("rows {}-{end} of {count}; arrows, page keys, Home and End scroll", *top + 1);
                (all[*top..end].to_vec(), Some(more))
            }
        }
    }
}

impl Entry {
    fn is_fresh(&self, now: Instant) -> bool {
        now.duration_since(self.at) < HIGHLIGHT_TIME
    }
}

#[cfg(test)]
mod tests {
    use dogwatch::informer::Deleted;
    use serde_json::json;

    use super::super::rows::Columns;
    use super::*;

    fn row(name: &str) -> Arc<Row> {
        Arc::new(Row::of_table(json!({ "cells": [name], "object": { "metadata": { "name": name } } })))
    }

    fn added(name: &str, initial: bool) -> Change<Row> {
        Change::Added { object: row(name), initial }
    }

    fn shown(live_table: &LiveTable, room: usize, now: Instant) -> Vec<Marked> {
        shown_in(live_table, room, &mut Window::Newest, now)
    }

    fn shown_in(live_table: &LiveTable, room: usize, window: &mut Window, now: Instant) -> Vec<Marked> {
        let columns = Columns::of(json!([{ "name": "Name" }])).get();
        live_table.lines(columns, Shape::default(), room, window, (now, Timestamp::UNIX_EPOCH))
    }

    fn line(event: Option<EventKind>, text: &str) -> Marked {
        (event, text.to_owned())
    }

    #[test]
    fn changes_are_marked_for_a_while_and_deleted_rows_stay_as_long() {
        let begin = Instant::now();
        let mut live_table = LiveTable::default();
        for change in [
            added("a", true),
            added("b", false),
            Change::Updated { old: row("c"), new: row("c") },
            Change::Deleted(Deleted::Seen(row("d"))),
        ] {
            live_table.change(&change, begin);
        }
        assert_eq!(live_table.len(), 3);
        assert_eq!(
            shown(&live_table, 9, begin),
            [
                line(None, "NAME"),
                line(None, "a"),
                line(Some(EventKind::Added), "b"),
                line(Some(EventKind::Modified), "c"),
                line(Some(EventKind::Deleted), "d"),
            ]
        );
        live_table.forget(begin + HIGHLIGHT_TIME);
        assert_eq!(
            shown(&live_table, 9, begin + HIGHLIGHT_TIME),
            ["NAME", "a", "b", "c"].map(|it| line(None, it))
        );
    }

    #[test]
    fn if_not_all_fit_the_most_recently_changed_rows_are_shown_in_order() {
        let begin = Instant::now();
        let mut live_table = LiveTable::default();
        for (at, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            live_table.change(&added(name, true), begin + Duration::from_secs(at as u64));
        }
        live_table.change(&Change::Updated { old: row("b"), new: row("b") }, begin + Duration::from_secs(9));
        let texts: Vec<_> =
            shown(&live_table, 4, begin + Duration::from_secs(99)).into_iter().map(|it| it.1).collect();
        let more = "... and 3 more, changed earlier; narrow them down with -n, -l or --field-selector";
        assert_eq!(texts, ["NAME", "b", "e", more]);
    }

    #[test]
    fn a_window_scrolls_by_row_and_page_and_stops_at_both_ends() {
        let now = Instant::now();
        let (mut live_table, mut window) = (LiveTable::default(), Window::at_top());
        for name in ["a", "b", "c", "d", "e", "f", "g"] {
            live_table.change(&added(name, true), now);
        }
        for (key, rows) in [
            (Key::Up, "abc"),
            (Key::Down, "bcd"),
            (Key::PageDown, "efg"),
            (Key::Down, "efg"),
            (Key::PageUp, "bcd"),
            (Key::End, "efg"),
            (Key::Up, "def"),
            (Key::Home, "abc"),
        ] {
            // Drawn between two keys, which is when the end is known.
            shown_in(&live_table, 5, &mut window, now);
            window.scroll(key);
            let lines = shown_in(&live_table, 5, &mut window, now);
            let texts: String = lines[1..4].iter().map(|it| it.1.as_str()).collect();
            assert_eq!(texts, rows, "{key:?}");
            assert!(lines[4].1.starts_with("rows ") && lines[4].1.contains(" of 7; "), "{lines:?}");
        }
        // When the terminal grows, everything is shown.
        window.scroll(Key::End);
        assert_eq!(shown_in(&live_table, 8, &mut window, now).len(), 8);
    }

    #[test]
    fn rows_are_sorted_by_the_value_of_their_field() {
        let now = Instant::now();
        let field: crate::watch::sort::SortBy = ".size".parse().expect("a path");
        let mut live_table = LiveTable::default();
        for (name, size) in [("a", 10), ("b", 9), ("c", 9)] {
            let mut row = (*row(name)).clone();
            row.sort_key = field.key(&json!({ "size": size }));
            live_table.change(&Change::Added { object: Arc::new(row), initial: true }, now);
        }
        let texts: Vec<_> = shown(&live_table, 9, now).into_iter().map(|it| it.1).collect();
        assert_eq!(texts, ["NAME", "b", "c", "a"]);
        assert!(live_table.has("a") && !live_table.has("z"));
    }
}
