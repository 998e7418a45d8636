//! The factory, and informers of an in-process API server (rule FA-1).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::faults::Rule;
use dogwatch_client::config::Impersonation;
use dogwatch_client::{Api, Client};
use dogwatch_core::{
    DeleteParams, Gvk, Header, LabelSelector, ListParams, Meta, Object, ResourceType, WriteParams,
};
use dogwatch_informer::{
    Change, HandlerOptions, HealthState, Index, InformerFactory, Overflow, Selection, SharedInformer, Start,
    WaitError,
};
use futures_util::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::{DynamicObject, PartialObjectMeta};
use serde::Deserialize;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(60);

async fn start() -> (ApiServer, Client) {
    let server = ApiServer::builder().in_process().seed(1).start().await.expect("the server starts");
    let client = Client::from_service(server.url().parse().expect("a URL"), "default", server.service());
    (server, client)
}

fn map(name: &str, change: usize) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some([("change".to_owned(), change.to_string())].into());
    map
}

async fn create(client: &Client, namespace: &str, name: &str) {
    let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    maps.create(&WriteParams::default(), &map(name, 0)).await.expect("the config map is created");
}

fn names<T: Object>(informer: &SharedInformer<T>) -> Vec<String> {
    informer.store().snapshot().iter().filter_map(|it| it.key()).map(String::from).collect()
}

/// An empty namespace stands for all of them, as in client-go, wherever it comes from.
#[tokio::test(start_paused = true)]
async fn an_empty_namespace_among_others_means_all_namespaces() {
    let (_server, client) = start().await;
    create(&client, "default", "a").await;
    create(&client, "kube-system", "b").await;
    let select = |namespaces: &[&str]| {
        namespaces.iter().fold(Selection::default(), |selection, it| selection.namespace(*it))
    };
    let within = |namespace: &str| Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let plain = InformerFactory::new(client.clone());
    let mixed = InformerFactory::new(client.clone()).namespace("default").namespace("");
    let informers = [
        plain.informer(&within(""), select(&["", "default"]), |it| it),
        plain.informer(&within(""), select(&["default", ""]), |it| it),
        plain.informer(&within("default"), select(&["", "default"]), |it| it),
        plain.informer(&within("default"), select(&[""]), |it| it),
        mixed.get::<ConfigMap>(),
    ];
    for informer in &informers {
        informer.start();
        informer.synced().await.expect("synced");
        let names = names(informer);
        assert!(names.contains(&"default/a".to_owned()), "{names:?}");
        assert!(names.contains(&"kube-system/b".to_owned()), "{names:?}");
    }
    assert!(informers[..4].windows(2).all(|it| it[0].name() == it[1].name()), "they are one informer");
}

#[tokio::test(start_paused = true)]
async fn fa_1_equal_requests_share_one_informer() {
    let (_server, client) = start().await;
    create(&client, "default", "a").await;
    let factory = InformerFactory::new(client);
    let one = factory.get::<ConfigMap>();
    let other = factory.get::<ConfigMap>();
    let labelled = Selection::default().labels("app=x".parse::<LabelSelector>().expect("a selector"));
    let some = factory.get_with::<ConfigMap>(labelled, |it| it.name("labelled"));
    let nowhere = Selection::default().namespace("nowhere");
    let elsewhere = factory.get_with::<ConfigMap>(nowhere, |it| it.name("elsewhere"));
    factory.start();
    factory.start();
    factory.wait_for_sync(PATIENCE).await.into_result().expect("all informers sync");
    let made = |it: &SharedInformer<ConfigMap>| it.store().get_named(Some("default"), "a").is_some();
    assert!(made(&other), "both handles are of the same informer");
    assert_eq!(
        (some.store().len(), elsewhere.store().len()),
        (0, 0),
        "another selection has an informer of its own"
    );
    drop(one);
    assert!(!other.is_stopped());
    let store = other.store().detached();
    drop(other);
    let again = factory.get::<ConfigMap>();
    assert!(!again.is_started(), "the last handle was dropped, so this is a new informer");
    assert!(store.get_named(Some("default"), "a").is_some(), "the store stays readable");
}

#[tokio::test(start_paused = true)]
async fn fa_1_requests_with_different_contents_get_different_informers() {
    let ((_one, client), (_other, elsewhere)) = (start().await, start().await);
    create(&client, "default", "a").await;
    create(&elsewhere, "default", "b").await;
    let factory = InformerFactory::new(client.clone());
    let here = factory.get::<ConfigMap>();
    let there = factory.informer(&Api::<ConfigMap>::all(elsewhere), Selection::default(), |it| it);
    let user =
        client.acting_as(Impersonation { user: Some("system:admin".to_owned()), ..Impersonation::default() });
    let acting = factory.informer(&Api::<ConfigMap>::all(user), Selection::default(), |it| it);
    let shard = |half: &str| {
        let selector = format!("shardRange(object.metadata.uid,{half})");
        factory.get_with::<ConfigMap>(Selection::default().shard(selector), |it| it.name("shard"))
    };
    let halves = [shard("'0x0','0x8'"), shard("'0x8','0x10'")];
    let newest = || {
        factory.get_with::<ConfigMap>(Selection::default(), |it| it.reflector(|it| it.start(Start::Newest)))
    };
    let stripped = || {
        factory.get_with::<ConfigMap>(Selection::default(), |it| {
            it.transform(|mut map| {
                map.data = None;
                map
            })
        })
    };
    let kept = |key: &str| {
        let key = key.to_owned();
        factory.get_with::<ConfigMap>(Selection::default(), move |it| {
            it.transform(move |mut map: ConfigMap| {
                map.data.get_or_insert_default().retain(|it, _| *it == key);
                map
            })
        })
    };
    // These two are kept alive, so that an equal request can find them.
    let (newest_one, stripped_one) = (newest(), stripped());
    let all = [here, there, acting, newest_one, stripped_one, kept("x"), kept("y")];
    factory.start();
    for (place, informer) in all.iter().chain(&halves).enumerate() {
        let mark = Index::new(&format!("mark {place}"), |_: &ConfigMap| [String::new()]);
        assert!(informer.add_index(mark).is_ok());
        for (other, it) in all.iter().chain(&halves).enumerate() {
            let marked = it.store().index_values(&format!("mark {place}")).is_ok();
            assert_eq!(marked, other == place, "{place} and {other}");
        }
    }
    assert!(
        newest().store().index_values("mark 3").is_ok() && stripped().store().index_values("mark 4").is_ok()
    );
    tokio::time::sleep(PATIENCE).await;
    let made = |at: usize| names(&all[at]).into_iter().find(|it| it.starts_with("default/"));
    assert_eq!((made(0).as_deref(), made(1).as_deref()), (Some("default/a"), Some("default/b")));
}

/// Some fields of a config map.
#[derive(Deserialize)]
struct Data {
    metadata: Meta,
    data: BTreeMap<String, String>,
}

impl Object for Data {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

impl dogwatch_core::View for Data {
    type Of = ConfigMap;
}

#[tokio::test(start_paused = true)]
async fn each_payload_type_whole_dynamic_view_or_metadata_has_an_informer_of_its_own() {
    let (_server, client) = start().await;
    create(&client, "default", "a").await;
    let factory = InformerFactory::new(client);
    let maps = ResourceType::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
    let (whole, some) = (factory.get::<ConfigMap>(), factory.get::<Data>());
    let metadata = factory.get::<PartialObjectMeta<ConfigMap>>();
    let dynamic = factory.dynamic(maps);
    factory.start();
    let result = factory.wait_for_sync(PATIENCE).await;
    assert_eq!((result.is_ok(), result.synced.len()), (true, 4), "{result:?}");

    let (namespace, name) = ("default", "a");
    let object = whole.store().get_named(Some(namespace), name).expect("the object is there");
    assert_eq!(object.data.as_ref().and_then(|it| it.get("change")).map(String::as_str), Some("0"));
    let object = some.store().get_named(Some(namespace), name).expect("the object is there");
    assert_eq!(object.data["change"], "0");
    let object = dynamic.store().get_named(Some(namespace), name).expect("the object is there");
    assert_eq!(object.data["data"]["change"], "0");
    let object = metadata.store().get_named(Some(namespace), name).expect("the object is there");
    assert_eq!(object.metadata.name.as_deref(), Some("a"));
}

/// Handles of one payload type may request whole objects or metadata, with or without the managed
/// fields. A reader that shares a cache of the other form lacks fields without any error.
#[tokio::test(start_paused = true)]
async fn fa_1_handles_that_read_different_parts_of_objects_have_different_informers() {
    let (_server, client) = start().await;
    create(&client, "default", "a").await;
    let factory = InformerFactory::new(client.clone());
    let maps = ResourceType::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
    let dynamic = factory.dynamic(maps.clone());
    let of = |api: &Api<DynamicObject>| factory.informer(api, Selection::default(), |it| it);
    let metadata_api = Api::dynamic_metadata(client.clone(), maps);
    let (metadata, all_metadata) = (of(&metadata_api), of(&metadata_api.clone().with_managed_fields()));
    let plain = factory.get::<ConfigMap>();
    let managed_api = Api::<ConfigMap>::all(client).with_managed_fields();
    let managed = || factory.informer(&managed_api, Selection::default(), |it| it);
    let first = managed();
    factory.start();
    let result = factory.wait_for_sync(PATIENCE).await;
    assert_eq!((result.is_ok(), result.synced.len()), (true, 5), "{result:?}");

    assert!(managed().is_started(), "an equal request gets the same informer");
    for (informer, expected) in [(&plain, false), (&first, true)] {
        let object = informer.store().get_named(Some("default"), "a").expect("the object is there");
        assert_eq!(object.metadata.managed_fields.is_some(), expected);
    }
    for (informer, data, managed) in
        [(&dynamic, true, false), (&metadata, false, false), (&all_metadata, false, true)]
    {
        let object = informer.store().get_named(Some("default"), "a").expect("the object is there");
        assert_eq!(object.data.get("data").is_some(), data, "{}", informer.name());
        assert_eq!(object.metadata.managed_fields.is_some(), managed, "{}", informer.name());
    }
}

/// Stopping a shared informer may have to wait for slow handlers; meanwhile no other caller must
/// get an informer that is about to end.
#[tokio::test(start_paused = true)]
async fn a_stopping_informer_is_not_returned() {
    let (_server, client) = start().await;
    create(&client, "default", "a").await;
    let factory = InformerFactory::new(client);
    let stopped = factory.get::<ConfigMap>();
    factory.start();
    stopped.synced().await.expect("the informer syncs");
    // Polled once, it has asked the informer to stop and waits for that.
    let mut stopping = Box::pin(stopped.stop());
    assert!((&mut stopping).now_or_never().is_none());
    assert!(!stopped.is_stopped());
    let next = factory.get::<ConfigMap>();
    factory.start();
    stopping.await;
    next.synced_within(PATIENCE).await.expect("the new informer syncs");
    next.on_add(|_| {}).expect("the new informer accepts handlers");
    assert!(names(&next).contains(&"default/a".to_owned()));
}

/// Otherwise their metrics would be written to the same series.
#[tokio::test(start_paused = true)]
async fn in_14_informers_of_one_resource_have_different_names_and_names_are_reused() {
    let (_server, client) = start().await;
    let factory = InformerFactory::new(client);
    let of =
        |namespace: &str| factory.get_with::<ConfigMap>(Selection::default().namespace(namespace), |it| it);
    let (first, second, third) = (of("a"), of("b"), of("c"));
    assert_eq!([first.name(), second.name(), third.name()], ["configmaps", "configmaps-2", "configmaps-3"]);
    assert_eq!(of("b").name(), "configmaps-2", "it is the same informer");
    drop(second);
    assert_eq!(of("d").name(), "configmaps-2");
    let named = factory.get_with::<ConfigMap>(Selection::default().namespace("e"), |it| it.name("mine"));
    assert_eq!(named.name(), "mine");
    assert_eq!(factory.get::<Secret>().name(), "secrets");
}

#[tokio::test(start_paused = true)]
async fn fa_1_waiting_reports_which_informers_do_not_sync_and_why() {
    let (server, client) = start().await;
    server.faults().rule(Rule::on("list").or("watch").resource("secrets").refuse(403));
    let factory = InformerFactory::new(client);
    let (maps, secrets) = (factory.get::<ConfigMap>(), factory.get::<Secret>());
    let later = factory.get::<Namespace>();
    maps.start();
    secrets.start();
    let result = factory.wait_for_sync(PATIENCE).await;
    assert_eq!(result.synced, ["configmaps"], "an informer that was not started is not waited for");
    let error = result.into_result().expect_err("listing secrets is forbidden").to_string();
    assert!(error.starts_with("informer secrets is not synced after 60s: retrying"), "{error}");
    assert!(!later.is_started());
}

#[tokio::test(start_paused = true)]
async fn fa_1_a_shutdown_ends_every_task_and_nothing_starts_after_it() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (server, client) = start().await;
    // The server has tasks too, and not all of them from the start.
    tokio::time::sleep(PATIENCE).await;
    let before = tasks();
    let factory = InformerFactory::new(client);
    let (maps, secrets) = (factory.get::<ConfigMap>(), factory.get::<Secret>());
    maps.on_add(|_| ()).expect("the informer has not stopped");
    factory.start();
    factory.wait_for_sync(PATIENCE).await.into_result().expect("all informers sync");
    assert!(tasks() >= before + 5, "two informers, two reflectors, a handler");
    factory.shut_down().await;
    assert_eq!(tasks(), before);
    assert!(maps.is_stopped() && secrets.is_stopped());
    let more = factory.get::<Namespace>();
    factory.start();
    factory.shut_down().await;
    assert!(!more.is_synced());
    drop(server);
}

/// Dropping the last handle does not wait; shutting the factory down does.
#[tokio::test(start_paused = true)]
async fn fa_1_a_shutdown_waits_for_informers_whose_last_handle_was_just_dropped() {
    let (_server, client) = start().await;
    let factory = InformerFactory::new(client);
    let maps = factory.get::<ConfigMap>();
    factory.start();
    factory.wait_for_sync(PATIENCE).await.into_result().expect("all informers sync");
    let store = maps.store();
    drop(maps);
    let ended = || store.wait_until(&"999999".into()).now_or_never();
    assert_eq!(ended(), None, "its tasks have not run yet");
    // Another one of the same kind, which was never started, replaces it meanwhile.
    let again = factory.get::<ConfigMap>();
    factory.shut_down().await;
    assert_eq!(ended(), Some(Err(WaitError::Closed)));
    assert!(again.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_are_one_informer_and_a_relist_of_one_does_not_affect_the_others() {
    let (server, client) = start().await;
    for namespace in ["one", "two", "three"] {
        let mut object = Namespace::default();
        object.metadata.name = Some(namespace.to_owned());
        let namespaces = Api::<Namespace>::all(client.clone());
        namespaces.create(&WriteParams::default(), &object).await.expect("the namespace is created");
        create(&client, namespace, "a").await;
    }
    let factory = InformerFactory::new(client.clone()).namespace("one").namespace("two");
    let maps = factory.get::<ConfigMap>();
    let received = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&received);
    maps.on_change(move |it| to.lock().unwrap().push(it.clone())).unwrap();
    factory.start();
    factory.wait_for_sync(PATIENCE).await.into_result().expect("both namespaces sync");
    assert_eq!(names(&maps), ["one/a", "two/a"]);
    assert_eq!(maps.store().by_index("namespace", "two").unwrap().len(), 1);

    create(&client, "two", "b").await;
    create(&client, "three", "b").await;
    server.expire_history();
    create(&client, "one", "c").await;
    tokio::time::sleep(5 * PATIENCE).await;
    assert_eq!(names(&maps), ["one/a", "one/c", "two/a", "two/b"]);
    let deletions = received.lock().unwrap().iter().filter(|it| matches!(it, Change::Deleted(_))).count();
    assert_eq!((deletions, received.lock().unwrap().len()), (0, 4), "each object is delivered once");
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_is_removed_and_recreated_is_watched_again() {
    let (_server, client) = start().await;
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": { "name": "buoys.example.org" },
        "spec": {
            "group": "example.org", "scope": "Cluster",
            "names": { "plural": "buoys", "singular": "buoy", "kind": "Buoy", "listKind": "BuoyList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    }))
    .expect("a definition");
    let resource = ResourceType::cluster(Gvk::new("example.org", "v1", "Buoy"), "buoys");
    let buoys = Api::<serde_json::Value>::dynamic(client.clone(), resource.clone());
    let buoy = json!({ "apiVersion": "example.org/v1", "kind": "Buoy", "metadata": { "name": "red" } });

    definitions.create(&WriteParams::default(), &definition).await.expect("defined");
    tokio::time::sleep(PATIENCE).await;
    buoys.create(&WriteParams::default(), &buoy).await.expect("the resource is served");
    let informer = InformerFactory::new(client).dynamic(resource);
    informer.start();
    informer.synced_within(PATIENCE).await.expect("the informer syncs");
    assert_eq!(names(&informer), ["red"]);

    definitions.delete("buoys.example.org", &DeleteParams::default()).await.expect("removed");
    tokio::time::sleep(5 * PATIENCE).await;
    assert!(informer.store().is_empty(), "the server deleted its objects first");
    assert_eq!(informer.health().state, HealthState::NotServed, "{}", informer.health());

    definitions.create(&WriteParams::default(), &definition).await.expect("defined");
    tokio::time::sleep(PATIENCE).await;
    buoys.create(&WriteParams::default(), &buoy).await.expect("the resource is served");
    tokio::time::sleep(5 * PATIENCE).await;
    assert_eq!(names(&informer), ["red"]);
    assert!(informer.health().is_ok(), "{}", informer.health());
}

/// Applies the changes of a handler to a copy, and checks that each follows from the state before.
#[derive(Debug, Default)]
struct View {
    copy: BTreeMap<String, (String, u64)>,
    wrong: Vec<String>,
}

impl View {
    fn fold(&mut self, change: &Change<ConfigMap>) {
        let object = change.object();
        let key = String::from(object.key().expect("a name"));
        let uid = object.header().uid.to_owned();
        let version: u64 = object.header().version.parse().expect("a number");
        let known = self.copy.get(&key).cloned();
        let fits = match (change, &known) {
            (Change::Added { .. }, None) => true,
            (Change::Updated { old, .. }, Some((held, at))) => {
                *held == uid && *at < version && old.header().version == at.to_string()
            }
            (Change::Deleted(_), Some((held, at))) => *held == uid && *at <= version,
            _ => false,
        };
        if !fits {
            self.wrong.push(format!(
                "{key}: {known:?} and then {uid} at {version}, deleted: {}",
                matches!(change, Change::Deleted(_))
            ));
        }
        match change {
            Change::Deleted(_) => self.copy.remove(&key),
            _ => self.copy.insert(key, (uid, version)),
        };
    }
}

/// Ported from client-go: HammerController. Writers, deletions and recreations, a server that
/// expires versions and cuts connections, handlers of every policy.
#[tokio::test(start_paused = true)]
async fn the_store_and_every_handler_end_with_the_state_of_the_server() {
    let (server, client) = start().await;
    server.faults().rule(Rule::on("watch").probability(0.3, 3).cut_after(9));
    server.faults().rule(Rule::on("list").probability(0.3, 4).refuse(500));
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
    let informer = SharedInformer::new(maps.clone());
    informer.start();
    let mut views = Vec::new();
    for round in 0..200usize {
        let name = format!("m{}", round * 7 % 13);
        match round % 4 {
            0 => drop(maps.delete(&name, &DeleteParams::default()).await),
            1 => drop(maps.create(&WriteParams::default(), &map(&name, round)).await),
            _ => drop(maps.replace(&name, &WriteParams::default(), &map(&name, round)).await),
        }
        if round % 20 == 0 {
            let overflow = [Overflow::Coalesce, Overflow::Grow, Overflow::Block(3)][round / 20 % 3];
            let view = Arc::new(Mutex::new(View::default()));
            let to = Arc::clone(&view);
            let handler = HandlerOptions::default().overflow(overflow);
            struct Fold(Arc<Mutex<View>>);
            impl dogwatch_informer::EventHandler<ConfigMap> for Fold {
                fn on_change(&mut self, change: &Change<ConfigMap>) {
                    self.0.lock().unwrap().fold(change);
                }
            }
            informer.add_handler_with(Fold(to), handler).expect("the informer runs");
            views.push(view);
        }
        match round % 50 {
            17 => server.faults().drop_watches(),
            31 => drop(server.expire_history()),
            _ => tokio::time::sleep(Duration::from_millis(round as u64 % 3 * 100)).await,
        }
    }
    server.faults().clear();
    create(&client, "default", "the-end").await;
    let list = maps.list_all(&ListParams::default()).await.expect("a list");
    informer.wait_until(&list.metadata.version).await.expect("the informer follows");
    informer.stop().await;
    let entry = |it: &ConfigMap| {
        let header = it.header();
        (
            String::from(it.key().expect("a name")),
            (header.uid.to_owned(), header.version.parse().expect("a number")),
        )
    };
    let truth: BTreeMap<_, _> = list.items.iter().map(entry).collect();
    let store: BTreeMap<_, _> = informer.store().snapshot().iter().map(|it| entry(it)).collect();
    assert_eq!(store, truth);
    for view in views {
        let view = view.lock().unwrap();
        assert_eq!(view.wrong, Vec::<String>::new());
        assert_eq!(view.copy, truth);
    }
}
