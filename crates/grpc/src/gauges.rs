//! kuberesolver's three gauges, by their names, so that dashboards need not change.
//!
//! They go through the `metrics` facade, to the recorder that is installed when a target is first watched.

use std::time::SystemTime;

use metrics::{Gauge, Unit, describe_gauge, gauge};

use crate::endpoints::EndpointSet;
use crate::target::Target;

/// The gauges of one target.
#[derive(Debug)]
pub(crate) struct Gauges {
    endpoints: Gauge,
    addresses: Gauge,
    last_update: Gauge,
}

impl Gauges {
    pub(crate) fn new(target: &Target) -> Self {
        describe_gauge!("kuberesolver_endpoints_total", "endpoints of the target, ready or not");
        describe_gauge!("kuberesolver_addresses_total", "addresses of the target that calls go to");
        describe_gauge!(
            "kuberesolver_client_last_update",
            Unit::Seconds,
            "when the target was last looked up, since 1970"
        );
        let label = target.label();
        Self {
            endpoints: gauge!("kuberesolver_endpoints_total", "target" => label.clone()),
            addresses: gauge!("kuberesolver_addresses_total", "target" => label.clone()),
            last_update: gauge!("kuberesolver_client_last_update", "target" => label),
        }
    }

    /// What was found now.
    pub(crate) fn found(&self, set: &EndpointSet) {
        self.endpoints.set(set.endpoints.len() as f64);
        self.addresses.set(set.usable().map(|it| it.addresses.len()).sum::<usize>() as f64);
        if let Ok(since) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            self.last_update.set(since.as_secs() as f64);
        }
    }
}
