//! The distinct keys that were seen last, in bounded memory.

use std::collections::HashSet;
use std::hash::Hash;

/// A set that remembers at least the `limit` distinct keys that were inserted last, and at most
/// twice as many.
///
/// There are two generations: when the younger one is full, it replaces the older one. That needs
/// neither a second copy of the keys nor an order among them.
#[derive(Debug)]
pub(super) struct RecentKeys<K> {
    limit: usize,
    younger: HashSet<K>,
    older: HashSet<K>,
}

impl<K: Clone + Eq + Hash> RecentKeys<K> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, younger: HashSet::new(), older: HashSet::new() }
    }

    /// Adds a key. Returns true if older keys were forgotten for it.
    pub(super) fn insert(&mut self, key: &K) -> bool {
        if self.younger.contains(key) {
            return false;
        }
        let is_full = self.younger.len() >= self.limit;
        let forgets = is_full && !self.older.is_empty();
        if is_full {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(key.clone());
        forgets
    }

    /// Returns all remembered keys, each once.
    pub(super) fn all(&self) -> Vec<K> {
        self.younger.union(&self.older).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(keys: &RecentKeys<u32>) -> Vec<u32> {
        let mut all = keys.all();
        all.sort_unstable();
        all
    }

    #[test]
    fn the_keys_that_were_inserted_last_are_remembered() {
        let mut keys = RecentKeys::new(10);
        for number in 0..1000 {
            keys.insert(&number);
            // A key that is inserted again and again is never forgotten.
            keys.insert(&0);
            let all = sorted(&keys);
            assert!(all.len() <= 20 && all[0] == 0, "{all:?}");
            assert!((number.saturating_sub(8)..=number).all(|it| all.contains(&it)), "{all:?}");
        }
    }

    #[test]
    fn keys_that_are_repeated_displace_nothing() {
        let mut keys = RecentKeys::new(10);
        for _ in 0..100 {
            for number in 0..10 {
                assert!(!keys.insert(&number));
            }
        }
        assert_eq!(sorted(&keys), (0..10).collect::<Vec<_>>());
        assert!((10..20).all(|it| !keys.insert(&it)), "nothing is forgotten yet");
        assert_eq!(sorted(&keys), (0..20).collect::<Vec<_>>());
        assert!(keys.insert(&20));
        assert_eq!(sorted(&keys), (10..21).collect::<Vec<_>>());
    }
}
