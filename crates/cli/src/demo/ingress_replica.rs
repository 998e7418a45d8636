//! One of the two ingress managers of the story, with leader election. It can be killed.

use std::time::Duration;

use anyhow::Context as _;
use dogwatch::api::{Resource, StaticScope};
use dogwatch::controller::{LeaderElector, Manager, ManagerError};
use dogwatch::diagnostics::Diagnostics;
use dogwatch::informer::Selection;
use dogwatch::k8s_openapi::api::core::v1::Service;
use dogwatch::k8s_openapi::api::networking::v1::Ingress;
use dogwatch::{SharedInformer, View};
use dogwatch_apiserver::ApiServer;
use serde::Serialize;
use tokio::task::JoinSet;

use super::connect::{NAMESPACE, connect};
use super::decoded_size::decoded_size;
use super::waiting::within;

/// The name of the Lease.
pub(super) const LEASE: &str = "ingress-manager";
/// The lease duration, the renew deadline and the retry period: shorter than the defaults, so that
/// the story need not wait long for an expired lease.
pub(super) const LEASE_DURATION: Duration = Duration::from_secs(4);
const RENEW_DEADLINE: Duration = Duration::from_secs(3);
const RETRY_PERIOD: Duration = Duration::from_millis(500);
/// The interval at which leadership is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// An ingress manager in a task of its own. Dropping it is like killing its process: nothing is
/// finished or released.
pub(super) struct IngressReplica {
    /// The identity in the Lease, and the user of its requests.
    pub(super) name: &'static str,
    elector: LeaderElector,
    task: JoinSet<Result<(), ManagerError>>,
}

impl IngressReplica {
    /// Starts a manager with connections of its own, and adds it to the page.
    ///
    /// # Errors
    /// Returns an error if no client can be created.
    pub(super) fn start(server: &ApiServer, page: &Diagnostics, name: &'static str) -> anyhow::Result<Self> {
        let client = connect(server, Some(name))?;
        let manager = Manager::new(client.clone());
        // The controller gets these informers, since they read the same.
        let _measured = (measured::<Service>(&manager), measured::<Ingress>(&manager));
        let controller = ingress_manager::controller(&manager, client.clone());
        let elector = LeaderElector::builder(client, LEASE)
            .namespace(NAMESPACE)
            .identity(name)
            .lease_duration(LEASE_DURATION)
            .renew_deadline(RENEW_DEADLINE)
            .retry_period(RETRY_PERIOD)
            .build()?;
        let manager = manager.controller(controller).leader_election(elector.clone());
        page.add_manager(&manager);
        let mut task = JoinSet::new();
        task.spawn(manager.run_until(std::future::pending()));
        Ok(Self { name, elector, task })
    }

    pub(super) fn is_leader(&self) -> bool {
        self.elector.is_leader()
    }

    /// Waits until it leads.
    ///
    /// # Errors
    /// Returns an error if it ends, or does not lead for a long time.
    pub(super) async fn leads(&mut self) -> anyhow::Result<()> {
        let name = self.name;
        let leads = async {
            let mut checks = tokio::time::interval(CHECK_INTERVAL);
            while !self.elector.is_leader() {
                tokio::select! {
                    biased;
                    ended = self.task.join_next() => {
                        let ended = ended.context("it has already ended")?.context("it panicked")?;
                        ended.with_context(|| format!("{name} failed"))?;
                        anyhow::bail!("{name} ended");
                    }
                    _ = checks.tick() => {}
                }
            }
            anyhow::Ok(())
        };
        within(&format!("{name} leads"), leads).await?
    }

    /// Kills it in the middle of what it does, and waits until its task is gone.
    pub(super) async fn kill(mut self) {
        self.task.shutdown().await;
    }
}

/// Returns an informer of a manager that measures the memory of its objects, for the live page.
fn measured<T: View + Serialize>(manager: &Manager) -> SharedInformer<T>
where
    <T::Of as Resource>::Scope: StaticScope,
{
    manager.informers().get_with(Selection::default(), |it| it.measure(decoded_size::<T>))
}
