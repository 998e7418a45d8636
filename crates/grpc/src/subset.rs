//! Deterministic subsetting: a few endpoints of many, chosen so that clients spread over all of
//! them and a change of the set changes little (gRPC's A68).
//!
//! Each client has its own seed. Endpoints are ranked by a hash of seed and id, and the first ones
//! are used: the rank of an endpoint does not depend on the other endpoints.

use std::sync::Arc;

use xxhash_rust::xxh64::xxh64;

use crate::endpoints::{Endpoint, EndpointSet};

/// Returns the set with at most `size` usable endpoints. Endpoints that are not usable stay, since
/// they may still have open calls. When one endpoint is added or removed, at most one other
/// endpoint leaves or enters the subset.
///
/// A size of 0 counts as 1. Choose the seed once per client, at random.
///
/// ```
/// use std::net::SocketAddr;
///
/// use dogwatch_grpc::{EndpointSet, subset};
///
/// let set = EndpointSet::at((1..=9).map(|it| SocketAddr::from(([10, 0, 0, it], 50051))));
/// assert_eq!(subset(&set, 3, 42).usable().count(), 3);
/// ```
#[must_use]
pub fn subset(set: &EndpointSet, size: usize, seed: u64) -> EndpointSet {
    let mut ranked: Vec<(u64, &Arc<Endpoint>)> =
        set.usable().map(|it| (xxh64(it.id.as_str().as_bytes(), seed), it)).collect();
    let size = size.max(1);
    if ranked.len() <= size {
        return set.clone();
    }
    // Ties between hashes are broken by id, so that the result depends only on seed and ids.
    ranked.select_nth_unstable_by(size - 1, |(one, a), (other, b)| (one, &a.id).cmp(&(other, &b.id)));
    ranked.truncate(size);
    let mut endpoints: Vec<_> = ranked.into_iter().map(|(_, it)| Arc::clone(it)).collect();
    endpoints.extend(set.endpoints.iter().filter(|it| !it.usable).cloned());
    endpoints.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    EndpointSet { generation: set.generation, endpoints, unavailable: set.unavailable.clone() }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::endpoints::EndpointId;

    fn endpoint(number: usize, usable: bool) -> Arc<Endpoint> {
        Arc::new(Endpoint {
            id: EndpointId::new(format!("pod-{number:04}")),
            addresses: vec![([10, 0, (number / 256) as u8, (number % 256) as u8], 80).into()],
            usable,
            ready: usable,
            serving: true,
            terminating: !usable,
            zone: None,
            node: None,
            pod: None,
            weight: 1,
        })
    }

    fn set(numbers: impl IntoIterator<Item = usize>) -> EndpointSet {
        let endpoints = numbers.into_iter().map(|it| endpoint(it, true)).collect();
        EndpointSet { generation: 1, endpoints, unavailable: None }
    }

    fn ids(set: &EndpointSet) -> BTreeSet<String> {
        set.usable().map(|it| it.id.to_string()).collect()
    }

    #[test]
    fn a_set_that_is_small_enough_is_unchanged_and_size_zero_counts_as_one() {
        assert_eq!(subset(&set(0..5), 5, 7), set(0..5));
        assert_eq!(subset(&set(0..5), 0, 7).endpoints.len(), 1);
    }

    #[test]
    fn draining_endpoints_stay_in_the_subset() {
        let mut all = set(0..10);
        all.endpoints.push(endpoint(99, false));
        let some = subset(&all, 3, 7);
        assert_eq!((some.usable().count(), some.endpoints.len()), (3, 4));
        assert!(some.endpoints.is_sorted_by(|one, other| one.id < other.id));
    }

    #[test]
    fn clients_spread_over_all_endpoints_of_the_set() {
        let mut load: BTreeMap<String, usize> = BTreeMap::new();
        for seed in 0..1000 {
            for id in ids(&subset(&set(0..50), 10, seed)) {
                *load.entry(id).or_default() += 1;
            }
        }
        assert_eq!(load.len(), 50);
        // 200 clients each on average; the standard deviation is below 13.
        assert!(load.values().all(|it| (130..270).contains(it)), "{load:?}");
    }

    proptest! {
        #[test]
        fn one_more_endpoint_replaces_at_most_one(count in 2usize..200, size in 1usize..30, seed in any::<u64>(), gone in any::<prop::sample::Index>()) {
            let all = ids(&subset(&set(0..count), size, seed));
            let gone = gone.index(count);
            let less = ids(&subset(&set((0..count).filter(|it| *it != gone)), size, seed));
            prop_assert!(all.difference(&less).count() <= 1);
            prop_assert!(less.difference(&all).count() <= 1);
            // Other endpoints do not move.
            let concerned = all.contains(&format!("pod-{gone:04}"));
            prop_assert!(concerned || all == less);
        }
    }
}
