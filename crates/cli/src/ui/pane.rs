//! The table of one kind: its rows, the filter, the order, the selected row, and the health of its
//! cache.
//!
//! Fed with changes and health reports of an informer. It holds rows as the server prints them, not
//! objects, and knows no terminal.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use dogwatch::ObjectKey;
use dogwatch::informer::{Change, Health, HealthState};
use tokio::time::Instant;

use super::scroll::{Move, top_with};
use crate::watch::layout::{Shape, TableLayout};
use crate::watch::live_table::LiveTable;
use crate::watch::rows::{Column, Columns, Row};

/// The columns by which a table scrolls sideways.
const SIDE_STEP: usize = 8;

/// The state of the cache of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheReport {
    pub(super) health: Health,
    pub(super) objects: usize,
    /// The memory of the cached rows.
    pub(super) bytes: Option<usize>,
}

/// The order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SortOrder {
    /// The column, as it is shown.
    pub(super) column: usize,
    pub(super) reversed: bool,
}

/// A table, and the part of it that is shown.
#[derive(Debug)]
pub(super) struct Pane {
    pub(super) table: LiveTable,
    pub(super) columns: Columns,
    pub(super) shape: Shape,
    pub(super) filter: String,
    pub(super) sort: Option<SortOrder>,
    pub(super) report: CacheReport,
    /// The last time at which the rows were those of the server.
    pub(super) synced_at: Option<Instant>,
    /// The time at which the informer was last seen to have listed again.
    pub(super) relisted_at: Option<Instant>,
    /// Set when all rows have to be filtered and sorted again: by other words or another column.
    is_stale: bool,
    /// Set when rows were added, removed or moved since the selected one was last found.
    is_moved: bool,
    /// The columns by which the rows are arranged.
    arranged: Arc<[Column]>,
    /// The selected row, and its position among those that are shown.
    selected: Option<ObjectKey>,
    at: usize,
    /// The first row and column of the window.
    top: usize,
    pub(super) left: usize,
}

impl Pane {
    pub(super) fn new(columns: Columns, shape: Shape) -> Self {
        Self {
            table: LiveTable::default(),
            arranged: columns.get(),
            columns,
            shape,
            filter: String::new(),
            sort: None,
            report: CacheReport::default(),
            synced_at: None,
            relisted_at: None,
            is_stale: false,
            is_moved: false,
            selected: None,
            at: 0,
            top: 0,
            left: 0,
        }
    }

    /// Applies a change of the collection.
    pub(super) fn change(&mut self, change: &Change<Row>, now: Instant) {
        self.table.change(change, now);
        self.is_moved = true;
    }

    /// Takes the state of the cache.
    pub(super) fn report(&mut self, report: CacheReport, now: Instant) {
        if report.health.state == HealthState::Synced {
            self.synced_at = Some(now);
        }
        if report.health.relists > self.report.health.relists {
            self.relisted_at = Some(now);
        }
        self.report = report;
    }

    /// Returns the time since the rows were last those of the server; `None` before the first sync.
    pub(super) fn synced_since(&self, now: Instant) -> Option<Duration> {
        self.synced_at.map(|it| now.saturating_duration_since(it))
    }

    /// Returns true if the rows are those of the server.
    pub(super) fn is_synced(&self) -> bool {
        self.report.health.state == HealthState::Synced
    }

    /// Forgets rows that were deleted a while ago, filters and sorts the others if the filter, the
    /// order or the columns have changed, and finds the selected one. Visits all rows only then.
    pub(super) fn refresh(&mut self, now: Instant) {
        self.is_moved |= self.table.forget(now);
        let columns = self.columns.get();
        self.is_stale |= *self.arranged != *columns;
        if std::mem::take(&mut self.is_stale) {
            self.arranged = columns;
            self.arrange();
            self.is_moved = true;
        }
        if std::mem::take(&mut self.is_moved) {
            let found = self.selected.as_ref().and_then(|key| self.table.position(key));
            self.select(found.unwrap_or(self.at));
        }
    }

    /// Filters and sorts all rows.
    fn arrange(&mut self) {
        let (layout, sort) = (self.layout(), self.sort);
        let compare = move |one: &Row, other: &Row| match sort {
            None => Ordering::Equal,
            Some(SortOrder { column, reversed: false }) => layout.compare(one, other, column),
            Some(SortOrder { column, reversed: true }) => layout.compare(other, one, column),
        };
        let layout = self.layout();
        let words: Vec<_> = self.filter.to_lowercase().split_whitespace().map(str::to_owned).collect();
        self.table.arrange(compare, move |row| words.iter().all(|it| layout.contains(row, it)));
    }

    pub(super) fn layout(&self) -> TableLayout {
        TableLayout::new(self.columns.get(), self.shape.clone())
    }

    /// Returns the number of rows that match the filter.
    pub(super) fn shown_count(&self) -> usize {
        self.table.order().len()
    }

    /// Returns the rows that match the filter in their order, from a position on.
    pub(super) fn shown_from(&self, top: usize) -> impl Iterator<Item = (&ObjectKey, &Arc<Row>)> {
        self.table.order().from(top)
    }

    /// Returns the position of the selected row.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn selected(&self) -> Option<&ObjectKey> {
        self.selected.as_ref()
    }

    /// Moves the selection.
    pub(super) fn go(&mut self, moved: Move, page: usize) {
        self.select(moved.from(self.at, page, self.shown_count().saturating_sub(1)));
    }

    /// Selects an object, if it is there.
    pub(super) fn select_key(&mut self, key: &ObjectKey) {
        self.selected = Some(key.clone());
        self.is_moved = true;
    }

    fn select(&mut self, at: usize) {
        self.at = at.min(self.shown_count().saturating_sub(1));
        let selected = self.shown_from(self.at).next().map(|(key, _)| key.clone());
        self.selected = selected;
    }

    /// Returns the first row of a window of `page` rows with the selected one.
    pub(super) fn window(&mut self, page: usize) -> usize {
        let last = self.shown_count().saturating_sub(page.max(1));
        self.top = top_with(self.top.min(last), self.at, page);
        self.top
    }

    /// Scrolls sideways. Returns false at the left edge.
    pub(super) fn go_left(&mut self) -> bool {
        let moved = self.left > 0;
        self.left = self.left.saturating_sub(SIDE_STEP);
        moved
    }

    pub(super) fn go_right(&mut self) {
        let widest = self.layout().headings().len().saturating_mul(32);
        self.left = self.left.saturating_add(SIDE_STEP).min(widest);
    }

    pub(super) fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.is_stale = true;
    }

    /// Sorts by the next column; after the last one, in the order of the server.
    pub(super) fn sort_by_next(&mut self) {
        let count = self.layout().headings().len();
        let next = self.sort.map_or(0, |it| it.column.saturating_add(1));
        self.sort = (next < count).then_some(SortOrder { column: next, reversed: false });
        self.is_stale = true;
    }

    pub(super) fn reverse(&mut self) {
        let sort = self.sort.unwrap_or(SortOrder { column: 0, reversed: false });
        self.sort = Some(SortOrder { reversed: !sort.reversed, ..sort });
        self.is_stale = true;
    }
}

#[cfg(test)]
mod tests {
    use dogwatch::informer::Deleted;
    use serde_json::json;

    use super::*;

    fn row(name: &str, size: u32) -> Arc<Row> {
        let object = json!({ "metadata": { "name": name } });
        Arc::new(Row::of_table(json!({ "cells": [name, size.to_string()], "object": object })))
    }

    fn pane(rows: &[(&str, u32)]) -> Pane {
        let columns = Columns::of(json!([{ "name": "Name" }, { "name": "Size" }]));
        let mut pane = Pane::new(columns, Shape::default());
        for (name, size) in rows {
            pane.change(&Change::Added { object: row(name, *size), initial: true }, Instant::now());
        }
        pane.refresh(Instant::now());
        pane
    }

    fn names(pane: &mut Pane) -> String {
        pane.refresh(Instant::now());
        pane.shown_from(0).map(|(key, _)| key.name()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_filter_keeps_rows_with_all_of_its_words() {
        let mut pane = pane(&[("web-a", 1), ("web-b", 22), ("db", 2)]);
        for (filter, expected) in
            [("", "db web-a web-b"), ("WEB", "web-a web-b"), ("web 2", "web-b"), ("x", "")]
        {
            pane.set_filter(filter.to_owned());
            assert_eq!(names(&mut pane), expected, "{filter:?}");
        }
        assert_eq!(pane.selected(), None);
    }

    #[test]
    fn rows_are_sorted_by_one_column_after_the_other() {
        let mut pane = pane(&[("a", 10), ("b", 9), ("c", 100)]);
        pane.sort_by_next();
        assert_eq!(names(&mut pane), "a b c");
        pane.sort_by_next();
        assert_eq!(names(&mut pane), "b a c");
        pane.reverse();
        assert_eq!(names(&mut pane), "c a b");
        pane.sort_by_next();
        assert_eq!((names(&mut pane).as_str(), pane.sort), ("a b c", None));
    }

    #[test]
    fn the_selection_stays_on_its_object_and_moves_on_when_it_is_deleted() {
        let mut pane = pane(&[("b", 1), ("c", 1), ("d", 1)]);
        pane.go(Move::Down, 9);
        let selected = |pane: &Pane| pane.selected().map(|it| it.name().to_owned());
        assert_eq!(selected(&pane).as_deref(), Some("c"));
        let begin = Instant::now();
        pane.change(&Change::Added { object: row("a", 1), initial: false }, begin);
        pane.refresh(begin);
        assert_eq!((selected(&pane).as_deref(), pane.at()), (Some("c"), 2));
        pane.change(&Change::Deleted(Deleted::Seen(row("c", 1))), begin);
        pane.refresh(begin);
        assert_eq!(selected(&pane).as_deref(), Some("c"), "shown for a few seconds");
        pane.refresh(begin + Duration::from_secs(60));
        assert_eq!((selected(&pane).as_deref(), pane.at()), (Some("d"), 2));
    }

    #[test]
    fn the_window_shows_the_selected_row_and_no_empty_lines() {
        let rows: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|it| (it, 1)).to_vec();
        let mut pane = pane(&rows);
        pane.go(Move::End, 3);
        assert_eq!(pane.window(3), 3);
        pane.go(Move::Up, 3);
        assert_eq!(pane.window(3), 3);
        pane.go(Move::PageUp, 3);
        assert_eq!(pane.window(3), 1);
        assert_eq!(pane.window(10), 0, "the terminal has grown");
    }

    #[test]
    fn a_further_list_is_noticed_by_its_count() {
        let (mut pane, now) = (pane(&[]), Instant::now());
        let mut report = CacheReport::default();
        report.health.state = HealthState::Synced;
        pane.report(report.clone(), now);
        assert!(pane.is_synced() && pane.synced_at == Some(now) && pane.relisted_at.is_none());
        report.health.relists = 1;
        report.health.state = HealthState::Starting;
        let later = now + Duration::from_secs(5);
        pane.report(report, later);
        assert_eq!((pane.relisted_at, pane.synced_since(later)), (Some(later), Some(Duration::from_secs(5))));
    }
}
