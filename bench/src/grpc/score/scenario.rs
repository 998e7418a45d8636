//! The setup of every scenario: pods, their service, and a new caller process.

use std::net::Ipv4Addr;
use std::ops::Range;

use anyhow::Result;

use crate::grpc::caller_process::{Balancing, CallerProcess};
use crate::grpc::contenders::Contender;
use crate::grpc::cpu_split::CpuSplit;
use crate::grpc::pods::Pods;
use crate::grpc::settings::BenchSettings;
use crate::grpc::test_cluster::{Condition, TestCluster};

/// A contender and the cluster in which it calls.
pub(super) struct Scenario<'a> {
    pub(super) contender: &'a Contender,
    pub(super) cluster: &'a TestCluster,
    pub(super) settings: &'a BenchSettings,
}

impl Scenario<'_> {
    /// Returns the name of this contender's service in a scenario.
    pub(super) fn service(&self, scenario: &str) -> String {
        format!("{scenario}-{:?}", self.contender.kind).to_lowercase()
    }

    /// Starts a process of the contender that has not called yet.
    pub(super) async fn caller(&self, service: &str, balancing: Balancing) -> Result<CallerProcess> {
        CallerProcess::start(self.contender, self.cluster, service, balancing, &CpuSplit::default()).await
    }

    /// Publishes an endpoint slice with these ready pods and at most one terminating pod.
    pub(super) async fn publish(
        &self,
        service: &str,
        pods: &Pods,
        ready: Range<usize>,
        leaving: Option<usize>,
    ) -> Result<()> {
        let address = |number: usize| pods.all()[number].address;
        let leaving = leaving.map(|it| (address(it), Condition::Terminating));
        let ready = ready.map(|it| (address(it), Condition::Ready));
        let endpoints: Vec<(Ipv4Addr, Condition)> = leaving.into_iter().chain(ready).collect();
        self.cluster.write_slice(service, 0, pods.port, &endpoints).await
    }
}
