//! Leader election on Leases: exactly one elector leads, on any server.

use std::sync::Arc;
use std::time::Duration;

use dogwatch::api::{Patch, PatchParams};
use dogwatch::controller::leader::{ElectionEnded, LeaderElector, LeaderElectorBuilder, Leadership};
use dogwatch::k8s_openapi::api::coordination::v1::Lease;
use dogwatch::{Api, Client};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::{TestNamespace, client, within};

const RETRY: Duration = Duration::from_millis(100);

/// Returns an elector whose lease is long, so that a slow machine does not lose it.
fn elector(client: &Client, space: &TestNamespace, identity: &str) -> LeaderElector {
    settings(client, space, identity).build().expect("valid settings")
}

fn settings(client: &Client, space: &TestNamespace, identity: &str) -> LeaderElectorBuilder {
    LeaderElector::builder(client.clone(), "lock")
        .namespace(&space.name)
        .identity(identity)
        .lease_duration(Duration::from_secs(600))
        .renew_deadline(Duration::from_secs(500))
        .retry_period(RETRY)
        .label("app", "conformance")
}

#[tokio::test]
async fn le_2_a_lease_is_created_renewed_and_released() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let leases: Api<Lease> = space.api(&client);
    let elector = elector(&client, &space, "me");
    let work = async |led: Leadership| {
        let first = leases.get("lock").await.expect("exists").spec.expect("a spec");
        let renewed = leases.wait_for("lock", |it| {
            it.and_then(|it| it.spec.as_ref()).is_some_and(|it| it.renew_time != first.renew_time)
        });
        let renewed = renewed.await.expect("a response").expect("exists");
        (led.transitions(), first, renewed)
    };
    let (transitions, first, renewed) =
        within("leading", elector.run_while_leading(work)).await.expect("led");
    assert_eq!((transitions, first.lease_transitions), (0, Some(0)));
    assert_eq!((first.holder_identity.as_deref(), first.lease_duration_seconds), (Some("me"), Some(600)));
    assert_eq!(renewed.metadata.labels.expect("labels")["app"], "conformance");
    assert_eq!(renewed.spec.expect("a spec").acquire_time, first.acquire_time);
    let released = leases.get("lock").await.expect("exists").spec.expect("a spec");
    assert_eq!((released.holder_identity.as_deref(), released.lease_duration_seconds), (Some(""), Some(1)));
}

#[tokio::test]
async fn le_4_a_released_lease_is_acquired_by_a_waiting_elector() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let [one, other] = ["one", "other"].map(|it| elector(&client, &space, it));
    let (leads, stop) = (Arc::new(Notify::new()), Notify::new());
    let first = async {
        let leads = Arc::clone(&leads);
        let work = move |_: Leadership| async move {
            leads.notify_one();
            std::future::pending::<()>().await;
        };
        one.run_until(stop.notified(), work).await
    };
    let second = async {
        leads.notified().await;
        let mut leaders = other.leaders();
        let run = other.run_while_leading(async |led: Leadership| led.transitions());
        let meanwhile = async {
            let seen = leaders.wait_for(|it| it.as_deref() == Some("one")).await.is_ok();
            assert!(seen && !other.is_leader());
            stop.notify_one();
        };
        tokio::join!(run, meanwhile).0
    };
    let (ended, transitions) =
        within("the lease changing its holder", async { tokio::join!(first, second) }).await;
    assert!(matches!(ended, Err(ElectionEnded::Stopped)), "{ended:?}");
    assert_eq!(transitions.expect("led"), 1);
}

#[tokio::test]
async fn le_2_an_expired_lease_is_taken_over() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    // A leader that crashes: its run is dropped without releasing the lease.
    let gone = settings(&client, &space, "gone")
        .lease_duration(Duration::from_secs(2))
        .renew_deadline(Duration::from_secs(1))
        .build()
        .expect("valid settings");
    let begun = Notify::new();
    let work = async |_: Leadership| {
        begun.notify_one();
        std::future::pending::<()>().await
    };
    within("leading", async {
        tokio::select! {
            _ = gone.run_while_leading(work) => unreachable!("the work never ends"),
            () = begun.notified() => {}
        }
    })
    .await;
    let next = elector(&client, &space, "next");
    let transitions = next.run_while_leading(async |led: Leadership| led.transitions());
    assert_eq!(within("taking over", transitions).await.expect("led"), 1);
}

#[tokio::test]
async fn le_3_a_leader_whose_lease_is_taken_stops() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let leases: Api<Lease> = space.api(&client);
    let elector = elector(&client, &space, "me");
    let work = async |_: Leadership| {
        let theft = json!({ "spec": { "holderIdentity": "thief" } });
        leases.patch("lock", &PatchParams::default(), Patch::Merge(&theft)).await.expect("patched");
        std::future::pending::<()>().await
    };
    let ended = within("stopping", elector.run_while_leading(work)).await.expect_err("the lease was lost");
    assert_eq!(ended.to_string(), "the lease was taken by thief");
    assert!(!elector.is_leader());
    assert_eq!(elector.leader().as_deref(), Some("thief"));
}
