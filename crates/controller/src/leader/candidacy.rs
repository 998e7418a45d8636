//! Standing for a coordinated election: a LeaseCandidate says who one is, and answers when the coordinator asks whether one is still
//! there (rule LE-5).
//!
//! Whether this process leads is not known here: that is between the coordinator and an elector that is
//! [coordinated](super::LeaderElectorBuilder::coordinated) and has the same identity.

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

/// How often a candidate says unasked that it is still there, as client-go's does. Servers forget those that say nothing for half an hour.
const RENEW_EVERY: Duration = Duration::from_secs(300);
/// How long after a failure it is tried again. A coordinator waits five seconds for an answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Stands for the election of one Lease. The coordinator, which is part of the API server, gives the Lease to one of those who stand.
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

/// What a LeaseCandidate says. The types of k8s-openapi have it in different ways, by version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    lease_name: String,
    binary_version: String,
    emulation_version: String,
    strategy: String,
    /// When the coordinator last asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    ping_time: Option<MicroTime>,
    /// When the candidate last said that it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    renew_time: Option<MicroTime>,
}

impl Candidacy {
    /// Stands for the election of this lease, in the client's own namespace unless another is set. The identity is the name of an object
    /// here, so it has to be fit for one: lower-case letters, digits, `-` and `.`.
    ///
    /// # Errors
    /// When a name is missing.
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
        Ok(Self { api: Api::dynamic(client, resource()).within(&namespace), name, spec })
    }

    /// The namespace of the lease and its candidates.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.api = self.api.within(namespace);
        self
    }

    /// The version of this program, such as `1.4.0`; the coordinator prefers the oldest. 0.0.0 otherwise.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.spec.binary_version = version.into();
        self.spec.emulation_version.clone_from(&self.spec.binary_version);
        self
    }

    /// As which version it behaves, where that is an older one than its own.
    #[must_use]
    pub fn emulated_version(mut self, version: impl Into<String>) -> Self {
        self.spec.emulation_version = version.into();
        self
    }

    /// How the coordinator chooses; `OldestEmulationVersion` otherwise. All who stand should say the same.
    #[must_use]
    pub fn strategy(mut self, strategy: impl Into<String>) -> Self {
        self.spec.strategy = strategy.into();
        self
    }

    /// Stands until `stop` ends. Failures are logged and tried again, for ever. The LeaseCandidate is left; servers forget it in time.
    pub async fn run_until(&self, stop: impl Future<Output = ()>) {
        let ours = FieldSelector::name(&self.name);
        let informer = SharedInformer::builder(self.api.clone()).fields(ours).build();
        // Only an informer that was stopped tells of nothing.
        let mut changes = informer.changes().ok();
        informer.start();
        let mut stop = pin!(stop);
        loop {
            let answered = tokio::select! {
                biased;
                () = &mut stop => return,
                answered = self.answer() => answered,
            };
            let pause = match answered {
                Ok(()) => RENEW_EVERY,
                Err(error) => {
                    tracing::warn!(candidate = self.name, %error, "cannot stand for election, trying again");
                    RETRY_AFTER
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = is_called(&mut changes), if pause == RENEW_EVERY => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Says that we are there, whether or not it was asked.
    async fn answer(&self) -> Result<(), Error> {
        let params = WriteParams::default();
        let found = self.api.get_opt(&self.name).await?;
        let ping_time = found.as_ref().and_then(|it| said(it).ping_time);
        let renew_time = Some(answer_to(ping_time.as_ref(), Timestamp::now()));
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

/// What a candidate says, as far as it can be understood.
fn said(candidate: &DynamicObject) -> Spec {
    candidate.data.get("spec").and_then(|it| Spec::deserialize(it).ok()).unwrap_or_default()
}

/// The time to answer with: now, or when we were asked if that is later by our clock. client-go's candidate, whose clock is behind
/// the server's, answers with a time before the question, which is no answer, and so again and again.
fn answer_to(asked: Option<&MicroTime>, now: Timestamp) -> MicroTime {
    MicroTime(asked.map_or(now, |it| now.max(it.0)))
}

/// Waits until the coordinator asks, or somebody deletes the candidate.
async fn is_called(changes: &mut Option<Changes<DynamicObject>>) {
    while let Some(changes) = changes {
        match changes.next().await {
            Some(Change::Deleted(_)) => return,
            Some(change) if is_asked(&said(change.object())) => return,
            Some(_) => {}
            None => break,
        }
    }
    std::future::pending().await
}

/// Whether a question is unanswered.
fn is_asked(spec: &Spec) -> bool {
    match (&spec.ping_time, &spec.renew_time) {
        (Some(asked), Some(answered)) => asked.0 > answered.0,
        (asked, _) => asked.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn le_5_an_answer_is_never_before_the_question() {
        let at = |second: i64| Timestamp::from_second(second).expect("a time");
        for (asked, now, answer) in [(None, 5, 5), (Some(3), 5, 5), (Some(9), 5, 9)] {
            let asked = asked.map(|it| MicroTime(at(it)));
            let renew_time = Some(answer_to(asked.as_ref(), at(now)));
            assert_eq!(renew_time, Some(MicroTime(at(answer))));
            assert!(!is_asked(&Spec { ping_time: asked, renew_time, ..Spec::default() }), "it is answered");
        }
    }
}
