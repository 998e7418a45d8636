//! A controller over many objects under fault injection: it converges, and does no more work than
//! there are changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::faults::Rule;
use dogwatch_client::{Api, Client};
use dogwatch_controller::{Action, BoxError, Context, Controller, Reconciler};
use dogwatch_core::{DeleteParams, ObjectKey, WriteParams};
use dogwatch_informer::{InformerFactory, Lister, SharedInformer};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;

use crate::test_cluster::{Running, SECOND, map, value};

/// Keeps `copy` of each map equal to its `value`.
struct Copier {
    maps: Lister<ConfigMap>,
    api: Api<ConfigMap>,
    calls: Arc<AtomicUsize>,
}

impl Reconciler for Copier {
    type Error = BoxError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, BoxError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let Some(found) = self.maps.get(key) else { return Ok(Action::Done) };
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

/// Writes all of these, a hundred at a time, and retries when a fault prevents a write.
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

/// Waits until every map in the cache, which follows the server, is copied.
async fn converged(informer: &SharedInformer<ConfigMap>, server: &ApiServer) {
    loop {
        let version = server.revision().to_string();
        let snapshot = informer.store().snapshot();
        if snapshot.iter().all(|it| is_copied(it)) && informer.store().version().as_str() == version {
            return;
        }
        tokio::time::sleep(SECOND).await;
    }
}

/// Faults of all kinds, none of which loses data.
fn inject_faults(server: &ApiServer) {
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
    let server = server.start().await.expect("started");
    let client = Client::from_service(server.url().parse().expect("a URL"), "default", server.service());
    let api = Api::<ConfigMap>::default_namespaced(client.clone());
    let first = server.revision();
    inject_faults(&server);

    let maps = InformerFactory::new(client).namespace("default").get::<ConfigMap>();
    let calls = Arc::new(AtomicUsize::new(0));
    let copier = Copier { maps: maps.lister(), api: api.clone(), calls: calls.clone() };
    let running = Running::new(Controller::of(&maps).workers(50).build(copier));
    while !maps.is_synced() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    converged(&maps, &server).await;
    for (round, text) in ["1", "2"].into_iter().enumerate() {
        write_all(&api, (round..objects).step_by(10), text).await;
        server.expire_history();
        converged(&maps, &server).await;
        server.faults().cut_watches();
    }
    tokio::time::sleep(60 * SECOND).await;
    running.stop().await.expect("clean shutdown");

    assert_eq!(maps.store().len(), objects);
    let changes = objects + usize::try_from(server.revision() - first).unwrap();
    let calls = calls.load(Ordering::Relaxed);
    let tally = server.faults().tally();
    let relists = maps.health().relists;
    #[allow(clippy::print_stdout, reason = "the xtask prints the result")]
    {
        println!("{objects} objects: {changes} changes, {calls} reconciles, {relists} relists, {tally:?}");
    }
    assert!(relists >= 2 && tally.refused > 0, "{tally:?}");
    let off = calls.abs_diff(changes) as f64 / changes as f64;
    assert!(off <= 0.05, "{calls} reconciles for {changes} changes, {tally:?}");
}

/// Keeps a secret of the same name and value for each map.
struct Parent {
    maps: Lister<ConfigMap>,
    secrets: Lister<Secret>,
    api: Api<Secret>,
    calls: Arc<AtomicUsize>,
}

impl Reconciler for Parent {
    type Error = BoxError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, BoxError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        // Each round takes some time. From a stale cache, a parent that is gone gets a child that
        // is deleted again and again; on a clock that advances only when all tasks wait, the cache
        // would never catch up.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let child = self.secrets.get(key);
        let Some(parent) = self.maps.get(key) else {
            if let Some(child) = child {
                let uid = child.metadata.uid.clone();
                let preconditions = Some(dogwatch_core::Preconditions { uid, resource_version: None });
                let mut params = DeleteParams::default();
                params.preconditions = preconditions;
                match self.api.delete(key.name(), &params).await {
                    Err(error) if !error.is_not_found() => return Err(error.into()),
                    _ => {}
                }
            }
            return Ok(Action::Done);
        };
        let wanted = child_of(&parent);
        match child {
            None => context.wrote(&self.api.create(&WriteParams::default(), &wanted).await?),
            Some(child)
                if child.string_data_of("value") != Some(value(&parent).to_owned())
                    || child.metadata.owner_references != wanted.metadata.owner_references =>
            {
                let mut wanted = wanted;
                wanted.metadata.resource_version.clone_from(&child.metadata.resource_version);
                context.wrote(&self.api.replace(key.name(), &WriteParams::default(), &wanted).await?);
            }
            Some(_) => {}
        }
        Ok(Action::Done)
    }
}

trait Data {
    fn string_data_of(&self, key: &str) -> Option<String>;
}

impl Data for Secret {
    fn string_data_of(&self, key: &str) -> Option<String> {
        let bytes = &self.data.as_ref()?.get(key)?.0;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

fn child_of(parent: &ConfigMap) -> Secret {
    let mut child = Secret::default();
    child.metadata.name.clone_from(&parent.metadata.name);
    child.metadata.owner_references = crate::test_cluster::owned_map("x", parent).metadata.owner_references;
    let data = k8s_openapi::ByteString(value(parent).as_bytes().to_vec());
    child.data = Some([("value".to_owned(), data)].into());
    child
}

/// Returns the desired and the actual secrets on the server, by name: the value and the owner's uid
/// of each.
async fn family(client: &Client) -> (BTreeMap<String, (String, String)>, BTreeMap<String, (String, String)>) {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let secrets = Api::<Secret>::default_namespaced(client.clone());
    let list = dogwatch_core::ListParams::default();
    let (maps, secrets) = (maps.list(&list).await, secrets.list(&list).await);
    let wanted = maps.expect("listed").items.iter().map(child_of).collect::<Vec<_>>();
    let recorded = |it: &Secret| {
        let owner = it.metadata.owner_references.as_ref().map(|it| it[0].uid.clone());
        (it.metadata.name.clone().unwrap(), (it.string_data_of("value").unwrap(), owner.unwrap_or_default()))
    };
    (wanted.iter().map(recorded).collect(), secrets.expect("listed").items.iter().map(recorded).collect())
}

/// Other clients change, delete and recreate parents and children, through watches that break,
/// stall and expire. In the end each parent has its child, created by the controller, and there are
/// no others.
async fn family_storm(objects: usize, seed: u64) {
    let server = ApiServer::builder().in_process().seed(seed).start().await.expect("started");
    let client = Client::from_service(server.url().parse().expect("a URL"), "default", server.service());
    let (maps_api, secrets_api) = (
        Api::<ConfigMap>::default_namespaced(client.clone()),
        Api::<Secret>::default_namespaced(client.clone()),
    );
    let informers = InformerFactory::new(client.clone()).namespace("default");
    let (maps, secrets) = (informers.get::<ConfigMap>(), informers.get::<Secret>());
    let calls = Arc::new(AtomicUsize::new(0));
    let parent = Parent {
        maps: maps.lister(),
        secrets: secrets.lister(),
        api: secrets_api.clone(),
        calls: calls.clone(),
    };
    let running = Running::new(Controller::of(&maps).owns(&secrets).workers(20).build(parent));
    inject_faults(&server);
    let mut random = StdRng::seed_from_u64(seed);
    let write = WriteParams::default();
    for step in 0..objects * 10 {
        let name = name(random.random_range(0..objects));
        // Writes that a fault prevents are skipped; the test checks the final state of the server.
        match random.random_range(0..100) {
            0..35 => drop(maps_api.create(&write, &with_value(&name, &step.to_string())).await),
            35..55 => drop(maps_api.replace(&name, &write, &with_value(&name, &step.to_string())).await),
            55..65 => drop(maps_api.delete(&name, &DeleteParams::default()).await),
            65..80 => drop(secrets_api.delete(&name, &DeleteParams::default()).await),
            80..85 => {
                let mut stray = Secret::default();
                stray.metadata.name = Some(name.clone());
                stray.data = Some([("value".to_owned(), k8s_openapi::ByteString(b"stray".to_vec()))].into());
                drop(secrets_api.replace(&name, &write, &stray).await);
            }
            85..90 => server.faults().pause(),
            90..95 => server.faults().resume(),
            95..97 => server.faults().cut_watches(),
            97..98 => drop(server.expire_history()),
            _ => tokio::time::sleep(SECOND.mul_f64(random.random::<f64>())).await,
        }
    }
    server.faults().clear();
    server.faults().resume();
    let settled = async {
        loop {
            let (wanted, found) = family(&client).await;
            if wanted == found {
                return;
            }
            tokio::time::sleep(SECOND).await;
        }
    };
    let in_time = tokio::time::timeout(600 * SECOND, settled).await;
    let (wanted, found) = family(&client).await;
    assert!(in_time.is_ok(), "seed {seed}: ten minutes later {found:?} and not {wanted:?}");
    // Work in transit when the server has reached the desired state, such as lagging events, does
    // not count as part of the quiet time.
    tokio::time::sleep(60 * SECOND).await;
    let before = calls.load(Ordering::Relaxed);
    tokio::time::sleep(600 * SECOND).await;
    let after = calls.load(Ordering::Relaxed) - before;
    assert!(after <= objects * 10, "seed {seed}: {after} reconciles of {objects} objects in the quiet time");
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn parents_have_their_children_after_deletions_and_recreations_under_faults() {
    for seed in 0..4 {
        family_storm(20, seed).await;
    }
}

/// The number of objects; `cargo xtask controller-storm` sets more than a debug build handles in
/// reasonable time.
fn objects() -> usize {
    let asked = std::env::var("DOGWATCH_STORM_OBJECTS").ok();
    asked.map_or(1000, |it| it.parse().expect("DOGWATCH_STORM_OBJECTS is a number"))
}

#[tokio::test(start_paused = true)]
async fn many_objects_converge_under_faults_with_as_many_reconciles_as_changes() {
    storm(objects()).await;
}
