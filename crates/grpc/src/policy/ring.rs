//! A hash ring (gRPC's A42): calls with the same key go to the same endpoint, as far as endpoints
//! stay.
//!
//! The ring contains all usable endpoints, connected or not, so that a connection that opens or
//! closes moves only its own keys. A key belongs to the endpoint of the first point at or after its
//! hash. While that endpoint is connecting, its calls wait; when it has failed, they go to the next
//! one on the ring. Calls without a key go to the next ready endpoint from a random point.
//!
//! Hashes, points and their number are those of grpc-go and Envoy, computed from addresses, so that
//! all these clients agree.

use xxhash_rust::xxh64::xxh64;

/// A point on the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    hash: u64,
    /// The first endpoint from here on that has not failed; `None` if it is connecting.
    owner: Option<u32>,
    /// The first ready endpoint from here on.
    ready: u32,
}

/// An endpoint on the ring.
#[derive(Debug, Clone)]
pub(crate) struct RingEndpoint<'a> {
    /// The text that its points are computed from; must stay the same as long as the endpoint does.
    pub(crate) key: &'a str,
    pub(crate) weight: u32,
    pub(crate) state: RingState,
}

/// The connection state of an endpoint on the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RingState {
    /// The index among the ready endpoints.
    Ready(usize),
    /// The endpoint is connecting, or about to, and has not failed.
    Connecting,
    /// The endpoint cannot be called.
    Failed,
}

/// The points in the order of their hashes; empty if no endpoint is ready.
#[derive(Debug)]
pub(crate) struct Ring {
    points: Vec<Point>,
}

/// Returns the hash of a key: xxHash64 without a seed, as in Envoy and gRPC.
pub(crate) fn hash(key: &[u8]) -> u64 {
    xxh64(key, 0)
}

impl Ring {
    /// Creates a ring of at least `smallest` points, up to `largest`, shared by weight; each
    /// endpoint has at least one.
    pub(crate) fn new(endpoints: &[RingEndpoint<'_>], smallest: usize, largest: usize) -> Self {
        let mut order: Vec<(u64, RingState)> = Vec::new();
        let weight = |it: &RingEndpoint<'_>| f64::from(it.weight.max(1));
        let total: f64 = endpoints.iter().map(weight).sum();
        let lightest = endpoints.iter().map(|it| weight(it) / total).fold(f64::INFINITY, f64::min);
        let scale = ((lightest * smallest as f64).ceil() / lightest).min(largest as f64);
        // In the order of the keys, with the rounding carried over, as in grpc-go's `newRing`.
        let mut endpoints: Vec<_> = endpoints.iter().collect();
        endpoints.sort_unstable_by_key(|it| it.key);
        let mut target = 0.0;
        for endpoint in endpoints {
            target += scale * weight(endpoint) / total;
            let mut number = 0;
            while number == 0 || (order.len() as f64) < target {
                order.push((hash(format!("{}_{number}", endpoint.key).as_bytes()), endpoint.state));
                number += 1;
            }
        }
        order.sort_unstable();
        Self { points: settle(&order) }
    }

    /// Returns the endpoint for a key, `None` while it is connecting; without a key, any ready one.
    /// At least one must be ready.
    pub(crate) fn pick(&self, key: Option<u64>, random: impl FnOnce() -> u64) -> Option<usize> {
        match key {
            Some(hash) => self.points[self.at(hash)].owner.map(|it| it as usize),
            None => Some(self.points[self.at(random())].ready as usize),
        }
    }

    /// Returns the ready endpoints, each at least once, in the order in which a refused key tries
    /// them.
    pub(crate) fn from(&self, hash: u64) -> impl Iterator<Item = usize> {
        let (before, after) = self.points.split_at(if self.points.is_empty() { 0 } else { self.at(hash) });
        after.iter().chain(before).map(|it| it.ready as usize)
    }

    /// Returns the index of the first point at or after a hash, wrapping around.
    fn at(&self, hash: u64) -> usize {
        let index = self.points.partition_point(|it| it.hash < hash);
        if index == self.points.len() { 0 } else { index }
    }

    /// Returns true if no endpoint on the ring is ready.
    pub(crate) fn is_empty(&self) -> bool {
        self.points.is_empty()
    }
}

/// Computes for every point the owner of its keys, and the next ready endpoint.
fn settle(order: &[(u64, RingState)]) -> Vec<Point> {
    let ready = |it: RingState| match it {
        RingState::Ready(index) => Some(index as u32),
        RingState::Connecting | RingState::Failed => None,
    };
    let Some(mut next_ready) = order.iter().find_map(|it| ready(it.1)) else {
        return Vec::new();
    };
    let first = order.iter().find(|it| it.1 != RingState::Failed);
    let mut next_owner = first.and_then(|it| ready(it.1));
    let mut points: Vec<_> = Vec::with_capacity(order.len());
    for (hash, state) in order.iter().rev() {
        next_ready = ready(*state).unwrap_or(next_ready);
        if *state != RingState::Failed {
            next_owner = ready(*state);
        }
        points.push(Point { hash: *hash, owner: next_owner, ready: next_ready });
    }
    points.reverse();
    points
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|it| format!("10.0.0.{it}:80")).collect()
    }

    fn ring(names: &[String], state: impl Fn(usize) -> RingState) -> Ring {
        let mut endpoints = Vec::new();
        for (index, key) in names.iter().enumerate() {
            endpoints.push(RingEndpoint { key, weight: 1, state: state(index) });
        }
        Ring::new(&endpoints, 1024, 4096)
    }

    /// Builds a ring on which all endpoints are ready but one, which has this state.
    fn but(names: &[String], one: usize, state: RingState) -> Ring {
        ring(names, |it| if it == one { state } else { RingState::Ready(it) })
    }

    fn owner(ring: &Ring, hash: u64) -> Option<usize> {
        ring.pick(Some(hash), || 0)
    }

    fn keys() -> impl Iterator<Item = u64> {
        (0..5_000u32).map(|it| hash(&it.to_le_bytes()))
    }

    #[test]
    fn the_hash_is_the_one_that_grpc_and_envoy_use() {
        assert_eq!(hash(b""), 0xef46_db37_51d8_e999);
        assert_eq!(hash(b"foo"), 0x33bf_00a8_59c4_ba3f);
    }

    #[test]
    fn points_are_shared_by_weight_and_every_endpoint_has_one() {
        let endpoint = |key, weight, ready| RingEndpoint { key, weight, state: RingState::Ready(ready) };
        let ring = Ring::new(&[endpoint("a", 1, 0), endpoint("b", 3, 1)], 1024, 4096);
        let of_b = ring.points.iter().filter(|it| it.owner == Some(1)).count();
        assert_eq!((ring.points.len(), of_b), (1024, 768));
        for names in [["a", "b"], ["b", "a"]] {
            let tiny = Ring::new(&[endpoint(names[0], 1, 0), endpoint(names[1], 100_000, 1)], 16, 16);
            assert!(tiny.points.iter().any(|it| it.owner == Some(0)));
        }
        assert!(Ring::new(&[], 1024, 4096).is_empty());
    }

    /// `newRing` of grpc-go 1.79.3 with weights 3, 3 and 4 and a ring of 7 to 7: three, two and two
    /// points, whatever the order of the endpoints.
    #[test]
    fn points_are_rounded_as_grpc_go_rounds_them() {
        let endpoint = |key, weight, ready| RingEndpoint { key, weight, state: RingState::Ready(ready) };
        let ring = Ring::new(&[endpoint("c", 4, 2), endpoint("a", 3, 0), endpoint("b", 3, 1)], 7, 7);
        let of = |ready| ring.points.iter().filter(|it| it.owner == Some(ready)).count();
        assert_eq!([of(0), of(1), of(2)], [3, 2, 2]);
        assert!(ring.points.iter().any(|it| it.hash == hash(b"c_1")));
    }

    #[test]
    fn keys_of_a_failed_endpoint_go_to_its_neighbours_and_no_other_key_moves() {
        let names = names(10);
        let (all, but_three) = (ring(&names, RingState::Ready), but(&names, 3, RingState::Failed));
        for key in keys() {
            let (before, after) = (owner(&all, key), owner(&but_three, key));
            assert!(after.is_some() && after != Some(3));
            assert!(before == after || before == Some(3), "a key of {before:?} moved to {after:?}");
        }
    }

    /// A42: a key whose owner is connecting is queued; without a key, the next ready endpoint gets
    /// the call (A76).
    #[test]
    fn keys_of_a_connecting_endpoint_wait_for_it() {
        let names = names(10);
        let (all, connecting) = (ring(&names, RingState::Ready), but(&names, 3, RingState::Connecting));
        for key in keys() {
            match owner(&all, key) {
                Some(3) => assert_eq!(owner(&connecting, key), None),
                before => assert_eq!(owner(&connecting, key), before),
            }
            assert!(connecting.pick(None, || key).is_some_and(|it| it != 3));
        }
        assert!(ring(&names, |_| RingState::Connecting).is_empty());
    }

    #[test]
    fn a_refused_key_moves_along_the_ring() {
        let names = names(10);
        let (all, but_three) = (ring(&names, RingState::Ready), but(&names, 3, RingState::Failed));
        for key in keys().filter(|it| owner(&all, *it) == Some(3)).take(50) {
            let next = all.from(key).find(|it| *it != 3);
            assert_eq!(
                next,
                owner(&but_three, key),
                "the key should go where it would if its owner had failed"
            );
            let mut all_ready: Vec<_> = all.from(key).collect();
            all_ready.sort_unstable();
            all_ready.dedup();
            assert_eq!(all_ready, (0..10).collect::<Vec<_>>());
        }
        assert_eq!(ring(&names, |_| RingState::Failed).from(7).next(), None);
    }

    proptest! {
        /// One more endpoint takes its share, and the others lose a point here and there: twice its
        /// share in total.
        #[test]
        fn a_change_of_the_members_moves_few_keys(count in 5usize..20) {
            let names = names(count + 1);
            let (less, more) = (ring(&names[..count], RingState::Ready), ring(&names, RingState::Ready));
            let moved = keys().filter(|it| owner(&less, *it) != owner(&more, *it)).count();
            prop_assert!(moved <= 3 * 5_000 / (count + 1), "{} of 5000 moved", moved);
        }
    }
}
