//! Allocation of the cluster IPs and node ports of services.
//!
//! An address is allocated before the service is stored. It is released if the service is not
//! stored after all, or no longer uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value;

use super::service_network::ServiceNetwork;
use crate::ApiError;
use crate::kinds::json_access::{items, number, text};
use crate::{FieldError, FieldErrorKind};

/// The range of node ports.
const PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;

/// A port number and its protocol.
type Port = (i64, String);

/// The allocated addresses and ports, each with the uid of its service.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    network: ServiceNetwork,
    addresses: BTreeMap<IpAddr, String>,
    ports: BTreeMap<Port, String>,
    /// The same by the uid of the service, so that a service is settled at the cost of what it has.
    owned: BTreeMap<String, Owned>,
    /// The number of the address that was allocated last; the search for a free one continues after
    /// it.
    next: u32,
    /// The number of writes in progress, by the uid of the service.
    writes: BTreeMap<String, usize>,
}

/// The addresses and ports of one service.
#[derive(Clone, Debug, Default)]
struct Owned {
    addresses: BTreeSet<IpAddr>,
    ports: BTreeSet<Port>,
}

impl Addresses {
    /// Returns the addresses of a network, all of which are free.
    pub(super) fn of(network: ServiceNetwork) -> Self {
        Self { network, ..Self::default() }
    }

    /// Returns the network of the addresses.
    pub(super) fn network(&self) -> ServiceNetwork {
        self.network
    }

    /// Returns a copy for a fork of the cluster, in which no write is in progress.
    pub(super) fn fork(&self) -> Self {
        Self {
            network: self.network,
            addresses: self.addresses.clone(),
            ports: self.ports.clone(),
            owned: self.owned.clone(),
            next: self.next,
            writes: BTreeMap::new(),
        }
    }

    /// Records the start of a write of a service.
    pub(super) fn begin_write(&mut self, uid: &str) {
        *self.writes.entry(uid.to_owned()).or_default() += 1;
    }

    /// Records the end of a write of a service.
    pub(super) fn end_write(&mut self, uid: &str) {
        if let Some(count) = self.writes.get_mut(uid) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.writes.remove(uid);
            }
        }
    }

    /// Returns true while a write of the service is in progress, which may hold addresses that are
    /// not stored yet.
    pub(super) fn is_written(&self, uid: &str) -> bool {
        self.writes.contains_key(uid)
    }

    /// Allocates an address to the service with this uid: the one it asks for, or a free one.
    pub(super) fn take_address(
        &mut self,
        uid: &str,
        service: &Value,
        wanted: Option<&str>,
    ) -> Result<String, ApiError> {
        if let Some(wanted) = wanted {
            let address: IpAddr = wanted
                .parse()
                .map_err(|_| refused(service, "spec.clusterIPs", wanted, "must be an IP address"))?;
            if let Some(why) = out_of_range(self.network, address) {
                let why = format!("failed to allocate IP {wanted}: {why}");
                return Err(refused(service, "spec.clusterIPs", wanted, &why));
            }
            if self.addresses.get(&address).is_some_and(|owner| *owner != uid) {
                let why = format!("failed to allocate IP {wanted}: provided IP is already allocated");
                return Err(refused(service, "spec.clusterIPs", wanted, &why));
            }
            self.own_address(uid, address);
            return Ok(wanted.to_owned());
        }
        let last = self.network.last();
        // Of so many addresses, one is free, unless all are taken.
        for _ in 0..=self.addresses.len().saturating_add(3) {
            self.next = if self.next >= last { 0 } else { self.next.saturating_add(1) };
            let address = IpAddr::V4(self.network.address(self.next));
            // The second address belongs to the API server, the last is the broadcast address.
            if self.next > 1 && self.next < last && !self.addresses.contains_key(&address) {
                self.own_address(uid, address);
                return Ok(address.to_string());
            }
        }
        Err(ApiError::internal_failure("failed to allocate a serviceIP: range is full"))
    }

    /// Allocates a port to the service with this uid: the one it asks for, or a free one.
    pub(super) fn take_port(
        &mut self,
        uid: &str,
        service: &Value,
        index: usize,
        wanted: Option<i64>,
    ) -> Result<i64, ApiError> {
        let protocol = items(service, "/spec/ports").get(index).map_or("TCP", protocol);
        self.take_number(uid, protocol, wanted).map_err(|why| match wanted {
            Some(port) => invalid_port(service, index, port, why),
            None => ApiError::internal_failure(&format!("failed to allocate a nodePort: {why}")),
        })
    }

    /// Allocates a port for the health checks of the service with this uid: the one it asks for, or
    /// a free one.
    pub(super) fn take_health_check_port(&mut self, uid: &str, wanted: Option<i64>) -> Result<i64, ApiError> {
        self.take_number(uid, "TCP", wanted).map_err(|why| {
            ApiError::internal_failure(&match wanted {
                Some(port) => format!("failed to allocate requested HealthCheck NodePort {port}: {why}"),
                None => format!("failed to allocate a HealthCheck NodePort 0: {why}"),
            })
        })
    }

    /// Allocates a port number to the service with this uid, or returns the reason why that is
    /// impossible.
    fn take_number(&mut self, uid: &str, protocol: &str, wanted: Option<i64>) -> Result<i64, &'static str> {
        let free = |port: i64| self.ports.get(&(port, protocol.to_owned())).is_none_or(|owner| *owner == uid);
        let port = match wanted {
            Some(port) if !PORTS.contains(&port) => {
                return Err(
                    "provided port is not in the valid range. The range of valid ports is 30000-32767",
                );
            }
            Some(port) if !free(port) => return Err("provided port is already allocated"),
            Some(port) => port,
            None => PORTS
                .clone()
                .find(|port| {
                    // For every protocol: the names of protocols sort after the empty string.
                    let mut taken = self.ports.range((*port, String::new())..(*port + 1, String::new()));
                    // Not one of this service either: its ports differ.
                    taken.next().is_none()
                })
                .ok_or("range is full")?,
        };
        self.own_port(uid, (port, protocol.to_owned()));
        Ok(port)
    }

    /// Allocates to a service what its stored state uses, and releases everything else it had.
    pub(super) fn settle(&mut self, uid: &str, stored: Option<&Value>) {
        let used = |pointer: &str| stored.map_or(&[] as &[Value], |it| items(it, pointer));
        let mut addresses: BTreeSet<IpAddr> =
            used("/spec/clusterIPs").iter().filter_map(|it| it.as_str()?.parse().ok()).collect();
        addresses.extend(stored.and_then(|it| text(it, "/spec/clusterIP").parse::<IpAddr>().ok()));
        let of_ports =
            used("/spec/ports").iter().filter_map(|it| Some((number(it, "/nodePort")?, protocol(it))));
        let of_health = stored.and_then(|it| number(it, "/spec/healthCheckNodePort"));
        let ports: BTreeSet<Port> =
            of_ports.chain(of_health.map(|it| (it, "TCP"))).map(|(it, of)| (it, of.to_owned())).collect();
        let before = self.owned.remove(uid).unwrap_or_default();
        for address in before.addresses.difference(&addresses) {
            self.addresses.remove(address);
        }
        for port in before.ports.difference(&ports) {
            self.ports.remove(port);
        }
        for address in addresses {
            if self.addresses.get(&address).is_none_or(|owner| owner == uid) {
                self.own_address(uid, address);
            }
        }
        for port in ports {
            if self.ports.get(&port).is_none_or(|owner| owner == uid) {
                self.own_port(uid, port);
            }
        }
    }

    fn own_address(&mut self, uid: &str, address: IpAddr) {
        self.addresses.insert(address, uid.to_owned());
        self.owned.entry(uid.to_owned()).or_default().addresses.insert(address);
    }

    fn own_port(&mut self, uid: &str, port: Port) {
        self.ports.insert(port.clone(), uid.to_owned());
        self.owned.entry(uid.to_owned()).or_default().ports.insert(port);
    }
}

/// Returns the protocol of a service port, TCP by default.
fn protocol(port: &Value) -> &str {
    match text(port, "/protocol") {
        "" => "TCP",
        protocol => protocol,
    }
}

/// Returns the reason why a service cannot have an address, if there is one.
fn out_of_range(network: ServiceNetwork, address: IpAddr) -> Option<String> {
    let number = match address {
        IpAddr::V4(address) => network.number(address),
        IpAddr::V6(_) => None,
    };
    let Some(number) = number else {
        return Some("the provided network does not match the current range".to_owned());
    };
    // The network and the broadcast address are not for services.
    let is_reserved = number == 0 || number == network.last();
    is_reserved.then(|| {
        format!("the provided IP ({address}) is not in the valid range. The range of valid IPs is {network}")
    })
}

fn refused(service: &Value, field: &str, value: &str, why: &str) -> ApiError {
    let problem = FieldError::with_value(field, FieldErrorKind::Invalid, format!("[{value:?}]"), why);
    ApiError::invalid("", "Service", text(service, "/metadata/name"), &[problem])
}

fn invalid_port(service: &Value, index: usize, port: i64, why: &str) -> ApiError {
    let field = format!("spec.ports[{index}].nodePort");
    let problem = FieldError::with_value(field, FieldErrorKind::Invalid, port, why);
    ApiError::invalid("", "Service", text(service, "/metadata/name"), &[problem])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_allocated_address_is_refused_to_other_services_until_it_is_released() {
        let mut addresses = Addresses::default();
        let service = |uid: &str| json!({ "metadata": { "name": uid, "uid": uid } });
        let first = addresses.take_address("a", &service("a"), None).expect("free");
        let second = addresses.take_address("b", &service("b"), None).expect("free");
        assert_ne!(first, second);
        let refusal = addresses.take_address("c", &service("c"), Some(&first)).expect_err("taken");
        assert!(refusal.0.message.contains("provided IP is already allocated"), "{refusal}");
        addresses.settle("a", None);
        assert_eq!(addresses.take_address("c", &service("c"), Some(&first)).expect("free again"), first);
        let port = addresses.take_port("a", &service("a"), 0, None).expect("free");
        assert!(addresses.take_port("b", &service("b"), 0, Some(port)).is_err());
        assert!(addresses.take_port("b", &service("b"), 0, Some(80)).is_err(), "out of range");
        addresses.settle("a", None);
        assert!(addresses.take_port("b", &service("b"), 0, Some(port)).is_ok());
    }

    #[test]
    fn a_service_keeps_what_its_stored_state_uses_and_nothing_of_another() {
        let mut addresses = Addresses::default();
        let stored = |uid: &str, address: &str, port: i64| {
            json!({ "metadata": { "name": uid, "uid": uid },
                "spec": { "clusterIP": address, "clusterIPs": [address], "ports": [{ "nodePort": port }] } })
        };
        let of = |addresses: &Addresses, uid: &str| {
            let owned = addresses.owned.get(uid).cloned().unwrap_or_default();
            let all: BTreeSet<IpAddr> =
                addresses.addresses.iter().filter(|(_, owner)| *owner == uid).map(|(it, _)| *it).collect();
            assert_eq!(owned.addresses, all);
            let ports: BTreeSet<Port> =
                addresses.ports.iter().filter(|(_, owner)| *owner == uid).map(|(it, _)| it.clone()).collect();
            assert_eq!(owned.ports, ports);
            let ports: Vec<i64> = ports.into_iter().map(|(it, _)| it).collect();
            (all.iter().map(ToString::to_string).collect::<Vec<_>>(), ports)
        };
        addresses.settle("a", Some(&stored("a", "10.96.0.9", 30009)));
        assert_eq!(of(&addresses, "a"), (vec!["10.96.0.9".to_owned()], vec![30009]));
        // Another service cannot take them over.
        addresses.settle("b", Some(&stored("b", "10.96.0.9", 30009)));
        assert_eq!(of(&addresses, "b"), (vec![], vec![]));
        let taken = addresses.take_address("a", &stored("a", "", 0), None).expect("free");
        addresses.take_port("a", &stored("a", "", 0), 0, Some(30010)).expect("free");
        assert_eq!(of(&addresses, "a").1, [30009, 30010]);
        addresses.settle("a", Some(&stored("a", &taken, 30010)));
        assert_eq!(of(&addresses, "a"), (vec![taken], vec![30010]));
        addresses.settle("b", Some(&stored("b", "10.96.0.9", 30009)));
        assert_eq!(of(&addresses.fork(), "b"), (vec!["10.96.0.9".to_owned()], vec![30009]));
        addresses.settle("a", None);
        addresses.settle("b", None);
        assert!(addresses.owned.is_empty() && addresses.addresses.is_empty() && addresses.ports.is_empty());
    }

    /// Regression test: all allocations were examined for each write and removal of a service.
    #[test]
    fn a_service_is_settled_at_the_cost_of_what_it_has() {
        let time = |services: usize| {
            let mut addresses = Addresses::default();
            let service = json!({ "metadata": { "name": "a" } });
            for at in 0..services {
                addresses.take_address(&at.to_string(), &service, None).expect("free");
            }
            let begun = cpu_time::ThreadTime::now();
            (0..200).for_each(|at| addresses.settle(&at.to_string(), None));
            begun.elapsed()
        };
        // The shortest of several times, since other programs may be running.
        let shortest = |services: usize| (0..3).map(|_| time(services)).min().unwrap_or_default();
        let (few, many) = (shortest(400), shortest(40_000));
        assert!(many < few * 10, "{many:?} with 40,000 services, {few:?} with 400");
    }

    #[test]
    fn a_full_network_has_no_address_until_one_is_released() {
        let mut addresses = Addresses::of("10.0.0.8/29".parse().expect("a network"));
        let service = json!({ "metadata": { "name": "a" } });
        let taken: BTreeSet<String> = (2..7)
            .map(|uid| addresses.take_address(&uid.to_string(), &service, None).expect("free"))
            .collect();
        assert_eq!(taken, (10..15).map(|it| format!("10.0.0.{it}")).collect());
        let refusal = addresses.take_address("x", &service, None).expect_err("all are taken");
        assert!(refusal.0.message.contains("range is full"), "{refusal}");
        addresses.settle("4", None);
        assert!(addresses.take_address("x", &service, None).is_ok());
    }

    #[test]
    fn the_network_and_broadcast_addresses_are_never_allocated() {
        let mut addresses = Addresses::default();
        let service = json!({ "metadata": { "name": "a", "uid": "a" } });
        for (wanted, why) in [
            ("10.96.0.0", Some("the provided IP (10.96.0.0) is not in the valid range")),
            ("10.96.255.255", Some("The range of valid IPs is 10.96.0.0/16")),
            ("10.97.0.1", Some("the provided network does not match the current range")),
            ("10.96.1.0", None),
            ("10.96.0.255", None),
        ] {
            let taken = addresses.take_address("a", &service, Some(wanted));
            match why {
                None => assert_eq!(taken.expect("free"), wanted),
                Some(why) => assert!(taken.expect_err(wanted).0.message.contains(why), "{wanted}"),
            }
        }
    }
}
