//! Allocation of the cluster IPs and node ports of services.
//!
//! An address is allocated before the service is stored. It is released if the service is not
//! stored after all, or no longer uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use serde_json::Value;

use crate::ApiError;
use crate::kinds::json_access::{items, number, text};
use crate::{FieldError, FieldErrorKind};

/// The first two octets of the service CIDR, 10.96.0.0/16. The API server itself has the first
/// address.
const NETWORK: [u8; 2] = [10, 96];
/// The range of node ports.
const PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;

/// The allocated addresses and ports, each with the uid of its service.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    addresses: BTreeMap<IpAddr, String>,
    ports: BTreeMap<(i64, String), String>,
    /// The host part of the address that was allocated last; the search for a free one continues
    /// after it.
    next: u16,
    /// The number of writes in progress, by the uid of the service.
    writes: BTreeMap<String, usize>,
}

impl Addresses {
    /// Returns a copy for a fork of the cluster, in which no write is in progress.
    pub(super) fn fork(&self) -> Self {
        Self {
            addresses: self.addresses.clone(),
            ports: self.ports.clone(),
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
            if let Some(why) = out_of_range(address) {
                let why = format!("failed to allocate IP {wanted}: {why}");
                return Err(refused(service, "spec.clusterIPs", wanted, &why));
            }
            if self.addresses.get(&address).is_some_and(|owner| *owner != uid) {
                let why = format!("failed to allocate IP {wanted}: provided IP is already allocated");
                return Err(refused(service, "spec.clusterIPs", wanted, &why));
            }
            self.addresses.insert(address, uid.to_owned());
            return Ok(wanted.to_owned());
        }
        for _ in 0..u16::MAX {
            self.next = self.next.wrapping_add(1);
            let [third, fourth] = self.next.to_be_bytes();
            let address = IpAddr::V4(Ipv4Addr::new(NETWORK[0], NETWORK[1], third, fourth));
            // The first address belongs to the API server, the last is the broadcast address.
            if self.next > 1 && self.next < u16::MAX && !self.addresses.contains_key(&address) {
                self.addresses.insert(address, uid.to_owned());
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

    /// Allocates a port for the health checks of the service with this uid: the one it asks for, or a free one.
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
        self.ports.insert((port, protocol.to_owned()), uid.to_owned());
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
        let ports: BTreeSet<(i64, String)> =
            of_ports.chain(of_health.map(|it| (it, "TCP"))).map(|(it, of)| (it, of.to_owned())).collect();
        self.addresses.retain(|address, owner| owner != uid || addresses.contains(address));
        self.ports.retain(|port, owner| owner != uid || ports.contains(port));
        for address in addresses {
            self.addresses.entry(address).or_insert_with(|| uid.to_owned());
        }
        for port in ports {
            self.ports.entry(port).or_insert_with(|| uid.to_owned());
        }
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
fn out_of_range(address: IpAddr) -> Option<String> {
    let mismatched = || Some("the provided network does not match the current range".to_owned());
    let IpAddr::V4(address) = address else { return mismatched() };
    match address.octets() {
        [first, second, ..] if [first, second] != NETWORK => mismatched(),
        // The network and the broadcast address are not for services.
        [first, second, 0, 0] | [first, second, 255, 255] => Some(format!(
            "the provided IP ({address}) is not in the valid range. The range of valid IPs is {first}.{second}.0.0/16"
        )),
        _ => None,
    }
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
