//! The rows of a table in their order, of which any window can be read. Pure.
//!
//! A change costs the logarithm of the number of rows and the length of a chunk, and a window its
//! own rows and the number of chunks. So a picture of a hundred thousand rows, drawn five times a
//! second, is about as cheap as one of a hundred.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use dogwatch::ObjectKey;

use super::rows::Row;

/// The number of rows at which a chunk is divided. Larger ones move more rows for each insertion,
/// and smaller ones are more to count for each window.
const MAX_CHUNK: usize = 512;

type Compare = Box<dyn Fn(&Row, &Row) -> Ordering + Send>;
type Filter = Box<dyn Fn(&Row) -> bool + Send>;

/// The rows that match a filter, sorted by a comparison and, where that is undecided, by their
/// keys.
pub(crate) struct RowOrder {
    compare: Compare,
    wants: Filter,
    /// Sorted. No chunk is empty.
    chunks: Vec<Vec<(ObjectKey, Arc<Row>)>>,
    len: usize,
}

/// The place of a row: a chunk, and the position in it.
type Place = (usize, usize);

impl RowOrder {
    pub(crate) fn new(
        compare: impl Fn(&Row, &Row) -> Ordering + Send + 'static,
        wants: impl Fn(&Row) -> bool + Send + 'static,
    ) -> Self {
        Self { compare: Box::new(compare), wants: Box::new(wants), chunks: Vec::new(), len: 0 }
    }

    /// Replaces all rows, which may have any order.
    pub(crate) fn fill<'a>(&mut self, rows: impl Iterator<Item = (&'a ObjectKey, &'a Arc<Row>)>) {
        let wanted = rows.filter(|(_, row)| (self.wants)(row));
        let mut all: Vec<_> = wanted.map(|(key, row)| (key.clone(), Arc::clone(row))).collect();
        all.sort_by(|(one_key, one), (other_key, other)| {
            (self.compare)(one, other).then_with(|| one_key.cmp(other_key))
        });
        self.len = all.len();
        // Half full, so that the next insertions do not divide all of them.
        self.chunks = all.chunks(MAX_CHUNK / 2).map(<[_]>::to_vec).collect();
    }

    /// Adds a row, unless the filter excludes it.
    pub(crate) fn insert(&mut self, key: &ObjectKey, row: &Arc<Row>) {
        if !(self.wants)(row) {
            return;
        }
        let (Ok((chunk, at)) | Err((chunk, at))) = self.find(key, row);
        if chunk == self.chunks.len() {
            self.chunks.push(Vec::new());
        }
        let rows = &mut self.chunks[chunk];
        rows.insert(at, (key.clone(), Arc::clone(row)));
        self.len += 1;
        if rows.len() > MAX_CHUNK {
            let rest = rows.split_off(rows.len() / 2);
            self.chunks.insert(chunk + 1, rest);
        }
    }

    /// Removes a row, which has to be as it was inserted.
    pub(crate) fn remove(&mut self, key: &ObjectKey, row: &Row) {
        let Ok((chunk, at)) = self.find(key, row) else { return };
        self.chunks[chunk].remove(at);
        self.len -= 1;
        if self.chunks[chunk].is_empty() {
            self.chunks.remove(chunk);
        }
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the position of a row; `None` if the filter excludes it.
    pub(crate) fn position(&self, key: &ObjectKey, row: &Row) -> Option<usize> {
        let (chunk, at) = self.find(key, row).ok()?;
        Some(self.chunks[..chunk].iter().map(Vec::len).sum::<usize>() + at)
    }

    /// Returns the rows from a position on.
    pub(crate) fn from(&self, start: usize) -> impl Iterator<Item = (&ObjectKey, &Arc<Row>)> {
        let (mut chunk, mut at) = (0, start);
        while let Some(rows) = self.chunks.get(chunk).filter(|it| it.len() <= at) {
            (chunk, at) = (chunk + 1, at - rows.len());
        }
        let rows = self.chunks[chunk..].iter().flatten();
        rows.skip(at).map(|(key, row)| (key, row))
    }

    /// Returns the place of a row, or the one where it belongs.
    fn find(&self, key: &ObjectKey, row: &Row) -> Result<Place, Place> {
        let compare = |(other_key, other): &(ObjectKey, Arc<Row>)| {
            (self.compare)(other, row).then_with(|| other_key.cmp(key))
        };
        let chunk = self.chunks.partition_point(|it| it.last().is_some_and(|it| compare(it).is_lt()));
        // A row behind all others belongs to the last chunk.
        let chunk = chunk.min(self.chunks.len().saturating_sub(1));
        let Some(rows) = self.chunks.get(chunk) else { return Err((0, 0)) };
        match rows.binary_search_by(compare) {
            Ok(at) => Ok((chunk, at)),
            Err(at) => Err((chunk, at)),
        }
    }
}

impl Default for RowOrder {
    /// All rows, in the order of their keys.
    fn default() -> Self {
        Self::new(|_, _| Ordering::Equal, |_| true)
    }
}

impl fmt::Debug for RowOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowOrder").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering as Atomic};

    use super::*;

    fn row(size: usize) -> Arc<Row> {
        Arc::new(Row::of_cells("", &[&size.to_string()]))
    }

    fn size(row: &Row) -> usize {
        row.cells[0].parse().expect("a number")
    }

    fn key(at: usize) -> ObjectKey {
        ObjectKey::cluster(&format!("row-{at:06}"))
    }

    fn contents(order: &RowOrder) -> Vec<(usize, ObjectKey)> {
        order.from(0).map(|(key, row)| (size(row), key.clone())).collect()
    }

    #[test]
    fn rows_are_sorted_by_the_comparison_and_then_by_key() {
        let mut order = RowOrder::new(|one, other| size(other).cmp(&size(one)), |it| size(it) < 9);
        for (at, size) in [(3, 1), (2, 2), (1, 2), (4, 9)] {
            order.insert(&key(at), &row(size));
        }
        assert_eq!(contents(&order), [(2, key(1)), (2, key(2)), (1, key(3))]);
        assert_eq!((order.len(), order.position(&key(3), &row(1))), (3, Some(2)));
        assert_eq!(order.position(&key(4), &row(9)), None, "the filter excludes it");
        order.remove(&key(2), &row(2));
        order.remove(&key(4), &row(9));
        assert_eq!(contents(&order), [(2, key(1)), (1, key(3))]);
    }

    /// Thousands of operations in a fixed pseudo-random order, compared with a sorted vector.
    #[test]
    fn insertions_and_removals_in_any_order_leave_what_a_sort_would() {
        let by_size = |one: &Row, other: &Row| size(one).cmp(&size(other));
        let mut order = RowOrder::new(by_size, |_| true);
        let (mut model, mut number) = (std::collections::BTreeMap::<usize, usize>::new(), 7_usize);
        for _ in 0..6_000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (at, new) = (number >> 33 & 0x7ff, number >> 50 & 0xff);
            if let Some(old) = model.remove(&at) {
                order.remove(&key(at), &row(old));
            }
            if new % 4 > 0 {
                order.insert(&key(at), &row(new));
                model.insert(at, new);
            }
        }
        let mut expected: Vec<_> = model.iter().map(|(at, size)| (*size, key(*at))).collect();
        expected.sort();
        assert!(expected.len() > MAX_CHUNK, "more than one chunk");
        assert_eq!(contents(&order), expected);
        for (at, (size, key)) in expected.iter().enumerate().step_by(97) {
            assert_eq!(order.position(key, &row(*size)), Some(at));
            assert_eq!(order.from(at).next().map(|it| it.0), Some(key));
        }
        assert_eq!(order.from(expected.len()).count(), 0);
        let mut filled = RowOrder::new(by_size, |_| true);
        let rows: Vec<_> = model.iter().map(|(at, size)| (key(*at), row(*size))).collect();
        filled.fill(rows.iter().map(|(key, row)| (key, row)));
        assert_eq!((contents(&filled), filled.len()), (expected, model.len()));
    }

    #[test]
    fn a_change_compares_with_few_of_many_rows() {
        let compared = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&compared);
        let mut order = RowOrder::new(
            move |one, other| {
                counter.fetch_add(1, Atomic::Relaxed);
                size(one).cmp(&size(other))
            },
            |_| true,
        );
        let rows: Vec<_> = (0..100_000).map(|at| (key(at), row(at))).collect();
        order.fill(rows.iter().map(|(key, row)| (key, row)));
        compared.store(0, Atomic::Relaxed);
        order.remove(&key(50_000), &row(50_000));
        order.insert(&key(50_000), &row(3));
        assert_eq!(order.position(&key(50_000), &row(3)), Some(4));
        let compared = compared.load(Atomic::Relaxed);
        assert!(compared < 100, "{compared} comparisons");
    }
}
