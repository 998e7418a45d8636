//! The contents of snapshots: informers, handlers, lists with their reasons, queues and
//! controllers.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_client::{Api, Client};
use dogwatch_controller::{Action, BoxError, Context, Controller, LeaderElector, Manager};
use dogwatch_core::{ObjectKey, WriteParams};
use dogwatch_diagnostics::Diagnostics;
use dogwatch_informer::{HandlerOptions, InformerFactory, SharedInformer};
use dogwatch_workqueue::WorkQueue;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::browser::{LIMIT, Snapshots, fetch};

fn client(server: &ApiServer) -> Client {
    Client::from_service(server.url().parse().unwrap(), "default", server.service())
}

async fn create(client: &Client, name: &str) {
    let map = ConfigMap {
        metadata: serde_json::from_value(json!({ "name": name })).unwrap(),
        data: Some([("password".to_owned(), "hunter2".to_owned())].into()),
        ..ConfigMap::default()
    };
    Api::<ConfigMap>::default_namespaced(client.clone()).create(&WriteParams::default(), &map).await.unwrap();
}

#[tokio::test]
async fn a_stream_reflects_an_informer_and_its_handlers() {
    let server = ApiServer::in_process().await.unwrap();
    let client = client(&server);
    create(&client, "first").await;
    let maps = SharedInformer::new(Api::<ConfigMap>::default_namespaced(client.clone()));
    let _changes = maps.changes_with(HandlerOptions::default().name("audit")).unwrap();
    let page = Diagnostics::new().program("a program");
    page.add_informer(&maps);
    page.add_informer(&maps);
    let served = page.serve("127.0.0.1:0").await.unwrap();
    let mut snapshots = Snapshots::open(&served).await;
    let before = snapshots.next().await;
    assert_eq!(before["program"]["name"], "a program");
    assert_eq!(before["informers"].as_array().unwrap().len(), 1, "it was added twice");
    assert_eq!(
        (&before["informers"][0]["state"], &before["informers"][0]["tone"]),
        (&json!("starting"), &json!("wait"))
    );

    maps.start();
    let is_synced = |it: &Value| it["informers"][0]["state"] == "synced";
    let synced = snapshots.wait_for("the informer is synced", is_synced).await;
    let informer = &synced["informers"][0];
    let objects = informer["objects"].as_u64().unwrap();
    assert_eq!((&informer["name"], &informer["kind"]), (&json!("configmaps"), &json!("ConfigMap v1")));
    assert_eq!(
        (&informer["history"][0]["reason"], &informer["history"][0]["objects"]),
        (&json!("start"), &json!(objects))
    );
    assert_eq!((&informer["tone"], &informer["queue_capacity"]), (&json!("ok"), &json!(1024)));

    create(&client, "second").await;
    let more = |it: &Value| it["informers"][0]["objects"] == json!(objects + 1);
    let later = snapshots.wait_for("the new object is counted", more).await;
    let (informer, handler) = (&later["informers"][0], &later["informers"][0]["handlers"][0]);
    assert_ne!(informer["resource_version"], synced["informers"][0]["resource_version"]);
    assert!(informer["received"].as_u64() > synced["informers"][0]["received"].as_u64());
    // The stream is not read.
    assert_eq!((&handler["name"], &handler["pending"]), (&json!("audit"), &json!(objects + 1)));
    assert_eq!((&handler["received"], &handler["delivered"]), (&json!(objects + 1), &json!(0)));
    assert!(!later.to_string().contains("hunter2"), "the contents of objects are not shown");
}

#[tokio::test]
async fn a_cut_watch_and_an_expired_one_are_in_the_history_with_their_reasons() {
    let server = ApiServer::in_process().await.unwrap();
    let maps = SharedInformer::new(Api::<ConfigMap>::all(client(&server)));
    maps.start();
    maps.synced_within(LIMIT).await.unwrap();
    let page = Diagnostics::new();
    page.add_informer(&maps);
    let served = page.serve("127.0.0.1:0").await.unwrap();
    let mut snapshots = Snapshots::open(&served).await;
    assert_eq!(snapshots.next().await["informers"][0]["watch"]["interrupted"], 0);

    server.faults().cut_watches();
    let cut = |it: &Value| it["informers"][0]["watch"]["interrupted"] == 1;
    let shown = snapshots.wait_for("the cut watch is shown", cut).await;
    let last = &shown["informers"][0]["watch"]["last_interruption"];
    assert!(last["message"].as_str().unwrap().contains("configmaps"), "{last}");
    assert!(last["ago_ms"].as_u64().unwrap() < 30_000, "{last}");
    assert_eq!(shown["informers"][0]["history"].as_array().unwrap().len(), 1, "it resumes without a list");

    server.expire_history();
    let listed = |it: &Value| it["informers"][0]["history"][0]["reason"] == "expired";
    let shown = snapshots.wait_for("the second list is shown with its reason", listed).await;
    let history = shown["informers"][0]["history"].as_array().unwrap();
    assert_eq!(history.iter().map(|it| &it["number"]).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(history[0]["text"], "history expired (410)");
    assert!(history[0]["message"].as_str().unwrap().contains("cannot watch configmaps"), "{history:?}");
}

#[tokio::test]
async fn informers_of_a_factory_come_and_go() {
    let server = ApiServer::in_process().await.unwrap();
    let factory = InformerFactory::new(client(&server));
    let page = Diagnostics::new();
    page.add_factory(&factory);
    let served = page.serve("127.0.0.1:0").await.unwrap();
    let mut snapshots = Snapshots::open(&served).await;
    let names = |it: &Value| -> Vec<String> {
        let informers = it["informers"].as_array().unwrap();
        informers.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&snapshots.next().await), [""; 0]);
    let (maps, secrets) = (factory.get::<ConfigMap>(), factory.get::<Secret>());
    factory.start();
    page.add_informer(&maps);
    snapshots.wait_for("both are shown once", |it| names(it) == ["configmaps", "secrets"]).await;
    maps.stop().await;
    let stopped = |it: &Value| it["informers"][0]["state"] == "stopped";
    snapshots.wait_for("a stopped informer is shown as such while its store is held", stopped).await;
    drop(maps);
    snapshots.wait_for("a dropped informer disappears", |it| names(it) == ["secrets"]).await;
    drop((secrets, factory));
    snapshots.wait_for("all have disappeared", |it| names(it).is_empty()).await;
}

#[tokio::test]
async fn a_controller_shows_its_queue_with_attempts_and_causes() {
    let server = ApiServer::in_process().await.unwrap();
    let client = client(&server);
    create(&client, "settings").await;
    let manager = Manager::new(client.clone());
    let maps = manager.informer::<ConfigMap>();
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let reconcile = {
        let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
        move |key: ObjectKey, context: Context| {
            let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
            async move {
                if key.name() != "settings" {
                    return Ok(Action::Done);
                }
                if context.attempt() == 0 {
                    return Err(BoxError::from("busy"));
                }
                begun.notify_one();
                go.notified().await;
                Ok(Action::RequeueAfter(Duration::from_secs(3600)))
            }
        }
    };
    let manager = manager.controller(Controller::of(&maps).named("sync").workers(3).build(reconcile));
    let page = Diagnostics::new();
    page.add_manager(&manager);
    let served = page.serve("127.0.0.1:0").await.unwrap();
    let mut snapshots = Snapshots::open(&served).await;
    let first = snapshots.next().await;
    assert_eq!(first["controllers"][0]["name"], "sync");
    assert_eq!(
        (&first["controllers"][0]["workers"], &first["controllers"][0]["started"]),
        (&json!(3), &json!(false))
    );

    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let running = tokio::spawn(manager.run_until(async move { stopped.notified().await }));
    tokio::time::timeout(LIMIT, begun.notified()).await.expect("the second attempt begins");
    let key = |it: &Value| it["controllers"][0]["queue"]["keys"][0].clone();
    let held = snapshots.wait_for("the key is in flight", |it| key(it)["state"] == "in flight").await;
    assert_eq!((&key(&held)["key"], &key(&held)["attempts"]), (&json!("default/settings"), &json!(1)));
    assert_eq!(key(&held)["causes"], "retry after: busy");
    let controller = &held["controllers"][0];
    assert_eq!((&controller["failures"], &controller["queue"]["held"]), (&json!(1), &json!(1)));
    assert_eq!((&controller["started"], &controller["informers"]), (&json!(true), &json!(["configmaps"])));
    let handler = &held["informers"][0]["handlers"][0];
    assert_eq!(handler["name"], "sync");

    go.notify_one();
    let delayed = snapshots.wait_for("the key is delayed", |it| key(it)["state"] == "delayed").await;
    assert!(key(&delayed)["due_ms"].as_u64().unwrap() > 3_500_000);
    assert_eq!(key(&delayed)["causes"], "requeued by the reconciler after 3600s");
    stop.notify_one();
    running.await.unwrap().unwrap();
    let gone = |it: &Value| it["controllers"].as_array().unwrap().is_empty();
    snapshots.wait_for("the controller disappears with its manager", gone).await;
}

#[tokio::test]
async fn a_queue_is_shown_under_its_name_until_it_is_dropped() {
    let (page, queue) = (Diagnostics::new(), WorkQueue::new());
    page.add_queue("uploads", &queue);
    queue.add("<script>alert(1)</script>".to_owned());
    queue.add("second".to_owned());
    let item = queue.try_take().unwrap().into_owned();
    let served = page.serve("127.0.0.1:0").await.unwrap();
    let (status, text) = fetch(&served, "GET", "/snapshot.json", &[]).await;
    let snapshot: Value = serde_json::from_str(&text).unwrap();
    let shown = &snapshot["queues"][0];
    assert_eq!(
        (status, &shown["name"], &shown["ready"], &shown["held"]),
        (200, &json!("uploads"), &json!(1), &json!(1))
    );
    assert_eq!(shown["keys"][0]["key"], "<script>alert(1)</script>");
    assert_eq!(shown["keys"][0]["causes"], Value::Null);
    drop((item, queue));
    let (_, text) = fetch(&served, "GET", "/snapshot.json", &[]).await;
    assert!(text.contains("\"queues\":[]"), "{text}");
}

/// Returns a manager with a controller called "sync", over informers of its own.
fn replica(client: &Client, identity: &str) -> Manager {
    let manager = Manager::new(client.clone());
    let elector = LeaderElector::builder(client.clone(), "sync").namespace("default").identity(identity);
    sync_controller(manager).leader_election(elector.build().unwrap())
}

fn sync_controller(manager: Manager) -> Manager {
    let maps = manager.informer::<ConfigMap>();
    let reconcile = |_: ObjectKey, _: Context| async { Ok::<_, BoxError>(Action::Done) };
    let controller = Controller::of(&maps).named("sync").build(reconcile);
    manager.controller(controller)
}

/// Returns the ids of the handlers of each informer.
fn handlers(snapshot: &Value) -> Vec<Vec<Value>> {
    let ids = |it: &Value| it["handlers"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
    snapshot["informers"].as_array().unwrap().iter().map(ids).collect()
}

#[tokio::test]
async fn replicas_with_equal_names_have_identities_and_handlers_of_their_own() {
    let server = ApiServer::in_process().await.unwrap();
    let (first, second) = (replica(&client(&server), "pod-a"), replica(&client(&server), "pod-b"));
    let page = Diagnostics::new();
    page.add_manager(&first);
    page.add_manager(&second);
    let served = page.serve("127.0.0.1:0").await.unwrap();
    let mut snapshots = Snapshots::open(&served).await;
    let mut running = JoinSet::new();
    running.spawn(first.run_until(std::future::pending()));
    let role = |it: &Value, place: usize| it["controllers"][place]["role"].clone();
    snapshots.wait_for("the first replica leads", |it| role(it, 0) == "leader").await;
    running.spawn(second.run_until(std::future::pending()));
    let is_synced = |it: &Value| it["informers"][1]["state"] == "synced";
    let shown = snapshots.wait_for("the informer of the second one is synced", is_synced).await;

    let (controllers, informers) = (&shown["controllers"], &shown["informers"]);
    assert_eq!((&controllers[0]["name"], &controllers[1]["name"]), (&json!("sync"), &json!("sync")));
    for (place, identity) in ["pod-a", "pod-b"].into_iter().enumerate() {
        let managers = (&controllers[place]["manager"], &informers[place]["manager"]);
        assert_eq!(managers, (&json!(identity), &json!(identity)));
        assert_eq!(controllers[place]["informer_ids"], json!([informers[place]["id"]]));
        assert_eq!(informers[place]["name"], "configmaps");
    }
    // The standby does not watch yet.
    assert_eq!((role(&shown, 1), &controllers[1]["handlers"]), (json!("standby"), &json!([])));
    let handlers = handlers(&shown);
    assert_eq!((handlers[0].len(), handlers[1].len()), (1, 0));
    assert_eq!(controllers[0]["handlers"], json!(handlers[0]));
}

#[tokio::test]
async fn managers_over_one_factory_have_numbers_and_a_handler_each_at_the_same_informer() {
    let server = ApiServer::in_process().await.unwrap();
    let factory = InformerFactory::new(client(&server));
    let page = Diagnostics::new();
    let mut running = JoinSet::new();
    for _ in 0..2 {
        let manager = sync_controller(Manager::over(factory.clone()));
        page.add_manager(&manager);
        running.spawn(manager.run_until(std::future::pending()));
    }
    let served = page.serve("127.0.0.1:0").await.unwrap();
    let mut snapshots = Snapshots::open(&served).await;
    let both_watch = |it: &Value| handlers(it).iter().any(|it| it.len() == 2);
    let shown = snapshots.wait_for("both controllers watch", both_watch).await;
    let (controllers, handlers) = (&shown["controllers"], handlers(&shown));
    assert_eq!((handlers.len(), &shown["informers"][0]["manager"]), (1, &Value::Null), "it is shared");
    let of = |place: usize| controllers[place]["handlers"][0].clone();
    assert_ne!(of(0), of(1));
    assert!(handlers[0].contains(&of(0)) && handlers[0].contains(&of(1)));
    let managers = (&controllers[0]["manager"], &controllers[1]["manager"]);
    assert_eq!(managers, (&json!("manager 1"), &json!("manager 2")));
    assert_eq!(controllers[0]["role"], Value::Null);
}
