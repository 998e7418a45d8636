//! An in-process server, its config maps, and a record of the calls of a reconciler, on a paused
//! clock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_client::{Api, Client};
use dogwatch_controller::{
    Action, BoxError, CancellationToken, Context, Controller, ControllerError, Reconciler,
};
use dogwatch_core::{DeleteParams, ObjectKey, PatchParams, WriteParams};
use dogwatch_informer::{InformerFactory, SharedInformer};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) struct TestCluster {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    pub(crate) informers: InformerFactory,
    pub(crate) maps: Api<ConfigMap>,
}

impl TestCluster {
    /// Starts a server with these config maps.
    pub(crate) async fn with(names: &[&str]) -> Self {
        let server = ApiServer::builder().in_process().seed(1).request_log(1000);
        let server = server.start().await.expect("started");
        let url = server.url().parse().expect("a URL");
        let client = Client::from_service(url, "default", server.service());
        let cluster = Self {
            informers: InformerFactory::new(client.clone()).namespace("default"),
            maps: Api::default_namespaced(client.clone()),
            client,
            server,
        };
        for name in names {
            cluster.create(&map(name)).await;
        }
        cluster
    }

    pub(crate) fn informer(&self) -> SharedInformer<ConfigMap> {
        self.informers.get()
    }

    pub(crate) async fn create(&self, map: &ConfigMap) -> ConfigMap {
        self.maps.create(&WriteParams::default(), map).await.expect("created")
    }

    /// Changes the value of a map.
    pub(crate) async fn put(&self, name: &str, value: &str) -> ConfigMap {
        self.patch(name, json!({ "data": { "value": value } })).await
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) -> ConfigMap {
        let patch = dogwatch_client::api::Patch::Merge(&patch);
        self.maps.patch(name, &PatchParams::default(), patch).await.expect("patched")
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.maps.delete(name, &DeleteParams::default()).await.expect("deleted");
    }
}

pub(crate) fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

/// Returns a map that the owner controls.
pub(crate) fn owned_map(name: &str, owner: &ConfigMap) -> ConfigMap {
    let mut map = map(name);
    map.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: owner.metadata.name.clone().unwrap(),
        uid: owner.metadata.uid.clone().unwrap(),
        controller: Some(true),
        ..OwnerReference::default()
    }]);
    map
}

pub(crate) fn value(map: &ConfigMap) -> &str {
    let data: Option<&BTreeMap<String, String>> = map.data.as_ref();
    data.and_then(|it| it.get("value")).map_or("", String::as_str)
}

/// Runs all tasks that can run now: the clock advances only when there is nothing left to do.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_nanos(1)).await;
}

/// The calls of a reconciler, with their times.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    since: Instant,
    calls: Arc<Mutex<Vec<(Duration, String)>>>,
}

impl Calls {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), calls: Arc::default() }
    }

    /// Returns the time on the clock of the recorded calls.
    pub(crate) fn now(&self) -> Duration {
        self.since.elapsed()
    }

    pub(crate) fn add(&self, what: impl ToString) {
        self.calls.lock().unwrap().push((self.now(), what.to_string()));
    }

    /// Takes the names of the keys since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        self.take_timed().into_iter().map(|(_, what)| what).collect()
    }

    pub(crate) fn take_sorted(&self) -> Vec<String> {
        let mut calls = self.take();
        calls.sort_unstable();
        calls
    }

    /// Takes the times and names of the calls since the last one.
    pub(crate) fn take_timed(&self) -> Vec<(Duration, String)> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    /// Takes the calls since the last one as milliseconds from the first of them.
    pub(crate) fn take_millis(&self) -> Vec<u128> {
        let calls = self.take_timed();
        calls.iter().map(|(at, _)| at.saturating_sub(calls[0].0).as_millis()).collect()
    }
}

/// Returns the name of a key, for records.
pub(crate) fn name(key: &ObjectKey) -> String {
    key.name().to_owned()
}

/// A reconciler that only records the names of its keys.
#[derive(Clone, Debug)]
pub(crate) struct Recording(pub(crate) Calls);

impl Reconciler for Recording {
    type Error = BoxError;

    async fn reconcile(&self, key: &ObjectKey, _: &Context) -> Result<Action, BoxError> {
        self.0.add(name(key));
        Ok(Action::Done)
    }
}

/// A controller that runs until it is stopped.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), ControllerError>>,
}

impl Running {
    pub(crate) fn new(controller: Controller) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { controller.run(stopped.cancelled()).await });
        Self { stop, task }
    }

    pub(crate) async fn stop(self) -> Result<(), ControllerError> {
        self.stop.cancel();
        self.task.await.expect("no panic")
    }

    /// Waits until it ends without a stop.
    pub(crate) async fn ended(self) -> Result<(), ControllerError> {
        self.task.await.expect("no panic")
    }
}
