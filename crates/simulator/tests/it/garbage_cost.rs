//! Garbage collection of objects with many owners.

use std::time::Duration;

use cpu_time::ThreadTime;
use dogwatch_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::managed_cluster::{MAPS, ManagedCluster, map};
use crate::test_cluster::{TestServer, client};

/// The number of owners of the object, none of which exists.
const OWNERS: usize = 500;
/// The number of objects of the kind that the owners are of.
const OBJECTS: usize = 2_000;

/// Returns the CPU time from the creation of an object to its collection. Its owners are of this
/// kind; there are many ConfigMaps. It is counted for the thread of the test, so that a loaded
/// machine does not matter.
fn collected(owner_kind: &str) -> Duration {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut builder = ApiServer::builder().in_process().seed(1);
        for index in 0..OBJECTS {
            builder = builder.object(&map("default", &format!("m{index}"), &[]));
        }
        let server = builder.start().await.unwrap();
        let it = ManagedCluster::on(TestServer { client: client(&server), server });
        it.manager.ready().await;
        it.advance(Duration::from_secs(1)).await;
        let owner = |i: usize| json!({ "apiVersion": "v1", "kind": owner_kind, "name": format!("o{i}"), "uid": format!("u{i}") });
        let owners: Vec<Value> = (0..OWNERS).map(owner).collect();
        let start = ThreadTime::now();
        it.add(map("default", "dependent", &owners)).await;
        it.advance(Duration::from_secs(60)).await;
        let time = start.elapsed();
        assert!(it.get(MAPS, "default/dependent").is_none(), "not collected");
        time
    })
}

#[test]
fn references_to_missing_owners_do_not_cost_scans_of_their_collection() {
    let (few, many) = (collected("Secret"), collected("ConfigMap"));
    assert!(many < few * 5, "{many:?} with {OBJECTS} objects of the kind, {few:?} with none");
}
