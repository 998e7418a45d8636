//! Open watches of a custom kind while its definition changes.

use std::time::Duration;

use dogwatch_apiserver::{ApiServer, Controllers};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::json;
use tokio::runtime::Builder;
use tower::ServiceExt;

use crate::measure::map;

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

/// Returns the number of bytes that open watches of a kind allocate after a change of the metadata
/// of its definition, which they need not report.
fn allocated(watches: usize) -> u64 {
    let properties = map(1_000, |i| (format!("property{i}"), json!({ "type": "string" })));
    let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": { "group": "example.com", "scope": "Cluster", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": properties } } }] } });
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    // Definitions are served only with their controller.
    let mut controllers = Controllers::none();
    controllers.definitions = true;
    let builder = ApiServer::builder().in_process().seed(1).controllers(controllers);
    let server = runtime.block_on(builder.object(&definition).start()).unwrap();
    let send = |request: http::request::Builder, body: String| {
        let request = request.body(Full::<bytes::Bytes>::from(body)).unwrap();
        let response = runtime.block_on(server.service().oneshot(request)).unwrap();
        assert_eq!(response.status(), 200);
        response.into_body()
    };
    let watch = |_| send(Request::get("/apis/example.com/v1/widgets?watch=true"), String::new());
    let mut open: Vec<_> = (0..watches).map(watch).collect();
    let mut poll_all = || {
        runtime.block_on(async {
            for body in &mut open {
                let waited = tokio::time::timeout(Duration::from_millis(1), body.frame()).await;
                assert!(waited.is_err(), "there is nothing to report: {:?}", waited.map(|it| it.is_some()));
            }
        });
    };
    poll_all();
    let patch = json!({ "metadata": { "labels": { "k": "v" } } }).to_string();
    drop(send(Request::patch(DEFINITION).header("content-type", "application/merge-patch+json"), patch));
    // Until the controller is done with the change.
    runtime.block_on(async { tokio::time::sleep(Duration::from_secs(1)).await });
    allocation_counter::measure(poll_all).bytes_total
}

/// Regression test: each watch parsed both states of the definition.
#[test]
fn a_change_of_a_definition_is_examined_once_for_all_watches() {
    let (few, many) = (allocated(4), allocated(64));
    assert!(many < few * 2, "{many} bytes with 64 watches, {few} bytes with 4");
}
