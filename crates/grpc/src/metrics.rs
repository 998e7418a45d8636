//! The three gauges of kuberesolver, under the same names, so that existing dashboards keep
//! working.
//!
//! They go through the `metrics` facade, to the recorder that is installed when a target is first
//! watched.

use metrics::{Gauge, Unit, describe_gauge, gauge};

use crate::endpoints::EndpointSet;
use crate::target::Target;

/// The gauges of one target.
#[derive(Debug)]
pub(crate) struct TargetMetrics {
    endpoints: Gauge,
    addresses: Gauge,
    last_update: Gauge,
}

impl TargetMetrics {
    pub(crate) fn new(target: &Target) -> Self {
        describe_gauge!("kuberesolver_endpoints_total", "endpoints of the target, ready or not");
        describe_gauge!("kuberesolver_addresses_total", "addresses of the target that calls go to");
        describe_gauge!(
            "kuberesolver_client_last_update",
            Unit::Seconds,
            "when the API server last confirmed the endpoints of the target, since 1970"
        );
        let label = target.label();
        Self {
            endpoints: gauge!("kuberesolver_endpoints_total", "target" => label.clone()),
            addresses: gauge!("kuberesolver_addresses_total", "target" => label.clone()),
            last_update: gauge!("kuberesolver_client_last_update", "target" => label),
        }
    }

    /// Reports the endpoints that were found.
    pub(crate) fn found(&self, set: &EndpointSet) {
        self.endpoints.set(set.endpoints.len() as f64);
        self.addresses.set(set.usable().map(|it| it.addresses.len()).sum::<usize>() as f64);
    }

    /// Reports when the API server last confirmed the endpoints, in seconds since 1970; 0 if it
    /// never has.
    ///
    /// kuberesolver sets this gauge when endpoints arrive and at least every half hour; bookmarks
    /// arrive about once a minute. An attempt that found the server unreachable confirms nothing:
    /// otherwise an alert on the age of this gauge would miss an outage.
    pub(crate) fn confirmed(&self, at: u64) {
        if at > 0 {
            self.last_update.set(at as f64);
        }
    }
}
