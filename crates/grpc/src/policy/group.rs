//! The endpoints to pick from: an immutable value, replaced as a whole on every change.

use std::sync::Arc;

use super::picker::{Picker, Policy, PolicyEndpoint, PolicyState};
use super::slow_start::ALL;
use super::zone::{ZoneAware, near_share};
use crate::load::{InFlight, Load};
use crate::random;

/// The number of repeated picks when slow start declines an endpoint, or a pick is excluded.
const MAX_REPEATS: usize = 3;

/// A usable endpoint; `S` is the data that is needed to call it.
#[derive(Debug)]
pub(crate) struct Member<'a, S> {
    pub(crate) key: &'a str,
    pub(crate) weight: u32,
    pub(crate) zone: Option<&'a str>,
    /// `None` while it is not ready.
    pub(crate) ready: Option<(S, Arc<Load>)>,
    /// True if it is connecting, and has not failed.
    pub(crate) connecting: bool,
    /// The share of its picks that the endpoint accepts, in 2^32nds.
    pub(crate) admission: u32,
}

/// The endpoints of a channel; with zone awareness, those in its own zone are separate.
#[derive(Debug)]
pub(crate) struct Group<S> {
    near: Tier<S>,
    far: Tier<S>,
    /// The share of calls that stay near, in 2^32nds.
    near_share: u32,
    /// A call goes far when the near pick has this many calls in flight.
    capacity: u32,
    state: Arc<PolicyState>,
}

#[derive(Debug)]
struct Tier<S> {
    slots: Vec<S>,
    loads: Vec<Arc<Load>>,
    /// Empty if every endpoint accepts its whole share.
    admissions: Vec<u32>,
    picker: Picker,
    /// The counter to use: 0 near, 1 far.
    side: usize,
}

impl<S> Group<S> {
    /// Creates a group. `members` are ordered by id.
    pub(crate) fn new(
        members: Vec<Member<'_, S>>,
        policy: &Policy,
        zone: Option<&ZoneAware>,
        state: Arc<PolicyState>,
    ) -> Self {
        let is_near = |it: &Member<'_, S>| zone.is_none_or(|zone| it.zone == Some(&*zone.zone));
        let (near, far): (Vec<_>, Vec<_>) = members.into_iter().partition(is_near);
        let usable = near.len();
        let (near, far) = (Tier::new(near, policy, 0), Tier::new(far, policy, 1));
        let overprovisioning = zone.map_or(1.0, |it| it.overprovisioning);
        let near_share = near_share(near.slots.len(), usable, far.slots.len(), overprovisioning);
        Self { near, far, near_share, capacity: zone.map_or(u32::MAX, |it| it.capacity), state }
    }

    /// Returns true if no endpoint is ready.
    pub(crate) fn is_empty(&self) -> bool {
        self.near.slots.is_empty() && self.far.slots.is_empty()
    }

    /// Returns the number of ready endpoints.
    pub(crate) fn len(&self) -> usize {
        self.near.slots.len() + self.far.slots.len()
    }

    /// Picks an endpoint for a call and counts the call. Returns `None` if no endpoint is ready, or
    /// if the owner of the key is not ready yet.
    pub(crate) fn pick(&self, key: impl Fn() -> Option<u64>) -> Option<(&S, InFlight)> {
        let (tier, index) = self.choose(&key)?;
        Some((&tier.slots[index], tier.loads[index].begin()))
    }

    /// Returns the index that [`pick`](Self::pick) would choose, without counting a call.
    pub(crate) fn choice(&self, key: impl Fn() -> Option<u64>) -> Option<usize> {
        self.choose(&key).map(|it| it.1)
    }

    /// Like [`pick`](Self::pick), without the `excluded` endpoints. Returns `None` if no other
    /// endpoint is ready.
    pub(crate) fn pick_except(
        &self,
        excluded: impl Fn(&S) -> bool,
        key: impl Fn() -> Option<u64>,
    ) -> Option<(&S, InFlight)> {
        for tier in [&self.near, &self.far] {
            let Some(order) = tier.picker.order(key()) else {
                continue;
            };
            let mut order = order.filter(|it| !tier.slots.get(*it).is_none_or(&excluded));
            if let Some(index) = order.next() {
                return Some((&tier.slots[index], tier.loads[index].begin()));
            }
        }
        for _ in 0..MAX_REPEATS {
            let (tier, index) = self.choose(&key)?;
            if !excluded(&tier.slots[index]) {
                return Some((&tier.slots[index], tier.loads[index].begin()));
            }
        }
        let start = random::below(self.len());
        let all =
            self.near.slots.iter().zip(&self.near.loads).chain(self.far.slots.iter().zip(&self.far.loads));
        let (slot, load) = all.cycle().skip(start).take(self.len()).find(|it| !excluded(it.0))?;
        Some((slot, load.begin()))
    }

    fn choose(&self, key: &impl Fn() -> Option<u64>) -> Option<(&Tier<S>, usize)> {
        if self.far.slots.is_empty() {
            return self.near.pick(&self.state, key).map(|index| (&self.near, index));
        }
        let stays = self.near_share == ALL || (random::bits() as u32) < self.near_share;
        let (first, second) = if stays { (&self.near, &self.far) } else { (&self.far, &self.near) };
        let Some(index) = first.pick(&self.state, key) else {
            // If endpoints are ready here, the call waits for the owner of its key.
            let others = second.slots.len() * usize::from(first.slots.is_empty());
            return (others > 0).then(|| second.pick(&self.state, key)).flatten().map(|it| (second, it));
        };
        if stays && first.loads[index].in_flight() >= self.capacity {
            let other = second.pick(&self.state, key);
            if let Some(other) =
                other.filter(|it| second.loads[*it].in_flight() < first.loads[index].in_flight())
            {
                return Some((second, other));
            }
        }
        Some((first, index))
    }
}

impl<S> Tier<S> {
    fn new(members: Vec<Member<'_, S>>, policy: &Policy, side: usize) -> Self {
        let (mut slots, mut loads, mut admissions, mut all) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for member in members {
            let ready = member.ready.is_some().then_some(slots.len());
            all.push(PolicyEndpoint {
                key: member.key,
                weight: member.weight,
                ready,
                connecting: member.connecting,
            });
            if let Some((slot, load)) = member.ready {
                slots.push(slot);
                loads.push(load);
                admissions.push(member.admission);
            }
        }
        // If all endpoints are new, none is spared.
        if admissions.iter().all(|it| *it == ALL) || !admissions.contains(&ALL) {
            admissions.clear();
        }
        Self { slots, loads, admissions, picker: Picker::new(policy, &all), side }
    }

    fn pick(&self, state: &PolicyState, key: &impl Fn() -> Option<u64>) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut index = self.picker.pick(&self.loads, state, self.side, key)?;
        if !self.admissions.is_empty() {
            for _ in 0..MAX_REPEATS {
                if self.admissions[index] == ALL || (random::bits() as u32) < self.admissions[index] {
                    break;
                }
                index = self.picker.pick(&self.loads, state, self.side, key)?;
            }
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderName;

    use super::*;
    use crate::policy::RingHash;

    const ZONES: [&str; 6] = ["a", "a", "a", "b", "b", "b"];

    fn load() -> Arc<Load> {
        Arc::new(Load::new(Duration::from_millis(1), 0))
    }

    fn group(ready: [bool; 6], admissions: [u32; 6], zone: Option<ZoneAware>) -> Group<usize> {
        let keys = ["0", "1", "2", "3", "4", "5"];
        let member = |index: usize| Member {
            key: keys[index],
            weight: 1,
            zone: Some(ZONES[index]),
            ready: ready[index].then(|| (index, load())),
            connecting: false,
            admission: admissions[index],
        };
        let members = (0..6).map(member).collect();
        Group::new(members, &Policy::RoundRobin, zone.as_ref(), Arc::new(PolicyState::new()))
    }

    fn shares(group: &Group<usize>, picks: usize) -> [usize; 6] {
        let mut shares = [0; 6];
        for _ in 0..picks {
            shares[*group.pick(|| None).unwrap().0] += 1;
        }
        shares
    }

    #[test]
    fn without_a_ready_endpoint_nothing_is_picked() {
        let group = group([false; 6], [ALL; 6], None);
        assert!(
            group.is_empty()
                && group.pick(|| None).is_none()
                && group.pick_except(|_| false, || None).is_none()
        );
    }

    #[test]
    fn calls_stay_in_the_zone_and_spill_over_as_it_fails() {
        let zone = || Some(ZoneAware::new("a"));
        assert_eq!(shares(&group([true; 6], [ALL; 6], zone()), 300), [100, 100, 100, 0, 0, 0]);
        // One of three is ready: 1.4 thirds of the calls stay.
        let hurt = shares(&group([true, false, false, true, true, true], [ALL; 6], zone()), 3_000);
        assert!((1_200..1_600).contains(&hurt[0]) && hurt[3] > 400, "{hurt:?}");
        let elsewhere = shares(&group([false, false, false, true, true, true], [ALL; 6], zone()), 300);
        assert_eq!(elsewhere, [0, 0, 0, 100, 100, 100]);
        let unknown = shares(&group([true; 6], [ALL; 6], Some(ZoneAware::new("c"))), 600);
        assert_eq!(unknown, [100; 6]);
    }

    #[test]
    fn calls_beyond_the_capacity_of_the_zone_go_elsewhere() {
        let group = group([true; 6], [ALL; 6], Some(ZoneAware::new("a").capacity(2)));
        let mut held: Vec<_> = (0..6).map(|_| group.pick(|| None).unwrap()).collect();
        assert!(held.iter().all(|it| *it.0 < 3), "two calls each stay in the zone");
        held.extend((0..6).map(|_| group.pick(|| None).unwrap()));
        assert_eq!(held.iter().filter(|it| *it.0 >= 3).count(), 6);
    }

    /// Two endpoints elsewhere, and every call picks in its own zone first: neither of the two is
    /// skipped.
    #[test]
    fn calls_that_leave_the_zone_are_shared_evenly() {
        let zone = Some(ZoneAware::new("a").capacity(1));
        let group = group([true, true, true, true, true, false], [ALL; 6], zone);
        let held: Vec<_> = (0..3).map(|_| group.pick(|| None).unwrap()).collect();
        assert!(held.iter().all(|it| *it.0 < 3));
        assert_eq!(shares(&group, 100), [0, 0, 0, 50, 50, 0]);
    }

    #[test]
    fn a_new_endpoint_gets_part_of_its_share() {
        let new = [ALL / 10, ALL, ALL, ALL, ALL, ALL];
        let shares = shares(&group([true; 6], new, None), 6_000);
        assert!((50..300).contains(&shares[0]), "{shares:?}");
        let all_new = group([true; 6], [ALL / 10; 6], None);
        assert_eq!(self::shares(&all_new, 60), [10; 6], "if all are new, all get their whole share");
    }

    /// A ring of six endpoints: a key that is refused goes on to the endpoint that would own it if
    /// its owner had failed.
    #[test]
    fn a_key_waits_for_its_owner_and_moves_along_the_ring_when_refused() {
        let keys = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80"];
        let ring = |ready: [bool; 4], connecting: bool| {
            let member = |index: usize| Member {
                key: keys[index],
                weight: 1,
                zone: None,
                ready: ready[index].then(|| (index, load())),
                connecting: connecting && !ready[index],
                admission: ALL,
            };
            let policy = Policy::from(RingHash::by_header(HeaderName::from_static("key")));
            Group::new((0..4).map(member).collect(), &policy, None, Arc::new(PolicyState::new()))
        };
        let picked = |group: &Group<usize>, key: u64| group.pick(|| Some(key)).map(|it| *it.0);
        let (all, failed) = (ring([true; 4], false), ring([true, false, true, true], false));
        let waiting = ring([true, false, true, true], true);
        let keys = (0..u64::MAX).step_by(usize::MAX / 100);
        for key in keys.filter(|it| picked(&all, *it) == Some(1)) {
            assert_eq!(picked(&waiting, key), None, "the owner is still connecting");
            let next = all.pick_except(|it| *it == 1, || Some(key)).map(|it| *it.0);
            assert_eq!(next, picked(&failed, key));
            assert!(next.is_some_and(|it| it != 1));
        }
        assert!(
            (0..100).all(|_| waiting.pick(|| None).is_some()),
            "without a key, any ready endpoint is picked"
        );
        assert!(all.pick_except(|_| true, || Some(7)).is_none());
    }

    #[test]
    fn tried_endpoints_are_not_picked_again() {
        let group = group([true; 6], [ALL; 6], None);
        for _ in 0..100 {
            assert_eq!(group.pick_except(|it| *it != 4, || None).map(|it| *it.0), Some(4));
        }
        assert!(group.pick_except(|_| true, || None).is_none());
    }
}
