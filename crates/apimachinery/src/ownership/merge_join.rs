//! A merge join of two sorted sequences, shared by set operations and comparisons.

use std::cmp::Ordering;

/// An entry of one of two sequences, or of both if both have its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pair<L, R> {
    Left(L),
    Right(R),
    Both(L, R),
}

/// Walks two sequences in the order of their keys. Each must be sorted by its key, without
/// duplicates.
pub(super) fn merge_join<L, R>(
    left: impl IntoIterator<Item = L>,
    right: impl IntoIterator<Item = R>,
    order: impl Fn(&L, &R) -> Ordering,
) -> impl Iterator<Item = Pair<L, R>> {
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    std::iter::from_fn(move || {
        let first = match (left.peek(), right.peek()) {
            (Some(l), Some(r)) => order(l, r),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        match first {
            Ordering::Less => left.next().map(Pair::Left),
            Ordering::Greater => right.next().map(Pair::Right),
            Ordering::Equal => left.next().zip(right.next()).map(|(l, r)| Pair::Both(l, r)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_comes_once_and_in_order() {
        let pairs: Vec<_> = merge_join([1, 3, 4], [2, 3, 5], Ord::cmp).collect();
        let expected = [Pair::Left(1), Pair::Right(2), Pair::Both(3, 3), Pair::Left(4), Pair::Right(5)];
        assert_eq!(pairs, expected);
        assert_eq!(merge_join([0; 0], [0; 0], Ord::cmp).count(), 0);
    }
}
