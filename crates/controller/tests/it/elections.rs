//! Elections on Leases of a server.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::faults::Rule;
use dogwatch_client::api::Patch;
use dogwatch_client::{Api, Client};
use dogwatch_controller::EventBroadcaster;
use dogwatch_controller::leader::{Candidacy, LeaderElector, Leadership};
use dogwatch_core::{DeleteParams, Gvk, ListParams, PatchParams, ResourceType};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use kube_core::DynamicObject;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::in_process::server;

fn elector(client: &Client, lease: &str, identity: &str) -> LeaderElector {
    LeaderElector::builder(client.clone(), lease)
        .identity(identity)
        .retry_period(Duration::from_millis(20))
        .build()
        .expect("valid settings")
}

#[tokio::test]
async fn le_5_one_client_serves_the_elections_of_many_leases() {
    let (_server, client) = server().await;
    let together = Arc::new(Barrier::new(5));
    let mut runs = tokio::task::JoinSet::new();
    for number in 0..5 {
        let (elector, together) = (elector(&client, &format!("lease-{number}"), "me"), Arc::clone(&together));
        runs.spawn(async move {
            elector.run_while_leading(async |_| together.wait().await.is_leader()).await.expect("led")
        });
    }
    let runs = tokio::time::timeout(Duration::from_secs(60), runs.join_all()).await;
    let leaders = runs.expect("all lead at once").into_iter().filter(|it| *it).count();
    assert_eq!(leaders, 1, "one of them is the leader of the barrier");
}

#[tokio::test]
async fn le_2_a_lease_counts_its_transitions_from_one_holder_to_the_next() {
    let (_server, client) = server().await;
    let transitions = async |identity: &str| {
        elector(&client, "lock", identity)
            .run_while_leading(async |led: Leadership| led.transitions())
            .await
            .expect("led")
    };
    assert_eq!((transitions("a").await, transitions("b").await, transitions("c").await), (0, 1, 2));
    let lease = Api::<Lease>::default_namespaced(client).get("lock").await.expect("there");
    assert_eq!(lease.spec.expect("a spec").holder_identity.as_deref(), Some(""));
}

#[tokio::test]
async fn a_write_whose_response_is_lost_is_detected_by_a_read() {
    let (server, client) = server().await;
    server.faults().rule(Rule::on("create").resource("leases").times(1).reset_after());
    let elector = elector(&client, "lock", "me");
    let transitions =
        elector.run_while_leading(async |led: Leadership| led.transitions()).await.expect("led");
    assert_eq!(transitions, 0, "the first create took effect");
}

#[tokio::test]
async fn le_5_the_metrics_of_an_election() {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let read = move |name: &str| {
        let found = snapshots.snapshot().into_vec().into_iter().find(|(key, ..)| key.key().name() == name);
        found.map(|(.., value)| match value {
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Counter(value) => value as f64,
            DebugValue::Histogram(_) => f64::NAN,
        })
    };
    let (server, client) = server().await;
    let elector = metrics::with_local_recorder(&recorder, || elector(&client, "lock", "me"));
    assert_eq!(read("leader_election_master_status"), Some(0.0));
    server.faults().rule(Rule::on("update").resource("leases").times(1).refuse(409));
    let updates = server.request_log().clone();
    let work = async |_: Leadership| {
        let leads = read("leader_election_master_status");
        let updated = updates.wait_for(|it| it.verb == "update", 3);
        let _ = tokio::time::timeout(Duration::from_secs(60), updated).await.expect("the lease is renewed");
        leads
    };
    assert_eq!(elector.run_while_leading(work).await.expect("led"), Some(1.0));
    assert_eq!(read("leader_election_slowpath_total"), Some(1.0));
    assert_eq!(read("leader_election_master_status"), Some(0.0));
}

#[tokio::test]
async fn le_4_the_begin_and_end_of_a_term_are_recorded_as_events_of_the_lease() {
    let (_server, client) = server().await;
    let events = EventBroadcaster::builder(client.clone()).start();
    let elector = LeaderElector::builder(client.clone(), "lock")
        .identity("me")
        .events(events.recorder("tests").expect("a name"))
        .build()
        .expect("valid settings");
    elector.run_while_leading(async |_| {}).await.expect("led");
    assert!(events.shutdown(Duration::from_secs(3600)).await, "all events are written");
    let recorded =
        Api::<Event>::default_namespaced(client).list(&ListParams::default()).await.expect("listed");
    let mut recorded: Vec<_> =
        recorded.items.into_iter().filter(|it| it.reason.as_deref() == Some("LeaderElection")).collect();
    recorded.sort_by_key(|it| it.event_time.clone());
    let about = recorded.iter().map(|it| it.regarding.as_ref().and_then(|it| it.kind.as_deref()));
    assert_eq!(about.collect::<Vec<_>>(), [Some("Lease"); 2]);
    let notes: Vec<_> = recorded.iter().filter_map(|it| it.note.as_deref()).collect();
    assert_eq!(notes, ["me became leader", "me stopped leading"]);
}

/// A resource that servers have only with a feature gate, as a CRD.
const CANDIDATES: &str = r#"{ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": { "name": "leasecandidates.coordination.k8s.io",
        "annotations": { "api-approved.kubernetes.io": "unapproved, for tests" } },
    "spec": { "group": "coordination.k8s.io", "scope": "Namespaced",
        "names": { "plural": "leasecandidates", "kind": "LeaseCandidate" },
        "versions": [{ "name": "v1beta1", "served": true, "storage": true, "schema": { "openAPIV3Schema":
            { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } }"#;

#[tokio::test]
async fn le_5_a_candidate_publishes_its_spec_and_answers_pings() {
    let server = ApiServer::builder().in_process().yaml(CANDIDATES).start().await.expect("started");
    let client = Client::from_service(server.url().parse().expect("a URL"), "default", server.service());
    let resource = ResourceType::namespaced(
        Gvk::new("coordination.k8s.io", "v1beta1", "LeaseCandidate"),
        "leasecandidates",
    );
    let candidates = Api::dynamic(client.clone(), resource).in_namespace("default");
    let candidacy = Candidacy::new(client, "lock", "me").expect("names").version("1.4.0");
    let standing = tokio::spawn(async move { candidacy.run_until(std::future::pending()).await });
    let wait = async |what: fn(&Value) -> bool| {
        let is_so = |it: Option<&DynamicObject>| it.is_some_and(|it| what(&it.data["spec"]));
        candidates.wait_for("me", is_so).await.expect("the condition is met")
    };
    let says = |it: &Value| it["leaseName"] == "lock" && it["binaryVersion"] == "1.4.0";
    wait(says).await;
    // By a clock that is ahead of ours.
    let asked = json!({ "spec": { "pingTime": "2999-01-01T00:00:00.000000Z" } });
    candidates.patch("me", &PatchParams::default(), Patch::Merge(&asked)).await.expect("pinged");
    wait(|it| it["renewTime"] == it["pingTime"]).await;
    candidates.delete("me", &DeleteParams::default()).await.expect("deleted");
    wait(|it| it["renewTime"].is_string() && it["pingTime"].is_null()).await;
    standing.abort();
}
