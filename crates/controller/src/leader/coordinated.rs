//! Tests of coordinated elections (rule LE-5), in paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::scripted::{Connection, Server};
use super::{ElectionEnded, LeaderElector, Leadership};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn elector(server: &Arc<Server>) -> LeaderElector {
    LeaderElector::with_lock(Connection::good(server), "lock")
        .identity("me")
        .coordinated()
        .build()
        .expect("valid")
}

/// Writes the lease as the coordinator does.
fn write(server: &Server, spec: Value) {
    let lease = json!({ "metadata": { "name": "lock" }, "spec": spec });
    server.edit(|_| Some(serde_json::from_value::<Lease>(lease).expect("a lease")));
}

#[tokio::test(start_paused = true)]
async fn le_5_a_coordinated_elector_neither_creates_nor_takes_a_lease() {
    let server = Arc::new(Server::default());
    let coordinator = async {
        sleep(s(60)).await;
        write(&server, json!({ "holderIdentity": "other", "leaseDurationSeconds": 15 }));
        sleep(s(60)).await;
        write(&server, json!({ "holderIdentity": "", "preferredHolder": "me" }));
        sleep(s(60)).await;
    };
    let ended = elector(&server).run_until(coordinator, |_| async {}).await;
    assert!(matches!(ended, Err(ElectionEnded::Stopped)), "{ended:?}");
    assert!(server.log().iter().all(|it| it == "get"));
}

#[tokio::test(start_paused = true)]
async fn le_5_a_coordinated_elector_leads_while_it_is_the_holder_and_releases_the_lease_when_another_is_preferred()
 {
    let server = Arc::new(Server::default());
    let elector = elector(&server);
    let (given, works) = (
        json!({ "holderIdentity": "me", "leaseDurationSeconds": 15, "strategy": "x" }),
        AtomicBool::new(false),
    );
    let coordinator = async {
        sleep(s(5)).await;
        write(&server, given);
        sleep(s(40)).await;
        assert!(works.load(Ordering::SeqCst) && elector.is_leader(), "it keeps renewing");
        let spec = server.lease().and_then(|it| it.spec).expect("a spec");
        assert_eq!(spec.strategy.as_deref(), Some("x"), "the coordinator's fields are kept");
        server.edit(|lease| {
            lease.map(|mut lease| {
                lease.spec.get_or_insert_default().preferred_holder = Some("next".to_owned());
                lease
            })
        });
        Instant::now()
    };
    let lead = async |led: Leadership| {
        works.store(true, Ordering::SeqCst);
        led.lost().await;
        std::future::pending::<()>().await
    };
    let run = async { (elector.run_while_leading(lead).await, Instant::now()) };
    let ((ended, stopped), marked) = tokio::join!(run, coordinator);
    assert_eq!(ended.expect_err("handed over").to_string(), "the coordinator gives the lease to next");
    assert!(stopped - marked <= s(2) + s(2) / 1000, "{:?}", stopped - marked);
    assert_eq!(server.holder(), None, "released after the work has ended");
    assert!(!elector.is_leader());
}
