//! The addresses of pods: from the network of their node, or from a shared range when that is
//! exhausted.

use std::collections::HashMap;

use dogwatch_core::ObjectKey;

/// The number of addresses in the shared range: 10.245.0.2 and following.
const OTHERS: u32 = 11 * 250 * 250;
/// The number of hosts in the network of a node.
const OF_NODE: u32 = 253;

/// The addresses of pods. Each pod gets the lowest free one.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    held: HashMap<String, ObjectKey>,
    /// The addresses that pods do not have in their status yet, by the uid of the pod. A pod gets
    /// the same one again if the report of its status has failed.
    unreported: HashMap<String, String>,
    /// For each network, a position before which all addresses are in use. A search starts there,
    /// instead of passing the addresses of all other pods.
    full_up_to: HashMap<String, u32>,
}

impl Addresses {
    /// Allocates an address for a pod, in this network if it has a free one. `network` is the first
    /// three parts of an address, or empty. Returns an empty string if no address is free.
    pub(super) fn take(&mut self, key: &ObjectKey, uid: &str, network: &str) -> String {
        if let Some(taken) = self.unreported.get(uid) {
            return taken.clone();
        }
        let own = if network.is_empty() { None } else { self.free_in(network, OF_NODE) };
        let free = own.or_else(|| self.free_in("", OTHERS)).unwrap_or_default();
        if !free.is_empty() {
            self.held.insert(free.clone(), key.clone());
            self.unreported.insert(uid.to_owned(), free.clone());
        }
        free
    }

    /// Records that a pod has an address in its status.
    pub(super) fn hold(&mut self, address: String, key: &ObjectKey, uid: &str) {
        if self.unreported.get(uid) == Some(&address) {
            self.unreported.remove(uid);
        }
        self.held.insert(address, key.clone());
    }

    /// Releases the address that a pod has never had in its status, if there is one.
    pub(super) fn give_back_unreported(&mut self, key: &ObjectKey, uid: &str) {
        if let Some(address) = self.unreported.remove(uid) {
            self.give_back(&address, key);
        }
    }

    /// Releases an address, unless another pod has it already.
    pub(super) fn give_back(&mut self, address: &str, key: &ObjectKey) {
        if self.held.get(address) != Some(key) {
            return;
        }
        self.held.remove(address);
        for (network, full_up_to) in &mut self.full_up_to {
            if let Some(at) = position(network, address) {
                *full_up_to = at.min(*full_up_to);
            }
        }
    }

    fn free_in(&mut self, network: &str, size: u32) -> Option<String> {
        let from = self.full_up_to.get(network).copied().unwrap_or(0);
        let mut all = (from..size).map(|at| (at, nth(network, at)));
        let free = all.find(|(_, it)| !self.held.contains_key(it));
        self.full_up_to.insert(network.to_owned(), free.as_ref().map_or(size, |(at, _)| *at));
        free.map(|(_, address)| address)
    }
}

/// Returns the address at a position in a network.
fn nth(network: &str, at: u32) -> String {
    match network {
        "" => format!("10.{}.{}.{}", 245 + at / 62_500, at / 250 % 250, at % 250 + 2),
        network => format!("{network}.{}", at + 2),
    }
}

/// Returns the position of an address in a network; `None` if it is not in it.
fn position(network: &str, address: &str) -> Option<u32> {
    let (before, host) = address.rsplit_once('.')?;
    let host = host.parse::<u32>().ok()?.checked_sub(2)?;
    if !network.is_empty() {
        return (before == network).then_some(host);
    }
    let mut parts = before.strip_prefix("10.")?.split('.').map(|it| it.parse::<u32>().ok());
    let (high, low) = (parts.next()??.checked_sub(245)?, parts.next()??);
    Some((high * 250 + low) * 250 + host)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn positions_and_addresses_convert_both_ways() {
        for (network, at) in
            [("", 0), ("", 249), ("", 250), ("", 62_500), ("", OTHERS - 1), ("10.244.1", 252)]
        {
            assert_eq!(position(network, &nth(network, at)), Some(at));
        }
        assert_eq!(nth("", OTHERS - 1), "10.255.249.251");
        assert_eq!(position("10.244.1", "10.244.2.2"), None);
        assert_eq!(position("", "10.244.1.2"), None);
    }

    #[test]
    fn a_pod_keeps_its_address_until_it_is_reported_or_gone() {
        let mut addresses = Addresses::default();
        let [one, two] = ["one", "two"].map(ObjectKey::cluster);
        assert_eq!(addresses.take(&one, "u1", "10.244.1"), "10.244.1.2");
        assert_eq!(addresses.take(&one, "u1", "10.244.1"), "10.244.1.2", "the report has failed");
        addresses.hold("10.244.1.2".to_owned(), &one, "u1");
        addresses.give_back_unreported(&one, "u1");
        assert_eq!(addresses.take(&two, "u2", "10.244.1"), "10.244.1.3", "the first is in use");
        addresses.give_back_unreported(&two, "u2");
        assert_eq!(addresses.take(&two, "u3", "10.244.1"), "10.244.1.3", "the pod was replaced");
        addresses.give_back("10.244.1.2", &one);
        assert_eq!(addresses.take(&one, "u1", "10.244.1"), "10.244.1.2");
        assert_eq!(addresses.held.len(), 2);
    }

    proptest! {
        /// Compared with a search from the first address on, with addresses released in between.
        #[test]
        fn the_lowest_free_address_is_taken(steps in proptest::collection::vec((any::<bool>(), 0..600usize), 1..700)) {
            let (mut addresses, mut held) = (Addresses::default(), Vec::<(String, ObjectKey)>::new());
            for (at, (give_back, which)) in steps.into_iter().enumerate() {
                if give_back && !held.is_empty() {
                    let (address, key) = held.swap_remove(which % held.len());
                    addresses.give_back(&address, &key);
                    continue;
                }
                let free = |it: &String| !held.iter().any(|(known, _)| known == it);
                let all = (0..OF_NODE).map(|it| nth("10.244.1", it)).chain((0..OTHERS).map(|it| nth("", it)));
                let expected = { all }.find(free);
                let key = ObjectKey::cluster(&at.to_string());
                let taken = addresses.take(&key, &at.to_string(), "10.244.1");
                addresses.hold(taken.clone(), &key, &at.to_string());
                prop_assert_eq!(Some(&taken), expected.as_ref());
                held.push((taken, key));
            }
        }
    }
}
