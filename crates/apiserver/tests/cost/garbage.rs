//! Garbage collection of objects with many owners.

use std::time::Duration;

use cpu_time::ThreadTime;
use dogwatch_apiserver::{ApiServer, Controllers};
use http::Request;
use http_body_util::Full;
use serde_json::json;
use tokio::runtime::Builder;
use tower::ServiceExt;

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
        let object = |name: String| json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": "default" } });
        let mut controllers = Controllers::none();
        controllers.garbage = true;
        let mut builder = ApiServer::builder().in_process().seed(1).controllers(controllers);
        for index in 0..OBJECTS {
            builder = builder.object(&object(format!("m{index}")));
        }
        let server = builder.start().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut dependent = object("dependent".to_owned());
        dependent["metadata"]["ownerReferences"] = list(OWNERS, |i| {
            json!({ "apiVersion": "v1", "kind": owner_kind, "name": format!("o{i}"), "uid": format!("u{i}") })
        });
        let request = Request::post("/api/v1/namespaces/default/configmaps");
        let request = request.body(Full::<bytes::Bytes>::from(dependent.to_string())).unwrap();
        let start = ThreadTime::now();
        assert_eq!(server.service().oneshot(request).await.unwrap().status(), 201);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let time = start.elapsed();
        let left = server.objects_at("v1", "configmaps", server.revision()).unwrap();
        assert!(!left.iter().any(|it| it["metadata"]["name"] == "dependent"), "not collected");
        time
    })
}

#[test]
fn references_to_missing_owners_cost_one_scan_of_their_collection() {
    let (few, many) = (collected("Secret"), collected("ConfigMap"));
    assert!(many < few * 5, "{many:?} with {OBJECTS} objects of the kind, {few:?} with none");
}
