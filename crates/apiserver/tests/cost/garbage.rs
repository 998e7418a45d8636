//! Garbage collection of objects with many owners.

use std::sync::Arc;
use std::time::Duration;

use cpu_time::ThreadTime;
use dogwatch_apiserver::cluster::{Cluster, Source, Writer};
use dogwatch_apiserver::controllers::Controllers;
use serde_json::json;
use tokio::runtime::Builder;

use crate::measure::list;

/// The number of owners of the object, none of which exists.
const OWNERS: usize = 4_000;
/// The number of objects of the kind that the owners are of.
const OBJECTS: usize = 4_000;

/// Returns the CPU time from the creation of an object to its collection. Its owners are of this
/// kind; there are many ConfigMaps.
fn collected(owner_kind: &str) -> Duration {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let cluster =
            Arc::new(Cluster::new(Source::seeded(1, "2026-01-02T03:04:05Z".parse().unwrap())));
        cluster.bootstrap().await;
        let writer = Writer::server("test");
        let object = |name: String| json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": "default" } });
        for index in 0..OBJECTS {
            cluster.add(object(format!("m{index}")), &writer).await.unwrap();
        }
        let mut controllers = Controllers::none();
        controllers.garbage = true;
        let running = tokio::spawn(controllers.run(Arc::clone(&cluster), std::future::pending()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut dependent = object("dependent".to_owned());
        dependent["metadata"]["ownerReferences"] = list(OWNERS, |i| {
            json!({ "apiVersion": "v1", "kind": owner_kind, "name": format!("o{i}"), "uid": format!("u{i}") })
        });
        let start = ThreadTime::now();
        cluster.add(dependent, &writer).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let time = start.elapsed();
        let kind = cluster.catalog().kind_of("v1", "ConfigMap").unwrap();
        assert!(cluster.get(&kind, &"default/dependent".parse().unwrap()).is_none(), "not collected");
        running.abort();
        time
    })
}

#[test]
fn references_to_missing_owners_cost_one_scan_of_their_collection() {
    let (few, many) = (collected("Secret"), collected("ConfigMap"));
    assert!(many < few * 2, "{many:?} with {OBJECTS} objects of the kind, {few:?} with none");
}
