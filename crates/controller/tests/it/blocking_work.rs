//! Work that does not yield, on a multi-threaded runtime: the steps after the end of the work wait
//! for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::faults::Rule;
use dogwatch_client::{Api, Client};
use dogwatch_controller::leader::LeaderElector;
use dogwatch_controller::{Action, BoxError, Controller, Manager, ShardMember};
use dogwatch_core::{ListParams, ObjectKey, WriteParams};
use dogwatch_informer::SharedInformer;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::in_process::{config_map, server};

/// Longer than any test should take; no test waits for it to pass.
const LIMIT: Duration = Duration::from_secs(60);

/// A reconcile that blocks its thread until it is released.
struct BlockingReconcile {
    at_work: Arc<AtomicBool>,
    begun: Mutex<mpsc::Receiver<()>>,
    release: mpsc::Sender<()>,
}

impl BlockingReconcile {
    fn new(maps: &SharedInformer<ConfigMap>) -> (Self, Controller) {
        let at_work = Arc::new(AtomicBool::new(false));
        let (begin, begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let (flag, released) = (Arc::clone(&at_work), Arc::new(Mutex::new(released)));
        let controller = Controller::of(maps).build(move |_: ObjectKey, _| {
            let (flag, begin, released) = (Arc::clone(&flag), begin.clone(), Arc::clone(&released));
            async move {
                flag.store(true, Ordering::SeqCst);
                begin.send(()).expect("the test waits");
                released.lock().unwrap().recv_timeout(LIMIT).expect("the test releases it");
                flag.store(false, Ordering::SeqCst);
                std::future::pending::<Result<Action, BoxError>>().await
            }
        });
        (Self { at_work, begun: Mutex::new(begun), release }, controller)
    }

    async fn begun(&self) {
        until("the reconcile begins", || self.begun.lock().unwrap().try_recv().is_ok()).await;
    }

    fn is_at_work(&self) -> bool {
        self.at_work.load(Ordering::SeqCst)
    }
}

/// Waits until the condition holds.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, waiting).await.unwrap_or_else(|_| panic!("waited for: {what}"));
}

async fn with_a_map() -> (ApiServer, Client, SharedInformer<ConfigMap>) {
    let (server, client) = server().await;
    let api = Api::<ConfigMap>::default_namespaced(client.clone());
    api.create(&WriteParams::default(), &config_map("a")).await.expect("created");
    (server, client, SharedInformer::new(api))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_member_keeps_its_lease_until_the_work_on_its_keys_is_over() {
    let (_server, client, maps) = with_a_map().await;
    let member = ShardMember::builder(client.clone(), "group").build().expect("valid settings");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let taking_part = tokio::spawn({
        let member = member.clone();
        async move { member.run_until(async { drop(stopped.await) }).await }
    });
    until("the member owns the key", || member.owns("all")).await;
    let (blocking, controller) = BlockingReconcile::new(&maps);
    let working = tokio::spawn({
        let member = member.clone();
        async move { member.while_owning("all", controller.run(std::future::pending())).await }
    });
    blocking.begun().await;
    stop.send(()).expect("the member runs");
    until("the key is given up", || !member.owns("all")).await;
    // Enough time for a release that does not wait; a correct one never fails here.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(blocking.is_at_work() && !taking_part.is_finished());
    let leases = Api::<Lease>::default_namespaced(client);
    let held = leases.list(&ListParams::default()).await.expect("listed").items;
    assert!(held.iter().all(|it| it.spec.as_ref().is_some_and(|it| it.holder_identity.is_some())));
    blocking.release.send(()).expect("the reconcile waits");
    tokio::time::timeout(LIMIT, taking_part).await.expect("it leaves").expect("no panic");
    assert!(!blocking.is_at_work());
    assert!(working.await.expect("no panic").is_none(), "the work was dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_that_overruns_fails_its_health_check_until_its_work_is_over() {
    let (server, client, maps) = with_a_map().await;
    let elector = LeaderElector::builder(client.clone(), "tested")
        // Long enough that a busy machine does not lose it by itself.
        .lease_duration(Duration::from_secs(4))
        .renew_deadline(Duration::from_secs(3))
        .retry_period(Duration::from_millis(100))
        .build()
        .expect("valid settings");
    let (blocking, controller) = BlockingReconcile::new(&maps);
    let manager = Manager::new(client).controller(controller).leader_election(elector.clone());
    let running = tokio::spawn(manager.run_until(std::future::pending()));
    blocking.begun().await;
    assert!(elector.is_leader());
    server.faults().rule(Rule::on("update").or("get").resource("leases").refuse(500));
    until("the health check fails", || elector.health(Duration::ZERO).is_err()).await;
    assert!(blocking.is_at_work() && !running.is_finished() && !elector.is_leader());
    blocking.release.send(()).expect("the reconcile waits");
    let ended = tokio::time::timeout(LIMIT, running).await.expect("it ends in time").expect("no panic");
    assert_eq!(ended.expect_err("the lease was lost").to_string(), "leadership was lost");
    assert!(!blocking.is_at_work());
    assert_eq!(elector.health(Duration::ZERO), Ok(()), "the check passes afterwards");
}
