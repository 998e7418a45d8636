//! Calls with the same key to the same endpoint, as far as endpoints stay: a hash ring (gRPC's A42).
//!
//! The ring is made of all endpoints that may be called, connected or not, so that a connection that comes or goes moves only its
//! own keys. A point whose endpoint is not ready stands for the next one on the ring that is.

use xxhash_rust::xxh64::xxh64;

/// A point of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    hash: u64,
    /// Which endpoint that is ready takes the keys up to this point.
    ready: usize,
}

/// An endpoint's place on the ring.
#[derive(Debug, Clone)]
pub(crate) struct Place<'a> {
    /// What its points are made of; it must stay the same as long as the endpoint does.
    pub(crate) key: &'a str,
    pub(crate) weight: u32,
    /// Its index among those that are ready, if it is.
    pub(crate) ready: Option<usize>,
}

/// Points in the order of their hashes, all of them with an endpoint that is ready.
#[derive(Debug)]
pub(crate) struct Ring {
    points: Vec<Point>,
}

/// The hash of a key: xxHash64 without a seed, as Envoy and gRPC have it.
pub(crate) fn hash(key: &[u8]) -> u64 {
    xxh64(key, 0)
}

impl Ring {
    /// At least `smallest` points if `largest` allows, shared by weight; everybody has one at least.
    pub(crate) fn new(places: &[Place<'_>], smallest: usize, largest: usize) -> Self {
        let mut order: Vec<(u64, Option<usize>)> = Vec::new();
        let total: f64 = places.iter().map(|it| f64::from(it.weight.max(1))).sum();
        let lightest =
            places.iter().map(|it| f64::from(it.weight.max(1)) / total).fold(f64::INFINITY, f64::min);
        let scale = ((lightest * smallest as f64).ceil() / lightest).min(largest as f64);
        for place in places {
            let share = (scale * f64::from(place.weight.max(1)) / total).round().max(1.0) as usize;
            let point = |it| (hash(format!("{}_{it}", place.key).as_bytes()), place.ready);
            order.extend((0..share).map(point));
        }
        order.sort_unstable();
        Self { points: settle(&order) }
    }

    /// The endpoint for a hash: that of the first point at or after it, going round. There must be one.
    pub(crate) fn pick(&self, hash: u64) -> usize {
        let index = self.points.partition_point(|it| it.hash < hash);
        self.points[if index == self.points.len() { 0 } else { index }].ready
    }

    /// True when nobody on the ring is ready.
    pub(crate) fn is_empty(&self) -> bool {
        self.points.is_empty()
    }
}

/// Gives every point to the next one on the ring that is ready, itself included.
fn settle(order: &[(u64, Option<usize>)]) -> Vec<Point> {
    let Some(mut next) = order.iter().find_map(|it| it.1) else {
        return Vec::new();
    };
    let mut points: Vec<_> = Vec::with_capacity(order.len());
    for (hash, ready) in order.iter().rev() {
        next = ready.unwrap_or(next);
        points.push(Point { hash: *hash, ready: next });
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

    fn ring(names: &[String], ready: impl Fn(usize) -> Option<usize>) -> Ring {
        let mut places = Vec::new();
        for (index, key) in names.iter().enumerate() {
            places.push(Place { key, weight: 1, ready: ready(index) });
        }
        Ring::new(&places, 1024, 4096)
    }

    fn keys() -> impl Iterator<Item = u64> {
        (0..5_000u32).map(|it| hash(&it.to_le_bytes()))
    }

    #[test]
    fn the_hash_is_the_one_that_others_use() {
        assert_eq!(hash(b""), 0xef46_db37_51d8_e999);
        assert_eq!(hash(b"foo"), 0x33bf_00a8_59c4_ba3f);
    }

    #[test]
    fn points_are_shared_by_weight_and_everybody_has_one() {
        let place = |key, weight, ready| Place { key, weight, ready: Some(ready) };
        let ring = Ring::new(&[place("a", 1, 0), place("b", 3, 1)], 1024, 4096);
        let of_b = ring.points.iter().filter(|it| it.ready == 1).count();
        assert_eq!((ring.points.len(), of_b), (1024, 768));
        let tiny = Ring::new(&[place("a", 1, 0), place("b", 100_000, 1)], 16, 16);
        assert!(tiny.points.iter().any(|it| it.ready == 0));
        assert!(Ring::new(&[], 1024, 4096).is_empty());
    }

    #[test]
    fn keys_of_one_that_is_not_ready_go_to_its_neighbours_and_no_other_key_moves() {
        let names = names(10);
        let all = ring(&names, Some);
        let but_three = ring(&names, |it| (it != 3).then_some(it));
        for key in keys() {
            let (before, after) = (all.pick(key), but_three.pick(key));
            assert_ne!(after, 3);
            assert!(before == after || before == 3, "a key of {before} moved to {after}");
        }
    }

    proptest! {
        /// One endpoint more takes its share, and makes the others give up a point here and there: twice its share in all.
        #[test]
        fn a_change_of_the_members_moves_few_keys(count in 5usize..20) {
            let names = names(count + 1);
            let (less, more) = (ring(&names[..count], Some), ring(&names, Some));
            let moved = keys().filter(|it| less.pick(*it) != more.pick(*it)).count();
            prop_assert!(moved <= 3 * 5_000 / (count + 1), "{} of 5000 moved", moved);
        }
    }
}
