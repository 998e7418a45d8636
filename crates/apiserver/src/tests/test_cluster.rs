//! A cluster with running controllers, for tests that wait for their effects.

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::{Cluster, DeleteOptions, Deleted, ObjectRef, Propagation, Source, Writer};
use crate::controllers::Controllers;
use crate::registry::Kind;
use dogwatch_core::ObjectKey;
use serde_json::Value;
use tokio::task::JoinSet;

/// Longer than anything that completes at all. The clock is paused, so waiting costs nothing.
const TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// A cluster and the tasks that run on it. Dropping it aborts them.
pub(crate) struct TestCluster {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) tasks: JoinSet<()>,
}

impl TestCluster {
    /// Starts a new cluster with these controllers.
    pub(crate) async fn with(controllers: Controllers) -> Self {
        let source = Source::seeded(1, "2026-01-02T03:04:05Z".parse().expect("a time"));
        let cluster = Arc::new(Cluster::new(source));
        cluster.bootstrap().await;
        let mut tasks = JoinSet::new();
        tasks.spawn(controllers.run(Arc::clone(&cluster), std::future::pending()));
        Self { cluster, tasks }
    }

    pub(crate) fn kind(&self, api_version: &str, kind: &str) -> Arc<Kind> {
        self.cluster.catalog().kind_of(api_version, kind).expect("served")
    }

    /// Creates an object and returns it as stored.
    pub(crate) async fn add(&self, object: Value) -> Value {
        let kind = self.kind(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let written = self.cluster.add(object, &Writer::server("test")).await.expect("created");
        written.object.to_value(&kind)
    }

    /// Returns an object by (API version, kind) and key, if it exists.
    pub(crate) fn get(&self, of: (&str, &str), key: &str) -> Option<Value> {
        let kind = self.kind(of.0, of.1);
        self.cluster.get(&kind, &key.parse::<ObjectKey>().unwrap()).map(|it| kind.show(&it))
    }

    /// Returns all objects of a kind.
    pub(crate) fn all(&self, of: (&str, &str)) -> Vec<Value> {
        let kind = self.kind(of.0, of.1);
        self.cluster.list(&kind, None).iter().map(|it| kind.show(it)).collect()
    }

    /// Changes an object, or a subresource of it.
    pub(crate) async fn change(
        &self,
        of: (&str, &str),
        key: &str,
        part: &str,
        mut change: impl FnMut(&mut Value) + Send,
    ) {
        let (kind, key) = (self.kind(of.0, of.1), key.parse::<ObjectKey>().unwrap());
        let place = ObjectRef::of(&kind, &key).part(part);
        let change = |it: &mut Value| {
            change(it);
            true
        };
        let changed = self.cluster.change(&place, &Writer::server("test"), change).await;
        assert!(changed.expect("changed").is_some(), "the object exists");
    }

    pub(crate) async fn delete(
        &self,
        of: (&str, &str),
        key: &str,
        propagation: Option<Propagation>,
    ) -> Deleted {
        let (kind, key) = (self.kind(of.0, of.1), key.parse::<ObjectKey>().unwrap());
        let options = DeleteOptions { propagation, ..DeleteOptions::default() };
        let writer = Writer::server("test");
        self.cluster.delete(&ObjectRef::of(&kind, &key), &options, &writer).await.expect("deleted")
    }

    /// Waits until the objects of a kind are as expected; panics if that never happens.
    pub(crate) async fn until(
        &self,
        of: (&str, &str),
        mut expected: impl FnMut(&[Value]) -> bool,
    ) -> Vec<Value> {
        let kind = self.kind(of.0, of.1);
        let waited = tokio::time::timeout(TIMEOUT, async {
            loop {
                let revision = self.cluster.store().revision();
                let mut cursor = self.cluster.store().watch(&kind.collection, revision).expect("kept");
                let all = self.all(of);
                if expected(&all) {
                    return all;
                }
                cursor.next().await.expect("kept");
            }
        });
        match waited.await {
            Ok(all) => all,
            Err(_) => panic!("never as expected: {:#?}", self.all(of)),
        }
    }

    /// Waits until an object is as expected, and returns it.
    pub(crate) async fn until_one(
        &self,
        of: (&str, &str),
        key: &str,
        mut expected: impl FnMut(&Value) -> bool,
    ) -> Value {
        let is_it = |it: &Value| key_of(it) == key;
        let all = self.until(of, |all| all.iter().any(|it| is_it(it) && expected(it))).await;
        all.into_iter().find(is_it).expect("the object exists")
    }

    /// Waits until an object no longer exists.
    pub(crate) async fn until_gone(&self, of: (&str, &str), key: &str) {
        self.until(of, |all| !all.iter().any(|it| key_of(it) == key)).await;
    }

    /// Lets this much time pass, with everything that happens in it.
    pub(crate) async fn advance(&self, time: Duration) {
        let nothing = tokio::time::timeout(time, std::future::pending::<()>()).await;
        assert!(nothing.is_err());
    }
}

/// Returns the key of an object.
pub(crate) fn key_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}
