//! Rows as text: headings, aligned columns, ages computed when they are shown. Pure; knows no
//! terminal.

use std::cmp::Ordering;
use std::sync::Arc;

use dogwatch::Object;
use dogwatch_apimachinery::print::age;
use jiff::Timestamp;
use unicode_width::UnicodeWidthStr;

use super::rows::{Column, Row};
use super::sort::natural;
use crate::sanitize::without_controls;

/// The number of spaces between two columns, as in kubectl.
const GAP: usize = 3;

/// The columns to show, of those that the server sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    /// The first column is the namespace.
    pub(crate) namespaces: bool,
    /// The columns that kubectl shows with `-o wide` are shown too.
    pub(crate) wide: bool,
    /// The kind, as a prefix of the names: `pod/web-1`.
    pub(crate) kind: Option<Arc<str>>,
}

/// The layout of rows: the columns, and their widths.
#[derive(Clone, Debug)]
pub(crate) struct TableLayout {
    columns: Arc<[Column]>,
    shape: Shape,
    /// The width of each cell of a line; they only grow, so that distant lines still align.
    widths: Vec<usize>,
}

impl TableLayout {
    /// Creates a layout that is as wide as its headings.
    pub(crate) fn new(columns: Arc<[Column]>, shape: Shape) -> Self {
        let mut layout = Self { columns, shape, widths: Vec::new() };
        let headings = layout.headings();
        layout.fit(&headings);
        layout
    }

    /// Returns a layout with other columns.
    pub(crate) fn with(&self, columns: Arc<[Column]>) -> Self {
        Self::new(columns, self.shape.clone())
    }

    /// Returns true if these are its columns.
    pub(crate) fn is_of(&self, columns: &[Column]) -> bool {
        *self.columns == *columns
    }

    /// Returns the headings, one for each cell of a line.
    pub(crate) fn headings(&self) -> Vec<String> {
        let namespace = self.shape.namespaces.then(|| "NAMESPACE".to_owned());
        let shown = self.columns.iter().filter(|it| it.is_shown(self.shape.wide));
        namespace.into_iter().chain(shown.map(|it| clean(&it.name.to_uppercase()))).collect()
    }

    /// Returns the cells of a row, with the ages at this time.
    pub(crate) fn cells(&self, row: &Row, now: Timestamp) -> Vec<String> {
        let namespace = self.shape.namespaces.then(|| clean(row.header().namespace.unwrap_or_default()));
        let shown = self.columns.iter().enumerate().filter(|(_, column)| column.is_shown(self.shape.wide));
        let cell = |(at, column): (usize, &Column)| match row.cells.get(at) {
            _ if column.is_age() => age::since(row.created(), now),
            Some(cell) if column.name == "Name" => match &self.shape.kind {
                Some(kind) => format!("{kind}/{}", clean(cell)),
                None => clean(cell),
            },
            Some(cell) => clean(cell),
            None => String::new(),
        };
        namespace.into_iter().chain(shown.map(cell)).collect()
    }

    /// Compares two rows by one of the columns that are shown: numbers by their value, ages from
    /// the newest object on.
    pub(crate) fn compare(&self, one: &Row, other: &Row, column: usize) -> Ordering {
        let namespaces = usize::from(self.shape.namespaces);
        let Some(column) = column.checked_sub(namespaces) else {
            return one.header().namespace.cmp(&other.header().namespace);
        };
        let mut shown = self.columns.iter().enumerate().filter(|(_, it)| it.is_shown(self.shape.wide));
        match shown.nth(column) {
            Some((_, it)) if it.is_age() => other.created().cmp(one.created()),
            Some((at, _)) => {
                let [one, other] = [one, other].map(|it| it.cells.get(at).map_or("", String::as_str));
                natural(one, other)
            }
            None => Ordering::Equal,
        }
    }

    /// Returns true if a cell that is shown contains a text in lower case.
    pub(crate) fn contains(&self, row: &Row, text: &str) -> bool {
        let namespace = row.header().namespace.filter(|_| self.shape.namespaces);
        let shown = self.columns.iter().zip(&row.cells).filter(|(it, _)| it.is_shown(self.shape.wide));
        let mut cells = namespace.into_iter().chain(shown.map(|(_, cell)| cell.as_str()));
        cells.any(|it| it.to_lowercase().contains(text))
    }

    /// Widens the columns for a line.
    pub(crate) fn fit(&mut self, cells: &[String]) {
        self.widths.resize(self.widths.len().max(cells.len()), 0);
        for (width, cell) in self.widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.width());
        }
    }

    /// Formats a line of cells, without trailing spaces. A cell that is wider than its column
    /// shifts the rest.
    pub(crate) fn line(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(&self.widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width.saturating_sub(cell.width()) + GAP));
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Sanitizes a cell: its first line, without control characters.
fn clean(cell: &str) -> String {
    let mut lines = cell.split(['\n', '\r', '\u{b}', '\u{c}']);
    let first = lines.next().unwrap_or_default();
    let mut clean = without_controls(first);
    if lines.next().is_some() {
        clean.push_str("...");
    }
    clean
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::rows::Columns;
    use super::*;

    fn columns() -> Arc<[Column]> {
        let columns = Columns::of(json!([
            { "name": "Name" },
            { "name": "Node", "priority": 1 },
            { "name": "Port(s)" },
            { "name": "Age", "description": "CreationTimestamp is a timestamp" },
        ]));
        columns.get()
    }

    fn row(namespace: &str, name: &str, ports: &str, created: &str) -> Row {
        let object =
            json!({ "metadata": { "name": name, "namespace": namespace, "creationTimestamp": created } });
        Row::of_table(json!({ "cells": [name, "hidden", ports, "long ago"], "object": object }))
    }

    fn text(shape: Shape, rows: &[Row]) -> Vec<String> {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().expect("a time");
        let mut layout = TableLayout::new(columns(), shape);
        let lines: Vec<_> = rows.iter().map(|it| layout.cells(it, now)).collect();
        lines.iter().for_each(|it| layout.fit(it));
        [layout.headings()].iter().chain(&lines).map(|it| layout.line(it)).collect()
    }

    #[test]
    fn rows_look_like_those_of_kubectl() {
        let rows = [
            row("default", "web", "80/TCP,443/TCP", "2026-01-01T00:00:00Z"),
            row("kube-system", "a", "", "2025-12-30T00:00:00Z"),
        ];
        assert_eq!(
            text(Shape::default(), &rows),
            ["NAME   PORT(S)          AGE", "web    80/TCP,443/TCP   60m", "a                       2d1h"]
        );
        assert_eq!(
            text(Shape { namespaces: true, ..Shape::default() }, &rows),
            [
                "NAMESPACE     NAME   PORT(S)          AGE",
                "default       web    80/TCP,443/TCP   60m",
                "kube-system   a                       2d1h",
            ]
        );
        assert_eq!(
            text(Shape { wide: true, ..Shape::default() }, &rows[..1]),
            ["NAME   NODE     PORT(S)          AGE", "web    hidden   80/TCP,443/TCP   60m"]
        );
        assert_eq!(
            text(Shape { kind: Some("service".into()), ..Shape::default() }, &rows[..1]),
            ["NAME          PORT(S)          AGE", "service/web   80/TCP,443/TCP   60m"]
        );
    }

    #[test]
    fn rows_are_compared_by_the_values_of_a_column() {
        let one = row("a", "web-9", "80", "2026-01-01T00:00:00Z");
        let other = row("b", "web-10", "80", "2025-01-01T00:00:00Z");
        let layout = TableLayout::new(columns(), Shape { namespaces: true, ..Shape::default() });
        let orders: Vec<_> = (0..5).map(|column| layout.compare(&one, &other, column)).collect();
        use Ordering::{Equal, Less};
        // NAMESPACE, NAME, PORT(S), AGE, and a column that does not exist any more.
        assert_eq!(orders, [Less, Less, Equal, Less, Equal]);
        assert!(layout.contains(&one, "eb-9") && !layout.contains(&one, "hidden"));
    }

    #[test]
    fn control_characters_and_further_lines_are_not_shown() {
        for (cell, shown) in [
            ("plain", "plain"),
            ("two\nlines", "two..."),
            ("clear\u{1b}[2J", "clear\u{fffd}[2J"),
            ("a\tb", "a\u{fffd}b"),
            ("", ""),
        ] {
            assert_eq!(clean(cell), shown);
        }
    }

    #[test]
    fn wide_characters_and_missing_cells_are_aligned() {
        let mut layout = TableLayout::new(columns(), Shape::default());
        let wide = ["日本".to_owned(), "x".to_owned()];
        layout.fit(&wide);
        assert_eq!(layout.line(&wide), "日本   x");
        let long = ["abcdefgh".to_owned(), "x".to_owned()];
        assert_eq!(layout.line(&long), "abcdefgh   x", "the column was not widened for it");
        assert_eq!(layout.cells(&Row::default(), Timestamp::UNIX_EPOCH), ["", "", "<unknown>"]);
    }
}
