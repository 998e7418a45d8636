//! Subsetting: connects a client to a few endpoints of many, so that a thousand clients of a
//! thousand pods do not hold a million connections.
//!
//! Uses rendezvous hashing (gRPC's A68): each client scores every endpoint and keeps the best. One
//! endpoint more or less changes at most one member, and clients with different seeds choose
//! differently. Each chosen endpoint that cannot be reached is replaced by the next best until it
//! can: a node that fails with all of a client's endpoints is no outage.

use xxhash_rust::xxh64::xxh64;

/// Returns which of `keys` belong to the subset of `size` for this seed, in order. Chosen endpoints
/// that are `missing`, by index, stay in it, and as many others that are not missing are added.
pub(crate) fn subset<'a>(
    keys: impl Iterator<Item = &'a str>,
    size: usize,
    seed: u64,
    missing: impl Fn(usize) -> bool,
) -> Vec<bool> {
    let mut scored: Vec<_> =
        keys.enumerate().map(|(index, key)| (xxh64(key.as_bytes(), seed), index)).collect();
    let mut chosen = vec![false; scored.len()];
    let mut rest = Vec::new();
    if size < scored.len() {
        scored.select_nth_unstable(size);
        rest = scored.split_off(size);
    }
    let mut wanting = scored.iter().filter(|it| missing(it.1)).count();
    if wanting > 0 {
        rest.sort_unstable();
        // Replacements that cannot be reached keep trying, and so does the next one after them.
        for (score, index) in rest {
            if wanting == 0 {
                break;
            }
            wanting -= usize::from(!missing(index));
            scored.push((score, index));
        }
    }
    for (_, index) in scored {
        chosen[index] = true;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|it| format!("pod-{it}")).collect()
    }

    fn chosen(names: &[String], size: usize, seed: u64) -> BTreeSet<String> {
        let keep = subset(names.iter().map(String::as_str), size, seed, |_| false);
        names.iter().zip(keep).filter(|it| it.1).map(|it| it.0.clone()).collect()
    }

    #[test]
    fn a_subset_of_all_or_more_is_all() {
        let names = names(5);
        assert_eq!(chosen(&names, 5, 1).len(), 5);
        assert_eq!(chosen(&names, 50, 1).len(), 5);
        assert_eq!(chosen(&names, 0, 1).len(), 0);
    }

    #[test]
    fn clients_spread_over_all_endpoints() {
        let names = names(20);
        let mut taken = std::collections::BTreeMap::new();
        for seed in 0..1_000 {
            for name in chosen(&names, 4, seed) {
                *taken.entry(name).or_insert(0) += 1;
            }
        }
        assert_eq!(taken.len(), 20);
        assert!(taken.values().all(|it| (130..=270).contains(it)), "{taken:?}");
    }

    /// A68 requires that growing from n endpoints by one moves about one connection in n, whatever
    /// the size of a subset.
    #[test]
    fn one_more_endpoint_moves_one_connection_in_n() {
        let names = names(101);
        for size in [5, 20, 50] {
            let clients = 1_000;
            let moved: usize = (0..clients)
                .map(|seed| {
                    let (before, after) = (chosen(&names[..100], size, seed), chosen(&names, size, seed));
                    before.difference(&after).count()
                })
                .sum();
            let share = moved as f64 / (clients as usize * size) as f64;
            // One in 101 on average; with 1,000 clients of 5 connections, three standard deviations
            // are 0.4 of that.
            assert!((0.005..0.015).contains(&share), "{size}: {share}");
        }
    }

    proptest! {
        /// As many endpoints as requested can be reached, if there are so many; and every endpoint
        /// that is chosen without failures stays chosen.
        #[test]
        fn each_missing_endpoint_is_replaced_by_another(
            missing in prop::collection::vec(any::<bool>(), 1..40),
            size in 1usize..10,
            seed: u64,
        ) {
            let names = names(missing.len());
            let keys = || names.iter().map(String::as_str);
            let well = subset(keys(), size, seed, |_| false);
            let now = subset(keys(), size, seed, |it| missing[it]);
            prop_assert!(well.iter().zip(&now).all(|(well, now)| now >= well));
            let reached = now.iter().zip(&missing).filter(|(chosen, missing)| **chosen && !**missing).count();
            prop_assert_eq!(reached, size.min(missing.iter().filter(|it| !**it).count()));
        }

        #[test]
        fn one_more_endpoint_changes_at_most_one_member(count in 1usize..40, size in 1usize..10, seed: u64) {
            let names = names(count + 1);
            let (before, after) = (chosen(&names[..count], size, seed), chosen(&names, size, seed));
            prop_assert!(before.difference(&after).count() <= 1);
            prop_assert!(after.len() == size.min(count + 1));
        }
    }
}
