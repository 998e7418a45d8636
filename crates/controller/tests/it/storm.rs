//! A controller over many objects in bad weather: it converges, and does not do more than there is to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::faults::Rule;
use dogwatch_client::{Api, Client};
use dogwatch_controller::{Action, Context, Controller, ReconcileError, Reconciler};
use dogwatch_core::{ObjectKey, WriteParams};
use dogwatch_informer::{InformerFactory, Lister, SharedInformer};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::task::JoinSet;

use crate::world::{Running, SECOND, map, value};

/// Keeps `copy` of each map equal to its `value`.
struct Copier {
    maps: Lister<ConfigMap>,
    api: Api<ConfigMap>,
    calls: Arc<AtomicUsize>,
}

impl Reconciler for Copier {
    type Error = ReconcileError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, ReconcileError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let Ok(found) = self.maps.get(key) else { return Ok(Action::Done) };
        if is_copied(&found) {
            return Ok(Action::Done);
        }
        let mut copied = ConfigMap::clone(&found);
        let text = value(&found).to_owned();
        copied.data.get_or_insert_default().insert("copy".to_owned(), text);
        context.wrote(&self.api.replace(key.name(), &WriteParams::default(), &copied).await?);
        Ok(Action::Done)
    }
}

fn is_copied(map: &ConfigMap) -> bool {
    map.data.as_ref().and_then(|it| it.get("copy")).map(String::as_str) == Some(value(map))
}

fn with_value(name: &str, text: &str) -> ConfigMap {
    let mut map = map(name);
    map.data = Some([("value".to_owned(), text.to_owned())].into());
    map
}

fn name(number: usize) -> String {
    format!("m{number:05}")
}

/// Writes all of these, a hundred at a time, and again where the weather did not let it.
async fn write_all(api: &Api<ConfigMap>, numbers: impl Iterator<Item = usize>, text: &'static str) {
    let mut writes = JoinSet::new();
    for number in numbers {
        let api = api.clone();
        if writes.len() >= 100 {
            writes.join_next().await;
        }
        writes.spawn(async move {
            let map = with_value(&name(number), text);
            while api.replace(&name(number), &WriteParams::default(), &map).await.is_err() {}
        });
    }
    writes.join_all().await;
}

/// Waits until every map is copied, in the cache, which follows the server.
async fn converged(informer: &SharedInformer<ConfigMap>, server: &ApiServer) {
    loop {
        let version = server.cluster().store().revision().to_string();
        let snapshot = informer.store().snapshot();
        if snapshot.iter().all(|it| is_copied(it)) && informer.store().version().as_str() == version {
            return;
        }
        tokio::time::sleep(SECOND).await;
    }
}

/// Bad weather of all kinds, none of which loses anything.
fn weather(server: &ApiServer) {
    for rule in [
        Rule::on("update").refuse(500).probability(0.005, 1),
        Rule::on("update").refuse(409).reason("Conflict").probability(0.005, 2),
        Rule::on("update").reset_before().probability(0.005, 3),
        Rule::on("update").reset_after().probability(0.005, 4),
        Rule::on("watch").or("list").refuse(503).probability(0.3, 5),
        Rule::on("watch").cut_after(500).probability(0.9, 6),
    ] {
        server.faults().rule(rule);
    }
}

async fn storm(objects: usize) {
    let mut server = ApiServer::builder().in_process().seed(1);
    for number in 0..objects {
        let mut map = with_value(&name(number), "0");
        map.metadata.namespace = Some("default".to_owned());
        server = server.object(&map);
    }
    let server = server.start().await.expect("it starts");
    let client = Client::from_service(server.url().parse().expect("a URL"), "default", server.service());
    let api = Api::<ConfigMap>::default_namespaced(client.clone());
    let first = server.cluster().store().revision();
    weather(&server);

    let maps = InformerFactory::new(client).namespace("default").get::<ConfigMap>();
    let calls = Arc::new(AtomicUsize::new(0));
    let copier = Copier { maps: maps.lister(), api: api.clone(), calls: calls.clone() };
    let running = Running::new(Controller::for_(&maps).workers(50).build(copier));
    while !maps.is_synced() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    converged(&maps, &server).await;
    for (round, text) in ["1", "2"].into_iter().enumerate() {
        write_all(&api, (round..objects).step_by(10), text).await;
        server.faults().expire(server.cluster());
        converged(&maps, &server).await;
        server.faults().cut_watches();
    }
    tokio::time::sleep(60 * SECOND).await;
    running.stop().await.expect("it ends well");

    assert_eq!(maps.store().len(), objects);
    let changes = objects + usize::try_from(server.cluster().store().revision() - first).unwrap();
    let calls = calls.load(Ordering::Relaxed);
    let tally = server.faults().tally();
    let relists = maps.health().relists;
    #[allow(clippy::print_stdout, reason = "this is what the task is run for")]
    {
        println!("{objects} objects: {changes} changes, {calls} reconciles, {relists} relists, {tally:?}");
    }
    assert!(relists >= 2 && tally.refused > 0, "{tally:?}");
    let off = calls.abs_diff(changes) as f64 / changes as f64;
    assert!(off <= 0.05, "{calls} reconciles for {changes} changes, {tally:?}");
}

/// How many objects there are; `cargo xtask controller-storm` asks for more than a debug build does in good time.
fn objects() -> usize {
    let asked = std::env::var("DOGWATCH_STORM_OBJECTS").ok();
    asked.map_or(1000, |it| it.parse().expect("DOGWATCH_STORM_OBJECTS is a number"))
}

#[tokio::test(start_paused = true)]
async fn many_objects_converge_in_bad_weather_with_as_many_reconciles_as_changes() {
    storm(objects()).await;
}
