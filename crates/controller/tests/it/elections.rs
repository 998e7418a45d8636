//! Elections on Leases of a server.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_apiserver::faults::Rule;
use dogwatch_client::{Api, Client};
use dogwatch_controller::leader::{LeaderElector, Led};
use k8s_openapi::api::coordination::v1::Lease;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::sync::Barrier;

use crate::served::server;

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
    assert_eq!(runs.join_all().await.into_iter().filter(|it| *it).count(), 1, "all lead at once");
}

#[tokio::test]
async fn le_2_a_lease_passes_from_one_to_the_next_and_counts_it() {
    let (_server, client) = server().await;
    let transitions = async |identity: &str| {
        elector(&client, "lock", identity)
            .run_while_leading(async |led: Led| led.transitions())
            .await
            .expect("led")
    };
    assert_eq!((transitions("a").await, transitions("b").await, transitions("c").await), (0, 1, 2));
    let lease = Api::<Lease>::default_namespaced(client).get("lock").await.expect("there");
    assert_eq!(lease.spec.expect("a spec").holder_identity.as_deref(), Some(""));
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_found_out_by_reading() {
    let (server, client) = server().await;
    server.faults().rule(Rule::on("create").resource("leases").times(1).reset_after());
    let elector = elector(&client, "lock", "me");
    let transitions = elector.run_while_leading(async |led: Led| led.transitions()).await.expect("led");
    assert_eq!(transitions, 0, "it was ours all along");
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
    let work = async |_: Led| {
        let leads = read("leader_election_master_status");
        let _ = updates.wait_for(|it| it.verb == "update", 3).await;
        leads
    };
    assert_eq!(elector.run_while_leading(work).await.expect("led"), Some(1.0));
    assert_eq!(read("leader_election_slowpath_total"), Some(1.0));
    assert_eq!(read("leader_election_master_status"), Some(0.0));
}
