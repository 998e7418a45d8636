//! The setup of every scenario: pods, their service, and a new caller process.

use std::net::Ipv4Addr;
use std::ops::Range;

use anyhow::Result;

use crate::grpc::asking::{Caller, Choice};
use crate::grpc::contenders::Contender;
use crate::grpc::effort::Effort;
use crate::grpc::halves::Halves;
use crate::grpc::pods::Pods;
use crate::grpc::town::{Condition, Town};

/// A contender and the cluster in which it calls.
pub(super) struct Scene<'a> {
    pub(super) contender: &'a Contender,
    pub(super) town: &'a Town,
    pub(super) effort: &'a Effort,
}

impl Scene<'_> {
    /// Returns the name of this contender's service in a scenario.
    pub(super) fn service(&self, scene: &str) -> String {
        format!("{scene}-{:?}", self.contender.who).to_lowercase()
    }

    /// Starts a process of the contender that has not called yet.
    pub(super) async fn caller(&self, service: &str, choice: Choice) -> Result<Caller> {
        Caller::start(self.contender, self.town, service, choice, &Halves::default()).await
    }

    /// Publishes an endpoint slice with these ready pods and at most one terminating pod.
    pub(super) async fn tell(
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
        self.town.write(service, 0, pods.port, &endpoints).await
    }
}
