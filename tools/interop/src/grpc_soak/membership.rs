//! The members of a churning service: a constant number of pods, some of which are replaced by new
//! ones at addresses that others had before. A pure state machine.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::test_cluster::SlicePod;

/// The pods of a service in slices of equal size. An address belongs to one pod at a time; a freed
/// address is reused after all other free ones.
#[derive(Debug)]
pub(super) struct Membership {
    slices: Vec<VecDeque<SlicePod>>,
    spare: VecDeque<IpAddr>,
    /// The number of pods created so far.
    created: usize,
    /// The slice to change next.
    turn: usize,
}

impl Membership {
    /// Creates `slices` slices of `size` pods. The other addresses are spare.
    pub(super) fn new(addresses: Vec<Ipv4Addr>, slices: usize, size: usize) -> Self {
        let empty = (0..slices).map(|_| VecDeque::with_capacity(size + 1)).collect();
        let spare = addresses.into_iter().map(IpAddr::from).collect();
        let mut membership = Self { slices: empty, spare, created: 0, turn: 0 };
        for slice in 0..slices {
            for _ in 0..size {
                membership.add_pod(slice);
            }
        }
        membership
    }

    /// Replaces the oldest `pods` pods of one slice. Returns the number of that slice.
    pub(super) fn replace(&mut self, pods: usize) -> usize {
        let slice = self.turn;
        for _ in 0..pods {
            self.add_pod(slice);
            if let Some(left) = self.slices[slice].pop_front() {
                self.spare.push_back(left.address);
            }
        }
        self.turn = (slice + 1) % self.slices.len();
        slice
    }

    /// Adds a new pod at the address that has been free for longest. Does nothing if none is free.
    fn add_pod(&mut self, slice: usize) {
        if let Some(address) = self.spare.pop_front() {
            let id = format!("pod-{:06}", self.created);
            self.created += 1;
            self.slices[slice].push_back(SlicePod { id, address, terminating: false });
        }
    }

    pub(super) fn slice(&self, number: usize) -> impl Iterator<Item = &SlicePod> {
        self.slices[number].iter()
    }

    /// Returns all pods with their addresses.
    pub(super) fn all(&self, port: u16) -> BTreeMap<String, SocketAddr> {
        let pod = |it: &SlicePod| (it.id.clone(), SocketAddr::from((it.address, port)));
        self.slices.iter().flatten().map(pod).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use grpc_testkit::addresses;

    use super::*;

    #[test]
    fn replacing_pods_keeps_their_number_and_their_addresses_distinct() {
        let mut membership = Membership::new(addresses(46), 4, 10);
        let mut ever = BTreeSet::new();
        for round in 0..50 {
            let all = membership.all(80);
            assert_eq!(all.len(), 40);
            assert_eq!(all.values().collect::<BTreeSet<_>>().len(), 40, "two pods share an address");
            ever.extend(all.into_keys());
            assert_eq!(ever.len(), 40 + 3 * round, "a new pod has an old id");
            assert_eq!(membership.replace(3), round % 4, "slices do not take turns");
            assert_eq!(membership.slice(round % 4).count(), 10);
        }
    }

    #[test]
    fn an_address_is_reused_after_all_other_free_ones() {
        let mut membership = Membership::new(addresses(12), 1, 10);
        let oldest = membership.slice(0).next().unwrap().address;
        let has = |it: &Membership| it.slice(0).any(|it| it.address == oldest);
        membership.replace(1);
        assert!(!has(&membership));
        membership.replace(1);
        assert!(!has(&membership), "the other spare address is due first");
        membership.replace(1);
        assert!(has(&membership));
    }
}
