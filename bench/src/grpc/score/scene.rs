//! What every scene begins with: pods, the service that they make, and a fresh process that calls it.

use std::net::Ipv4Addr;
use std::ops::Range;

use anyhow::Result;

use crate::grpc::asking::{Caller, Choice};
use crate::grpc::contenders::Contender;
use crate::grpc::effort::Effort;
use crate::grpc::halves::Halves;
use crate::grpc::pods::Pods;
use crate::grpc::town::{Condition, Town};

/// Who plays, and where.
pub(super) struct Scene<'a> {
    pub(super) contender: &'a Contender,
    pub(super) town: &'a Town,
    pub(super) effort: &'a Effort,
}

impl Scene<'_> {
    /// The service of this contender in a scene of that name.
    pub(super) fn service(&self, scene: &str) -> String {
        format!("{scene}-{:?}", self.contender.who).to_lowercase()
    }

    /// A process of the contender's that has called nobody yet.
    pub(super) async fn caller(&self, service: &str, choice: Choice) -> Result<Caller> {
        Caller::start(self.contender, self.town, service, choice, &Halves::default()).await
    }

    /// Says that these pods are ready, that one is about to go, and that there are no others.
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
