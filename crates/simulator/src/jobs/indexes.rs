//! Sets of completion indexes as the status of an indexed Job holds them, such as `0,2-5`.

use std::collections::BTreeSet;
use std::fmt;

/// A set of indexes, as intervals that do not touch, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i64, i64)>);

impl Indexes {
    /// Reads indexes below a limit. What is not readable is left out.
    pub(super) fn parse(text: &str, limit: i64) -> Self {
        let mut indexes = Self::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>())
                && (0..limit).contains(&first)
            {
                let last = last.min(limit.saturating_sub(1)).max(first);
                indexes = indexes.merged(&Self(vec![(first, last)]));
            }
        }
        indexes
    }

    /// Returns the set with more indexes.
    pub(super) fn with(&self, more: &BTreeSet<i64>) -> Self {
        self.merged(&Self(more.iter().map(|it| (*it, *it)).collect()))
    }

    /// Returns the union of two sets.
    pub(super) fn merged(&self, other: &Self) -> Self {
        let mut all: Vec<_> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (first, last) in all {
            match merged.last_mut() {
                Some(previous) if first <= previous.1.saturating_add(1) => previous.1 = previous.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    pub(super) fn len(&self) -> i64 {
        self.0
            .iter()
            .fold(0, |sum, (first, last)| sum.saturating_add(last.saturating_sub(*first).saturating_add(1)))
    }

    pub(super) fn contains(&self, index: i64) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= index);
        after > 0 && self.0[after - 1].1 >= index
    }

    /// Returns the number of indexes that are in another set too.
    pub(super) fn shared_with(&self, other: &Self) -> i64 {
        self.len().saturating_add(other.len()).saturating_sub(self.merged(other).len())
    }

    /// Returns the lowest indexes below a limit that are not in the set.
    pub(super) fn missing(&self, limit: i64, count: usize) -> Vec<i64> {
        let (mut missing, mut candidate) = (Vec::new(), 0);
        for (first, last) in self.0.iter().copied().chain([(limit, limit)]) {
            while candidate < first.min(limit) && missing.len() < count {
                missing.push(candidate);
                candidate += 1;
            }
            candidate = candidate.max(last.saturating_add(1));
        }
        missing
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (first, last)) in self.0.iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            match last.saturating_sub(*first) {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn intervals_behave_as_sets(one in proptest::collection::btree_set(0..40i64, 0..40), two in proptest::collection::btree_set(0..40i64, 0..40), count in 0..50usize) {
            let (left, right) = (Indexes::default().with(&one), Indexes::default().with(&two));
            let union: BTreeSet<i64> = one.union(&two).copied().collect();
            let merged = left.merged(&right);
            prop_assert_eq!(merged.len(), union.len() as i64);
            prop_assert!((-1..45).all(|it| merged.contains(it) == union.contains(&it)));
            prop_assert_eq!(left.shared_with(&right), one.intersection(&two).count() as i64);
            prop_assert_eq!(Indexes::parse(&merged.to_string(), 40), merged.clone());
            let missing: Vec<i64> = (0..40).filter(|it| !union.contains(it)).take(count).collect();
            prop_assert_eq!(merged.missing(40, count), missing);
        }
    }

    #[test]
    fn intervals_are_written_as_kubernetes_does() {
        for text in ["", "0", "0,1", "0-2", "0,2-5,9"] {
            assert_eq!(Indexes::parse(text, 10).to_string(), text);
        }
        assert_eq!(Indexes::parse("1-x,3,4-99,200", 10).to_string(), "3-9");
        assert_eq!(Indexes::parse("0-9223372036854775807", 3).len(), 3);
    }
}
