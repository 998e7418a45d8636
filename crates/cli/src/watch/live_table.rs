//! The live table of a collection: its rows in order, their recent changes, and a window on them if
//! not all fit. Pure; knows no terminal.
//!
//! No operation that a picture needs visits all rows: a change is put in its place at once.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
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
use super::row_order::RowOrder;
use super::rows::{Column, Row};
use crate::sanitize::without_controls;

/// The time for which a change is highlighted, and a deleted object is still shown.
const HIGHLIGHT_TIME: Duration = Duration::from_secs(3);

/// The number of changes that are remembered for [`Window::Newest`]; no terminal is as high.
const MAX_NEWEST: usize = 1_000;

/// The number of rows that are named of those that do not fit.
const MAX_NAMED: usize = 3;

/// A row that is shown, with its key.
type Shown<'a> = (&'a ObjectKey, &'a Arc<Row>);

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
    order: RowOrder,
    /// The deletions of the last seconds, oldest first, including those that a later addition
    /// undid.
    deletions: VecDeque<(Instant, ObjectKey)>,
    /// The number of entries whose object is deleted.
    deleted: usize,
    /// The number of the last change.
    changes: u64,
    /// The rows that changed last, by the number of their change.
    newest: BTreeMap<u64, ObjectKey>,
}

#[derive(Debug)]
struct Entry {
    row: Arc<Row>,
    /// The last change, unless it is an object of the initial list.
    event: Option<EventKind>,
    at: Instant,
    /// The number of the change.
    number: u64,
}

impl LiveTable {
    /// Creates a table whose rows are sorted by the field of `--sort-by`.
    pub(super) fn by_sort_key() -> Self {
        let order = RowOrder::new(|one, other| one.sort_key.cmp(&other.sort_key), |_| true);
        Self { order, ..Self::default() }
    }

    /// Sorts the rows by another comparison, and keeps only those that a filter wants in the order.
    pub(crate) fn arrange(
        &mut self,
        compare: impl Fn(&Row, &Row) -> Ordering + Send + 'static,
        wants: impl Fn(&Row) -> bool + Send + 'static,
    ) {
        self.order = RowOrder::new(compare, wants);
        self.order.fill(self.entries.iter().map(|(key, entry)| (key, &entry.row)));
    }

    /// Applies a change.
    pub(crate) fn change(&mut self, change: &Change<Row>, now: Instant) {
        let row = Arc::clone(change.object());
        let Some(key) = row.key() else { return };
        let initial = matches!(change, Change::Added { initial: true, .. });
        let event = (!initial).then(|| format::event(change));
        self.remove(&key);
        self.order.insert(&key, &row);
        self.changes += 1;
        if event.is_some() {
            self.newest.insert(self.changes, key.clone());
            if self.newest.len() > MAX_NEWEST {
                self.newest.pop_first();
            }
        }
        if event == Some(EventKind::Deleted) {
            self.deleted += 1;
            self.deletions.push_back((now, key.clone()));
        }
        self.entries.insert(key, Entry { row, event, at: now, number: self.changes });
    }

    /// Removes a row, if it is there.
    fn remove(&mut self, key: &ObjectKey) {
        let Some(entry) = self.entries.remove(key) else { return };
        self.order.remove(key, &entry.row);
        self.newest.remove(&entry.number);
        if entry.is_deleted() {
            self.deleted -= 1;
        }
    }

    /// Returns the number of objects.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.deleted
    }

    /// Removes objects that were deleted long enough ago. Returns true if there were any.
    pub(crate) fn forget(&mut self, now: Instant) -> bool {
        let before = self.entries.len();
        while let Some((_, key)) = self.deletions.pop_front_if(|(at, _)| is_over(*at, now)) {
            // It may have been added again since, and deleted again.
            if self.entries.get(&key).is_some_and(|it| it.is_deleted() && is_over(it.at, now)) {
                self.remove(&key);
            }
        }
        self.entries.len() < before
    }

    /// Returns the rows in the order of their keys, including those that were just deleted.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Row>)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.row))
    }

    /// Returns the rows in their order, of those that the filter wants.
    pub(crate) fn order(&self) -> &RowOrder {
        &self.order
    }

    /// Returns the position of a row in the order.
    pub(crate) fn position(&self, key: &ObjectKey) -> Option<usize> {
        self.order.position(key, &self.entries.get(key)?.row)
    }

    /// Returns a row by its key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<Row>> {
        self.entries.get(key).map(|it| &it.row)
    }

    /// Returns the change of a row, if it is recent.
    pub(crate) fn recent_change(&self, key: &ObjectKey, now: Instant) -> Option<EventKind> {
        self.entries.get(key).filter(|it| !is_over(it.at, now))?.event
    }

    /// Returns true if there is no object of this key, although its last state may still be shown.
    pub(crate) fn is_deleted(&self, key: &ObjectKey) -> bool {
        self.entries.get(key).is_none_or(Entry::is_deleted)
    }

    /// Returns true if an object of this name exists. Visits all rows, of which there are few if
    /// they are chosen by name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.values().any(|it| !it.is_deleted() && it.row.header().name == name)
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
        let cells: Vec<_> = shown.iter().map(|(_, row)| layout.cells(row, time)).collect();
        cells.iter().for_each(|it| layout.fit(it));
        let mut lines = vec![(None, layout.line(&layout.headings()))];
        for ((key, _), cells) in shown.iter().zip(&cells) {
            lines.push((self.recent_change(key, now), layout.line(cells)));
        }
        lines.extend(more.map(|it| (None, it)));
        lines
    }

    /// Returns true if there is no row to show.
    pub(super) fn is_empty(&self) -> bool {
        self.order.len() == 0
    }

    /// Returns the rows for `room` lines and, if there are more, a line about the others.
    fn fitting(&self, room: usize, window: &mut Window) -> (Vec<Shown<'_>>, Option<String>) {
        let count = self.order.len();
        if count <= room {
            if let Window::From { top, .. } = window {
                *top = 0;
            }
            return (self.order.from(0).collect(), None);
        }
        // One line is about the other rows.
        let room = room.saturating_sub(1);
        match window {
            Window::Newest => {
                let shown = self.newest(room);
                let more = self.about_others(&shown);
                (shown, Some(more))
            }
            Window::From { top, page } => {
                *page = room.max(1);
                *top = (*top).min(count.saturating_sub(*page));
                let shown: Vec<_> = self.order.from(*top).take(room).collect();
                let (first, last) = (*top + 1, *top + shown.len());
                let keys = "arrows, page keys, Home and End scroll";
                let more = match shown.len() {
                    0 => format!("{count} rows, which need a higher window"),
                    1 => format!("row {first} of {count}; {keys}"),
                    _ => format!("rows {first}-{last} of {count}; {keys}"),
                };
                (shown, Some(more))
            }
        }
    }

    /// Returns the rows that changed last and, if there are fewer than `room`, the first ones of
    /// the others, all in their order.
    fn newest(&self, room: usize) -> Vec<Shown<'_>> {
        let changed = self.newest.values().rev().take(room);
        let mut shown: BTreeMap<usize, Shown<'_>> = BTreeMap::new();
        for key in changed {
            let entry = self.entries.get_key_value(key);
            let place =
                entry.and_then(|(key, it)| Some((self.order.position(key, &it.row)?, (key, &it.row))));
            shown.extend(place);
        }
        for (at, row) in self.order.from(0).enumerate() {
            if shown.len() >= room {
                break;
            }
            shown.entry(at).or_insert(row);
        }
        shown.into_values().collect()
    }

    /// Returns the line about the rows that are not shown: how many, and the first of them.
    fn about_others(&self, shown: &[Shown<'_>]) -> String {
        let hidden = self.order.len() - shown.len();
        let mut shown = shown.iter().map(|it| it.0).peekable();
        // Both are in the same order.
        let others = self.order.from(0).filter(|(key, _)| shown.next_if(|it| it == key).is_none());
        let others = others.take(MAX_NAMED).map(|(_, row)| without_controls(row.header().name));
        let mut names = others.collect::<Vec<_>>().join(", ");
        if hidden > MAX_NAMED {
            names.push_str(", ...");
        }
        format!(
            "... and {hidden} more, changed earlier: {names}; -n, -l and --field-selector narrow them down"
        )
    }
}

impl Entry {
    fn is_deleted(&self) -> bool {
        self.event == Some(EventKind::Deleted)
    }
}

/// Returns true if a change is no longer highlighted.
fn is_over(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) >= HIGHLIGHT_TIME
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
        live_table.change(&Change::Updated { old: row("d"), new: row("d") }, begin + Duration::from_secs(9));
        let texts = |table: &LiveTable| -> Vec<String> {
            shown(table, 4, begin + Duration::from_secs(99)).into_iter().map(|it| it.1).collect()
        };
        let about = |names: &str| {
            format!("... and 3 more, changed earlier: {names}; -n, -l and --field-selector narrow them down")
        };
        // No other row has changed since the first list.
        assert_eq!(texts(&live_table), ["NAME", "a", "d", &about("b, c, e")]);
        live_table.change(&Change::Updated { old: row("e"), new: row("e") }, begin + Duration::from_secs(9));
        assert_eq!(texts(&live_table), ["NAME", "d", "e", &about("a, b, c")]);
        live_table.change(&added("f", true), begin);
        assert!(
            shown(&live_table, 4, begin)[3].1.starts_with("... and 4 more, changed earlier: a, b, c, ...;")
        );
    }

    #[test]
    fn an_object_that_is_deleted_and_added_again_is_not_forgotten() {
        let begin = Instant::now();
        let (mut live_table, second) = (LiveTable::default(), Duration::from_secs(1));
        let deleted = || Change::Deleted(Deleted::Seen(row("a")));
        live_table.change(&added("a", true), begin);
        live_table.change(&deleted(), begin);
        assert_eq!(live_table.len(), 0);
        live_table.change(&added("a", false), begin + second);
        assert_eq!(live_table.len(), 1);
        assert!(!live_table.forget(begin + HIGHLIGHT_TIME));
        assert!(live_table.has("a"));
        live_table.change(&deleted(), begin + second * 2);
        assert!(!live_table.forget(begin + HIGHLIGHT_TIME + second), "its own time has not passed");
        assert!(live_table.forget(begin + HIGHLIGHT_TIME + second * 2));
        assert_eq!((live_table.len(), live_table.order().len(), live_table.rows().count()), (0, 0, 0));
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
        assert_eq!(shown_in(&live_table, 2, &mut window, now)[1].1, "7 rows, which need a higher window");
        assert!(shown_in(&live_table, 3, &mut window, now)[2].1.starts_with("row 1 of 7; "));
        // When the terminal grows, everything is shown.
        window.scroll(Key::End);
        assert_eq!(shown_in(&live_table, 8, &mut window, now).len(), 8);
    }

    #[test]
    fn rows_are_sorted_by_the_value_of_their_field() {
        let now = Instant::now();
        let field: crate::watch::sort::SortBy = ".size".parse().expect("a path");
        let mut live_table = LiveTable::by_sort_key();
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
