//! Candidacy in a coordinated election: a LeaseCandidate describes the candidate, and its renewal
//! answers the coordinator's pings (rule LE-5).
//!
//! This module does not know which candidate leads: that is up to the coordinator and to an elector
//! that is [coordinated](super::LeaderElectorBuilder::coordinated) and has the same identity.

use std::pin::pin;
use std::time::Duration;

use dogwatch_client::{Api, Client, Error};
use dogwatch_core::{FieldSelector, Gvk, ResourceType, WriteParams};
use dogwatch_informer::{Change, Changes, SharedInformer};
use futures_util::StreamExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube_core::{DynamicObject, ObjectMeta, TypeMeta};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::timing::InvalidElection;

/// The interval at which a candidate renews without a ping: `requeueInterval` in
/// `k8s.io/client-go v0.36.4 tools/leaderelection/leasecandidate.go`. Servers delete candidates
/// that have not renewed for half an hour (`leaseCandidateValidDuration` in
/// `k8s.io/kubernetes v1.36.4
/// pkg/controlplane/controller/leaderelection/leaderelection_controller.go`).
const RENEW_EVERY: Duration = Duration::from_secs(300);
/// The pause after a failure. A coordinator waits five seconds for an answer (`electionDuration`,
/// same file).
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A candidate in the election of one Lease. The coordinator, which is part of the API server,
/// assigns the Lease to one of the candidates.
///
/// ```no_run
/// # async fn example(client: dogwatch_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use dogwatch_controller::leader::{Candidacy, LeaderElector};
///
/// let candidacy = Candidacy::new(client.clone(), "my-controller", "replica-1")?.version("1.4.0");
/// tokio::spawn(async move { candidacy.run_until(std::future::pending()).await });
/// let elector = LeaderElector::builder(client, "my-controller").identity("replica-1").coordinated().build()?;
/// elector.run_while_leading(|_| async { /* the work */ }).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Candidacy {
    api: Api<DynamicObject>,
    name: String,
    spec: Spec,
}

/// The spec of a LeaseCandidate. The types of k8s-openapi differ between its versions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    lease_name: String,
    binary_version: String,
    emulation_version: String,
    strategy: String,
    /// The time of the coordinator's last ping.
    #[serde(skip_serializing_if = "Option::is_none")]
    ping_time: Option<MicroTime>,
    /// The time of the candidate's last renewal.
    #[serde(skip_serializing_if = "Option::is_none")]
    renew_time: Option<MicroTime>,
}

impl Candidacy {
    /// Creates a candidate for this lease, in the client's default namespace unless another is set.
    /// The identity is also the name of the LeaseCandidate, so it must be valid for one: lower-case
    /// letters, digits, `-` and `.`.
    ///
    /// # Errors
    /// Returns an error if a name is missing.
    pub fn new(
        client: Client,
        lease: impl Into<String>,
        identity: impl Into<String>,
    ) -> Result<Self, InvalidElection> {
        let (lease_name, name) = (lease.into(), identity.into());
        if lease_name.is_empty() {
            return Err(InvalidElection::NoName);
        }
        if name.is_empty() {
            return Err(InvalidElection::NoIdentity);
        }
        let spec = Spec {
            lease_name,
            binary_version: "0.0.0".to_owned(),
            emulation_version: "0.0.0".to_owned(),
            strategy: "OldestEmulationVersion".to_owned(),
            ..Spec::default()
        };
        let namespace = client.default_namespace().to_owned();
        Ok(Self { api: Api::dynamic(client, resource()).in_namespace(&namespace), name, spec })
    }

    /// Sets the namespace of the lease and its candidates. Defaults to the client's namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.api = self.api.in_namespace(namespace);
        self
    }

    /// Sets the version of this program, such as `1.4.0`; the coordinator prefers the oldest.
    /// Defaults to 0.0.0.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.spec.binary_version = version.into();
        self.spec.emulation_version.clone_from(&self.spec.binary_version);
        self
    }

    /// Sets the emulated version, if the program behaves like an older one than its own.
    #[must_use]
    pub fn emulated_version(mut self, version: impl Into<String>) -> Self {
        self.spec.emulation_version = version.into();
        self
    }

    /// Sets the coordinator's strategy. All candidates should use the same. Defaults to
    /// `OldestEmulationVersion`.
    #[must_use]
    pub fn strategy(mut self, strategy: impl Into<String>) -> Self {
        self.spec.strategy = strategy.into();
        self
    }

    /// Keeps the candidacy alive until `stop` resolves. Failures are logged and retried for ever.
    /// The LeaseCandidate is not deleted; servers expire it.
    ///
    /// # Cancel safety
    /// Dropping the future ends the candidacy as `stop` does. A request that was already sent may
    /// still be carried out.
    pub async fn run_until(&self, stop: impl Future<Output = ()>) {
        let ours = FieldSelector::name(&self.name);
        let informer = SharedInformer::builder(self.api.clone()).fields(ours).build();
        // Only an informer that was stopped has no changes.
        let mut changes = informer.changes().ok();
        informer.start();
        let mut stop = pin!(stop);
        loop {
            let renewed = tokio::select! {
                biased;
                () = &mut stop => return,
                renewed = self.renew() => renewed,
            };
            let pause = match renewed {
                Ok(()) => RENEW_EVERY,
                Err(error) => {
                    tracing::warn!(candidate = self.name, %error, "cannot renew the lease candidate, retrying");
                    RETRY_AFTER
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = pinged(&mut changes), if pause == RENEW_EVERY => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Renews the LeaseCandidate, pinged or not.
    async fn renew(&self) -> Result<(), Error> {
        let params = WriteParams::default();
        let found = self.api.get_opt(&self.name).await?;
        let ping_time = found.as_ref().and_then(|it| spec_of(it).ping_time);
        let renew_time = Some(renew_time_for(ping_time.as_ref(), Timestamp::now()));
        let spec = json!(Spec { ping_time, renew_time, ..self.spec.clone() });
        match found {
            None => {
                let kind = resource().gvk;
                let types =
                    TypeMeta { api_version: kind.api_version().into_owned(), kind: kind.kind.to_string() };
                let mut candidate = DynamicObject {
                    types: Some(types),
                    metadata: ObjectMeta::default(),
                    data: json!({ "spec": spec }),
                };
                candidate.metadata.name = Some(self.name.clone());
                self.api.create(&params, &candidate).await?;
            }
            Some(mut candidate) => {
                candidate.data["spec"] = spec;
                self.api.replace(&self.name, &params, &candidate).await?;
            }
        }
        Ok(())
    }
}

fn resource() -> ResourceType {
    ResourceType::namespaced(Gvk::new("coordination.k8s.io", "v1beta1", "LeaseCandidate"), "leasecandidates")
}

/// Returns the spec of a candidate, or an empty one if it cannot be parsed.
fn spec_of(candidate: &DynamicObject) -> Spec {
    candidate.data.get("spec").and_then(|it| Spec::deserialize(it).ok()).unwrap_or_default()
}

/// Returns the renewal time that answers a ping: now, or the ping's time if that is later by our
/// clock. A client-go candidate whose clock is behind the server's renews with a time before the
/// ping, which does not count as an answer, and so it renews again and again.
fn renew_time_for(ping: Option<&MicroTime>, now: Timestamp) -> MicroTime {
    MicroTime(ping.map_or(now, |it| now.max(it.0)))
}

/// Waits until the coordinator pings, or another client deletes the candidate.
async fn pinged(changes: &mut Option<Changes<DynamicObject>>) {
    while let Some(changes) = changes {
        match changes.next().await {
            Some(Change::Deleted(_)) => return,
            Some(change) if has_unanswered_ping(&spec_of(change.object())) => return,
            Some(_) => {}
            None => break,
        }
    }
    std::future::pending().await
}

/// Returns true if a ping is unanswered.
fn has_unanswered_ping(spec: &Spec) -> bool {
    match (&spec.ping_time, &spec.renew_time) {
        (Some(ping), Some(renewed)) => ping.0 > renewed.0,
        (ping, _) => ping.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn le_5_a_renewal_is_never_before_the_ping() {
        let at = |second: i64| Timestamp::from_second(second).expect("a time");
        for (ping, now, answer) in [(None, 5, 5), (Some(3), 5, 5), (Some(9), 5, 9)] {
            let ping = ping.map(|it| MicroTime(at(it)));
            let renew_time = Some(renew_time_for(ping.as_ref(), at(now)));
            assert_eq!(renew_time, Some(MicroTime(at(answer))));
            assert!(
                !has_unanswered_ping(&Spec { ping_time: ping, renew_time, ..Spec::default() }),
                "the ping is answered"
            );
        }
    }
}
