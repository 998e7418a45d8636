//! Leader election of managers: warm caches on standbys, one active leader, and the loss of
//! leadership.

use dogwatch_apiserver::faults::Rule;
use dogwatch_client::Api;
use dogwatch_controller::leader::LeaderElector;
use dogwatch_controller::{Action, BoxError, CancellationToken, Controller, Manager, ManagerError};
use dogwatch_core::ObjectKey;
use dogwatch_informer::InformerFactory;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::test_cluster::{Calls, Recording, SECOND, TestCluster, map, settle};

/// One of several managers of a cluster.
struct Replica {
    calls: Calls,
    elector: LeaderElector,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

impl Replica {
    fn start(cluster: &TestCluster, name: &str) -> Self {
        let informers = InformerFactory::new(cluster.client.clone()).namespace("default");
        let manager = Manager::over(informers);
        let (calls, maps) = (Calls::new(), manager.informer::<ConfigMap>());
        let (always, leading) = (calls.clone(), calls.clone());
        let elector = LeaderElector::builder(cluster.client.clone(), "tested").identity(name).build();
        let elector = elector.expect("valid settings");
        let watcher = move |key: ObjectKey, _| {
            always.add(format!("saw {}", key.name()));
            std::future::ready(Ok::<_, BoxError>(Action::Done))
        };
        let manager = manager
            .controller(Controller::of(&maps).build(Recording(calls.clone())))
            .controller(Controller::of(&maps).named("watcher").without_leader_election().build(watcher))
            .leader_task("leading", move |stop| async move {
                leading.add("leads");
                stop.cancelled().await;
                leading.add("led");
                Ok::<_, String>(())
            })
            .leader_election(elector.clone());
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { manager.run_until(stopped.cancelled()).await });
        Self { calls, elector, stop, task }
    }

    async fn stop(self) -> Result<(), ManagerError> {
        self.stop.cancel();
        self.task.await.expect("no panic")
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_keeps_warm_caches_and_takes_over() {
    let cluster = TestCluster::with(&["a", "b"]).await;
    let one = Replica::start(&cluster, "one");
    settle().await;
    let other = Replica::start(&cluster, "other");
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(one.calls.take_sorted(), ["a", "b", "leads", "saw a", "saw b"]);
    assert_eq!(other.calls.take_sorted(), ["saw a", "saw b"], "controllers that need no leader work");
    cluster.put("b", "1").await;
    settle().await;
    assert_eq!(one.calls.take_sorted(), ["b", "saw b"]);
    assert_eq!(other.calls.take_sorted(), ["saw b"]);

    let asked = |cluster: &TestCluster| {
        cluster.server.requests().resource("configmaps").filter(|it| it.verb != "patch").count()
    };
    let before = asked(&cluster);
    let leading = one.calls.clone();
    let stopping = Instant::now();
    one.stop().await.expect("clean shutdown");
    assert_eq!(leading.take(), ["led"]);
    assert_eq!(stopping.elapsed(), std::time::Duration::ZERO);
    tokio::time::sleep(5 * SECOND).await;
    assert!(other.elector.is_leader(), "the released lease is taken soon");
    let taken = other.calls.take_timed();
    let mut names: Vec<_> = taken.iter().map(|it| it.1.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b", "leads"], "a new leader reconciles everything once");
    assert!(taken.iter().all(|it| it.0 == taken[0].0), "at the first moment: {taken:?}");
    assert_eq!(asked(&cluster), before, "it sends no requests to the server");
    other.stop().await.expect("clean shutdown");
}

/// Objects that come and go while another replica leads are that replica's work, and must not pile
/// up on a standby.
#[tokio::test(start_paused = true)]
async fn the_queue_of_a_standby_stays_empty_and_its_first_term_begins_with_the_current_objects() {
    let cluster = TestCluster::with(&["a", "b"]).await;
    let one = Replica::start(&cluster, "one");
    settle().await;
    let recorder = metrics_util::debugging::DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let other = metrics::with_local_recorder(&recorder, || Replica::start(&cluster, "other"));
    tokio::time::sleep(10 * SECOND).await;
    for number in 0..300 {
        let name = format!("passing-{number}");
        cluster.create(&map(&name)).await;
        cluster.delete(&name).await;
    }
    settle().await;
    let adds: u64 = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .filter(|(key, ..)| {
            let key = key.key();
            key.name() == "workqueue_adds_total" && key.labels().any(|it| it.value() == "configmap")
        })
        .map(|(.., value)| match value {
            metrics_util::debugging::DebugValue::Counter(it) => it,
            _ => 0,
        })
        .sum();
    assert_eq!(adds, 0);
    other.calls.take();
    one.stop().await.expect("clean shutdown");
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(other.calls.take_sorted(), ["a", "b", "leads"]);
    other.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_cannot_sync_does_not_stand_for_election() {
    let cluster = TestCluster::with(&["a"]).await;
    cluster.server.faults().rule(Rule::on("watch").or("list").resource("configmaps").refuse(403));
    let broken = Replica::start(&cluster, "broken");
    tokio::time::sleep(60 * SECOND).await;
    assert!(!broken.elector.is_leader());
    cluster.server.faults().clear();
    let leases = Api::<Lease>::default_namespaced(cluster.client.clone());
    assert!(leases.get("tested").await.is_err(), "it has not tried");
    tokio::time::sleep(55 * SECOND).await;
    assert!(broken.elector.is_leader(), "it leads once it can sync");
    broken.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn a_loss_of_leadership_aborts_the_work_and_stops_the_manager() {
    let cluster = TestCluster::with(&["a"]).await;
    let informers = InformerFactory::new(cluster.client.clone()).namespace("default");
    let manager = Manager::over(informers);
    let (calls, maps) = (Calls::new(), manager.informer::<ConfigMap>());
    let recorded = calls.clone();
    let stuck = move |_: ObjectKey, _| {
        let recorded = recorded.clone();
        async move {
            loop {
                recorded.add("working");
                tokio::time::sleep(SECOND).await;
            }
            #[allow(unreachable_code, reason = "gives the future its type")]
            Ok::<Action, BoxError>(Action::Done)
        }
    };
    let elector = LeaderElector::builder(cluster.client.clone(), "tested").build().expect("valid settings");
    let manager = manager.controller(Controller::of(&maps).build(stuck)).leader_election(elector.clone());
    let running = tokio::spawn(manager.run_until(std::future::pending()));
    tokio::time::sleep(5 * SECOND).await;
    assert!(elector.is_leader() && !calls.take().is_empty());
    cluster.server.faults().rule(Rule::on("update").or("get").resource("leases").refuse(500));
    let error = running.await.expect("no panic").expect_err("the lease cannot be renewed");
    assert_eq!(error.to_string(), "leadership was lost");
    assert!(!elector.is_leader());
    settle().await;
    calls.take();
    tokio::time::sleep(30 * SECOND).await;
    assert_eq!(calls.take(), [] as [&str; 0], "no further calls");
}

#[tokio::test(start_paused = true)]
async fn a_leader_drains_its_queue_before_it_releases_the_lease() {
    let cluster = TestCluster::with(&["a", "b", "c"]).await;
    let informers = InformerFactory::new(cluster.client.clone()).namespace("default");
    let manager = Manager::over(informers);
    let (calls, maps) = (Calls::new(), manager.informer::<ConfigMap>());
    let elector = LeaderElector::builder(cluster.client.clone(), "tested").build().expect("valid settings");
    let (recorded, leads) = (calls.clone(), elector.clone());
    let slow = move |key: ObjectKey, _| {
        let (recorded, leads) = (recorded.clone(), leads.clone());
        async move {
            tokio::time::sleep(5 * SECOND).await;
            recorded.add(format!("{} {}", key.name(), leads.is_leader()));
            Ok::<_, BoxError>(Action::Done)
        }
    };
    let manager = manager.controller(Controller::of(&maps).build(slow)).leader_election(elector.clone());
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { manager.run_until(stopped.cancelled()).await });
    tokio::time::sleep(SECOND).await;
    stop.cancel();
    running.await.expect("no panic").expect("clean shutdown");
    assert_eq!(calls.take(), ["a true", "b true", "c true"]);
    let leases = Api::<Lease>::default_namespaced(cluster.client.clone());
    let lease = leases.get("tested").await.expect("the lease exists");
    let holder = lease.spec.and_then(|it| it.holder_identity).unwrap_or_default();
    assert_eq!(holder, "", "the lease is released");
}
