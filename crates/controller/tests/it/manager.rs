//! The manager: what runs in it, what stops it, and the order of its shutdown.

use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use dogwatch_apiserver::faults::Rule;
use dogwatch_client::Api;
use dogwatch_controller::{
    Action, BoxError, CancellationToken, Context, Controller, EventRecorder, LeaderElector, Manager,
    ManagerError, NewEvent, Terminal,
};
use dogwatch_core::{ListParams, ObjectKey};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::test_cluster::{Calls, HOUR, Recording, SECOND, TestCluster, owned_map, settle, value};

/// A manager that runs until it is stopped.
struct Managed {
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

impl Managed {
    fn new(manager: Manager) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { manager.run_until(stopped.cancelled()).await });
        Self { stop, task }
    }

    async fn stop(self) -> Result<(), ManagerError> {
        self.stop.cancel();
        self.task.await.expect("no panic")
    }

    async fn ended(self) -> Result<(), ManagerError> {
        self.task.await.expect("no panic")
    }
}

fn manager(cluster: &TestCluster) -> Manager {
    Manager::over(cluster.informers.clone())
}

#[tokio::test(start_paused = true)]
async fn a_manager_runs_controllers_and_tasks_until_it_is_stopped() {
    let cluster = TestCluster::with(&["a"]).await;
    let manager = manager(&cluster);
    let (calls, maps) = (Calls::new(), manager.informer::<ConfigMap>());
    let recorded = calls.clone();
    let other = calls.clone();
    let managed = Managed::new(
        manager
            .controller(Controller::of(&maps).build(Recording(calls.clone())))
            .task("brief", move |_| async move {
                other.add("brief");
                Ok::<_, String>(())
            })
            .leader_task("long", move |stop| async move {
                recorded.add("long begun");
                stop.cancelled().await;
                recorded.add("long ended");
                Ok::<_, String>(())
            }),
    );
    settle().await;
    assert_eq!(calls.take_sorted(), ["a", "brief", "long begun"]);
    tokio::time::sleep(HOUR).await;
    managed.stop().await.expect("clean shutdown");
    assert_eq!(calls.take(), ["long ended"]);
    assert!(maps.is_stopped(), "informers end with the manager");
}

/// A free function with state and `anyhow` errors is a reconciler.
async fn record_value(
    map: Arc<ConfigMap>,
    context: Context,
    state: Arc<(Calls, EventRecorder)>,
) -> anyhow::Result<Action> {
    let name = map.metadata.name.as_deref().context("stored objects have names")?;
    let (calls, events) = &*state;
    calls.add(format!("{name} {}", value(&map)));
    events.record(&*map, NewEvent::normal("Recorded", "Record").message(format!("{name} is recorded")));
    anyhow::ensure!(value(&map) != "bad" || context.attempt() > 0, "a bad value");
    if value(&map) == "hopeless" {
        return Err(Terminal::new("never").into());
    }
    Ok(Action::Done)
}

#[tokio::test(start_paused = true)]
async fn a_function_of_the_object_and_some_state_is_a_controller() {
    let cluster = TestCluster::with(&["a"]).await;
    let manager = manager(&cluster);
    let (calls, events) = (Calls::new(), manager.events("example.com/recorder").expect("a valid name"));
    let controller = manager.controller_for::<ConfigMap>().owns::<ConfigMap>();
    let controller =
        controller.configure(|it| it.workers(2)).reconcile_with((calls.clone(), events), record_value);
    let managed = Managed::new(manager.controller(controller));
    settle().await;
    assert_eq!(calls.take(), ["a "]);
    cluster.put("a", "bad").await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.take(), ["a bad", "a bad"], "an anyhow error is retried");
    cluster.put("a", "hopeless").await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(calls.take(), ["a hopeless"], "a terminal error inside anyhow is not retried");
    let a = cluster.put("a", "good").await;
    settle().await;
    cluster.create(&owned_map("b", &a)).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.take_sorted(), ["a good", "a good", "b "], "the owner of a new object is reconciled");
    cluster.delete("b").await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.take(), ["a good"], "the function is not called for an object that is gone");
    managed.stop().await.expect("clean shutdown");
}

/// An event that is recorded at the very end is written before the manager returns.
#[tokio::test(start_paused = true)]
async fn a_manager_writes_the_events_of_its_controllers_before_it_ends() {
    let cluster = TestCluster::with(&["a"]).await;
    let manager = manager(&cluster);
    let events = manager.events("example.com/recorder").expect("a valid name");
    let map = cluster.maps.get("a").await.expect("it exists");
    let managed = Managed::new(manager.task("last words", move |stop| async move {
        stop.cancelled().await;
        events.record(&map, NewEvent::normal("Stopped", "Stop").message("the manager stops"));
        Ok::<_, String>(())
    }));
    settle().await;
    managed.stop().await.expect("clean shutdown");
    let written = Api::<Event>::default_namespaced(cluster.client.clone());
    let written = written.list_all(&ListParams::default()).await.expect("listed").items;
    assert_eq!(written.iter().map(|it| it.reason.as_deref()).collect::<Vec<_>>(), [Some("Stopped")]);
    assert!(written[0].reporting_controller.as_deref() == Some("example.com/recorder"));
}

/// An event that the server does not accept is retried for minutes.
#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_written_does_not_replace_the_outcome() {
    let cluster = TestCluster::with(&["a"]).await;
    cluster.server.faults().rule(Rule::on("create").resource("events").refuse(503));
    let manager = manager(&cluster);
    let (events, maps) =
        (manager.events("example.com/recorder").expect("a valid name"), manager.informer::<ConfigMap>());
    let map = cluster.maps.get("a").await.expect("it exists");
    let managed = Managed::new(manager.task("bad", move |_| async move {
        events.record(&map, NewEvent::normal("Failed", "Fail"));
        Err::<(), _>("broken")
    }));
    let error = managed.ended().await.expect_err("a task failed");
    assert_eq!(error.to_string(), "task bad failed");
    assert!(maps.is_stopped(), "informers end with the manager");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_name_for_a_recorder_is_an_error() {
    let cluster = TestCluster::with(&[]).await;
    assert!(manager(&cluster).events("not a name").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_stops_the_manager_with_its_name_and_the_others_in_order() {
    for (panics, expected) in [(false, "task bad failed: broken"), (true, "bad panicked: broken")] {
        let cluster = TestCluster::with(&[]).await;
        let calls = Calls::new();
        let recorded = calls.clone();
        let managed = Managed::new(
            manager(&cluster)
                .task("bad", move |_| async move {
                    tokio::time::sleep(SECOND).await;
                    assert!(!panics, "broken");
                    Err::<(), _>("broken")
                })
                .task("good", move |stop| async move {
                    stop.cancelled().await;
                    tokio::time::sleep(SECOND).await;
                    recorded.add("ended in time");
                    Ok::<_, String>(())
                }),
        );
        let error = managed.ended().await.expect_err("a task failed");
        let cause = std::error::Error::source(&error).map(|it| format!(": {it}")).unwrap_or_default();
        assert_eq!(format!("{error}{cause}"), expected);
        assert_eq!(calls.take(), ["ended in time"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_cannot_watch_stops_the_manager_with_its_name() {
    let cluster = TestCluster::with(&["a"]).await;
    cluster.server.faults().rule(Rule::on("list").or("watch").resource("secrets").refuse(403));
    let manager = manager(&cluster);
    let (maps, secrets) = (manager.informer::<ConfigMap>(), manager.informer::<Secret>());
    let calls = Calls::new();
    let managed = Managed::new(
        manager
            .controller(Controller::of(&maps).named("good").build(Recording(calls.clone())))
            .controller(Controller::of(&secrets).named("bad").build(Recording(Calls::new()))),
    );
    let begun = Instant::now();
    let error = managed.ended().await.expect_err("secrets are refused").to_string();
    assert!(error.contains(" did not start: after 120s, informer secrets is not synced"), "{error}");
    assert_eq!(begun.elapsed(), 120 * SECOND);
    assert_eq!(calls.take(), [] as [&str; 0], "the other controller may read the unsynced cache");
}

/// A reconciler that reads settings from an unsynced cache would take them for missing.
#[tokio::test(start_paused = true)]
async fn no_controller_works_before_every_informer_is_synced() {
    for (leads, alone) in [(false, false), (true, false), (false, true)] {
        let cluster = TestCluster::with(&["a"]).await;
        let api = dogwatch_client::Api::<Secret>::default_namespaced(cluster.client.clone());
        let mut settings = Secret::default();
        settings.metadata.name = Some("settings".to_owned());
        api.create(&dogwatch_core::WriteParams::default(), &settings).await.expect("created");
        cluster.server.faults().rule(Rule::on("list").or("watch").resource("secrets").delay(10 * SECOND));
        let manager = manager(&cluster);
        let (maps, secrets) = (manager.informer::<ConfigMap>(), manager.informer::<Secret>());
        let (calls, lister) = (Calls::new(), secrets.lister());
        let recorded = calls.clone();
        let mut controller = Controller::of(&maps);
        if alone {
            controller = controller.needs(&secrets);
        }
        let controller = controller.build(move |_: ObjectKey, _| {
            let found = lister.get(&ObjectKey::namespaced("default", "settings")).is_some();
            recorded.add(format!("settings found: {found}"));
            std::future::ready(Ok::<_, BoxError>(Action::Done))
        });
        if alone {
            let running = crate::test_cluster::Running::new(controller);
            tokio::time::sleep(30 * SECOND).await;
            running.stop().await.expect("clean shutdown");
        } else {
            let mut manager = manager.controller(controller);
            let elector = LeaderElector::builder(cluster.client.clone(), "tested").build().expect("valid");
            if leads {
                manager = manager.leader_election(elector.clone());
            }
            let managed = Managed::new(manager);
            tokio::time::sleep(5 * SECOND).await;
            assert!(!elector.is_leader(), "it does not stand for election either");
            tokio::time::sleep(25 * SECOND).await;
            managed.stop().await.expect("clean shutdown");
        }
        assert_eq!(calls.take(), ["settings found: true"], "leads: {leads}, alone: {alone}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_manager_stops_with_the_informer_of_a_controller_as_leader_and_as_standby() {
    for (elects, leads) in [(false, true), (true, true), (true, false)] {
        let cluster = TestCluster::with(&["a"]).await;
        let elector = |name: &str| {
            LeaderElector::builder(cluster.client.clone(), "tested").identity(name).build().expect("valid")
        };
        let other = elector("other");
        if !leads {
            let other = other.clone();
            tokio::spawn(async move { other.run_while_leading(|_| std::future::pending::<()>()).await });
            settle().await;
        }
        let (calls, mut manager) = (Calls::new(), manager(&cluster));
        let maps = manager.informer::<ConfigMap>();
        manager = manager.controller(Controller::of(&maps).named("x").build(Recording(calls.clone())));
        if elects {
            manager = manager.leader_election(elector("us"));
        }
        let managed = Managed::new(manager);
        tokio::time::sleep(SECOND).await;
        assert_eq!(calls.take().len(), usize::from(leads));
        maps.stop().await;
        let error = tokio::time::timeout(60 * SECOND, managed.ended()).await.expect("it ends in time");
        let error = error.expect_err("the informer has ended").to_string();
        assert!(error.starts_with("controller x stopped: informer configmaps has ended"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn duplicate_names_are_rejected_before_anything_starts() {
    let cluster = TestCluster::with(&["a"]).await;
    let manager = manager(&cluster);
    let (maps, calls) = (manager.informer::<ConfigMap>(), Calls::new());
    let controller = || Controller::of(&maps).build(Recording(calls.clone()));
    let error = manager.controller(controller()).controller(controller()).run_until(std::future::pending());
    let error = error.await.expect_err("one name");
    assert_eq!(error.to_string(), "two controllers or tasks of the manager are named configmap");
    assert!(!maps.is_started());
}

#[tokio::test(start_paused = true)]
async fn what_exceeds_the_grace_period_is_named_and_aborted() {
    let cluster = TestCluster::with(&["a"]).await;
    let manager = manager(&cluster).shutdown_timeout(10 * SECOND);
    let maps = manager.informer::<ConfigMap>();
    let stuck = |_: ObjectKey, _| std::future::pending::<Result<Action, BoxError>>();
    let dropped = Arc::new(Mutex::new(()));
    let held = dropped.clone();
    let managed = Managed::new(
        manager
            .controller(Controller::of(&maps).named("stuck").build(stuck))
            .task("deaf", move |_| async move {
                let _held = held;
                std::future::pending::<Result<(), String>>().await
            })
            .task("good", |stop| async move {
                stop.cancelled().await;
                Ok::<_, String>(())
            }),
    );
    settle().await;
    let begun = Instant::now();
    let error = managed.stop().await.expect_err("a controller and a task are stuck").to_string();
    assert_eq!(error, "still running after 10s, and aborted: controller stuck, deaf");
    assert_eq!(begun.elapsed(), 10 * SECOND);
    settle().await;
    assert_eq!(Arc::strong_count(&dropped), 1, "the task is dropped");
}

/// Probes and scrapes need a TCP socket, signals a process; the effect of a signal is visible
/// without either.
#[cfg(unix)]
#[tokio::test]
async fn a_signal_stops_the_manager_in_order_and_a_second_one_immediately() {
    fn signal(name: &str) {
        let kill = format!("kill -{name} {}", std::process::id());
        let status = std::process::Command::new("sh").args(["-c", &kill]).status().expect("there is a shell");
        assert!(status.success());
    }
    let cluster = TestCluster::with(&[]).await;
    for deaf in [false, true] {
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let (ending, is_ending) = tokio::sync::oneshot::channel();
        let manager = Manager::new(cluster.client.clone()).task("listener", move |stop| async move {
            begun.send(()).expect("the receiver is alive");
            stop.cancelled().await;
            ending.send(()).expect("the receiver is alive");
            if deaf {
                std::future::pending::<()>().await;
            }
            Ok::<_, String>(())
        });
        let running = tokio::spawn(manager.run());
        // Before that, no handler is installed, and the signal would end the test process.
        has_begun.await.expect("started");
        signal("TERM");
        is_ending.await.expect("the first signal stops the task");
        if deaf {
            signal("INT");
        }
        let outcome = running.await.expect("no panic").map_err(|it| it.to_string());
        let interrupted = "a second signal aborted the shutdown; still running: listener".to_owned();
        assert_eq!(outcome, if deaf { Err(interrupted) } else { Ok(()) });
    }
}
