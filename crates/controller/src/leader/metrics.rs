//! The metrics of one election, under the names of
//! `k8s.io/component-base v0.36.4 metrics/prometheus/clientgo/leaderelection/metrics.go` (rule
//! LE-5).

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};

#[derive(Debug)]
pub(super) struct ElectionMetrics {
    master_status: Gauge,
    slowpath: Counter,
}

impl ElectionMetrics {
    pub(super) fn new(lease: &str) -> Self {
        describe_gauge!("leader_election_master_status", "1 if this process leads, else 0");
        describe_counter!(
            "leader_election_slowpath_total",
            "renewals for which the leader had to reread its lease"
        );
        let meter = Self {
            master_status: gauge!("leader_election_master_status", "name" => lease.to_owned()),
            slowpath: counter!("leader_election_slowpath_total", "name" => lease.to_owned()),
        };
        meter.leads(false);
        meter
    }

    pub(super) fn leads(&self, leads: bool) {
        self.master_status.set(if leads { 1.0 } else { 0.0 });
    }

    pub(super) fn slowpath(&self) {
        self.slowpath.increment(1);
    }
}
