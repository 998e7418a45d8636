//! Who is in a service that churns: as many pods as ever, of which some are replaced, at addresses that others had before. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};

use super::town::Listed;

/// The pods of a service in slices of one size. At each moment an address is one pod's; when the pod goes, others get their turn before
/// it is used again.
#[derive(Debug)]
pub(super) struct Membership {
    slices: Vec<VecDeque<Listed>>,
    spare: VecDeque<Ipv4Addr>,
    /// How many pods there ever were.
    born: usize,
    /// The slice whose turn it is.
    turn: usize,
}

impl Membership {
    /// So many slices of so many pods; what remains of the addresses is spare.
    pub(super) fn new(addresses: Vec<Ipv4Addr>, slices: usize, size: usize) -> Self {
        let empty = (0..slices).map(|_| VecDeque::with_capacity(size + 1)).collect();
        let mut membership = Self { slices: empty, spare: addresses.into(), born: 0, turn: 0 };
        for slice in 0..slices {
            for _ in 0..size {
                membership.join(slice);
            }
        }
        membership
    }

    /// Replaces so many pods of one slice, those that have been there for longest, and says which slice that was.
    pub(super) fn replace(&mut self, pods: usize) -> usize {
        let slice = self.turn;
        for _ in 0..pods {
            self.join(slice);
            if let Some(left) = self.slices[slice].pop_front() {
                self.spare.push_back(left.address);
            }
        }
        self.turn = (slice + 1) % self.slices.len();
        slice
    }

    /// A pod that never was, at the address that has been free for longest; nobody, where none is free.
    fn join(&mut self, slice: usize) {
        if let Some(address) = self.spare.pop_front() {
            let id = format!("pod-{:06}", self.born);
            self.born += 1;
            self.slices[slice].push_back(Listed { id, address, terminating: false });
        }
    }

    pub(super) fn slice(&self, number: usize) -> impl Iterator<Item = &Listed> {
        self.slices[number].iter()
    }

    /// All pods with where they are.
    pub(super) fn all(&self, port: u16) -> BTreeMap<String, SocketAddr> {
        let pod = |it: &Listed| (it.id.clone(), SocketAddr::from((it.address, port)));
        self.slices.iter().flatten().map(pod).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::grpc_soak::pods::addresses;

    #[test]
    fn whatever_is_replaced_there_are_as_many_pods_each_at_an_address_of_its_own() {
        let mut membership = Membership::new(addresses(46), 4, 10);
        let mut ever = BTreeSet::new();
        for round in 0..50 {
            let all = membership.all(80);
            assert_eq!(all.len(), 40);
            assert_eq!(all.values().collect::<BTreeSet<_>>().len(), 40, "no two share an address");
            ever.extend(all.into_keys());
            assert_eq!(ever.len(), 40 + 3 * round, "who comes was never there");
            assert_eq!(membership.replace(3), round % 4, "each slice in turn");
            assert_eq!(membership.slice(round % 4).count(), 10);
        }
    }

    #[test]
    fn an_address_rests_before_it_is_used_again() {
        let mut membership = Membership::new(addresses(12), 1, 10);
        let oldest = membership.slice(0).next().unwrap().address;
        let has = |it: &Membership| it.slice(0).any(|it| it.address == oldest);
        membership.replace(1);
        assert!(!has(&membership));
        membership.replace(1);
        assert!(!has(&membership), "the other spare one comes before it");
        membership.replace(1);
        assert!(has(&membership));
    }
}
