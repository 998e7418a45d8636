//! The live table of a collection: its rows, their recent changes, and a selection of them if not
//! all fit. Pure; knows no terminal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dogwatch::api::EventKind;
use dogwatch::informer::Change;
use dogwatch::{Object, ObjectKey};
use jiff::Timestamp;
use tokio::time::Instant;

use super::format;
use super::layout::TableLayout;
use super::rows::{Column, Row};

/// The time for which a change is highlighted, and a deleted object is still shown.
const HIGHLIGHT_TIME: Duration = Duration::from_secs(3);

/// A line, and the recent change of its object.
pub(super) type Marked = (Option<EventKind>, String);

/// The rows of a collection, by their changes.
#[derive(Debug, Default)]
pub(super) struct LiveTable {
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
    pub(super) fn change(&mut self, change: &Change<Row>, now: Instant) {
        let row = Arc::clone(change.object());
        let Some(key) = row.key() else { return };
        let initial = matches!(change, Change::Added { initial: true, .. });
        let event = (!initial).then(|| format::event(change));
        self.entries.insert(key, Entry { row, event, at: now });
    }

    /// Returns the number of objects.
    pub(super) fn len(&self) -> usize {
        self.entries.values().filter(|it| it.event != Some(EventKind::Deleted)).count()
    }

    /// Removes objects that were deleted long enough ago.
    pub(super) fn forget(&mut self, now: Instant) {
        self.entries.retain(|_, it| it.event != Some(EventKind::Deleted) || it.is_fresh(now));
    }

    /// Returns the headings and the rows, in at most `room` lines. If not all fit, the most
    /// recently changed ones are shown.
    pub(super) fn lines(
        &self,
        columns: Arc<[Column]>,
        namespaces: bool,
        room: usize,
        (now, time): (Instant, Timestamp),
    ) -> Vec<Marked> {
        let mut layout = TableLayout::new(columns, namespaces);
        let shown = self.fitting(room.saturating_sub(1));
        let cells: Vec<_> = shown.iter().map(|it| layout.cells(&it.row, time)).collect();
        cells.iter().for_each(|it| layout.fit(it));
        let mut lines = vec![(None, layout.line(&layout.headings()))];
        for (entry, cells) in shown.iter().zip(&cells) {
            lines.push((entry.event.filter(|_| entry.is_fresh(now)), layout.line(cells)));
        }
        let hidden = self.entries.len() - shown.len();
        if hidden > 0 {
            let more = format!(
                "... and {hidden} more, changed earlier; narrow them down with -n, -l or --field-selector"
            );
            lines.push((None, more));
        }
        lines
    }

    fn fitting(&self, room: usize) -> Vec<&Entry> {
        if self.entries.len() <= room {
            return self.entries.values().collect();
        }
        let mut newest: Vec<_> = self.entries.iter().collect();
        newest.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.at));
        // One line shows the number of hidden rows.
        newest.truncate(room.saturating_sub(1));
        newest.sort_by_key(|(key, _)| *key);
        newest.into_iter().map(|(_, entry)| entry).collect()
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
        let columns = Columns::of(json!([{ "name": "Name" }])).get();
        live_table.lines(columns, false, room, (now, Timestamp::UNIX_EPOCH))
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
}
