//! Responses that are larger than what is stored.

use dogwatch_apiserver::{ApiServer, Controllers};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tower::ServiceExt;

use crate::measure::list;

const THINGS: &str = "/apis/example.com/v1/things";

/// The number of objects in the list.
const OBJECTS: usize = 4;

/// The number of bytes that may be allocated at one time for each byte of the stored objects.
const PEAK_PER_BYTE: u64 = 8;

/// Returns a value below many levels of lists.
fn nested(levels: usize, value: Value) -> Value {
    (0..levels).fold(value, |inner, _| json!([inner]))
}

/// Returns the maximum number of bytes allocated at a time for each stored byte, and the length of
/// the response, while a client reads the response to a request for nested objects.
fn peak(path: &str, accept: &str, value: &Value) -> (u64, usize) {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.example.com" },
        "spec": { "group": "example.com", "scope": "Cluster", "names": { "plural": "things", "kind": "Thing" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }] } });
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    // Definitions are served only with their controller.
    let mut controllers = Controllers::none();
    controllers.definitions = true;
    let builder = ApiServer::builder().in_process().seed(1).controllers(controllers);
    let server = runtime.block_on(builder.object(&definition).start()).unwrap();
    let mut size = 0;
    for at in 0..OBJECTS {
        let object = json!({ "apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": { "name": format!("a{at}") }, "spec": nested(95, value.clone()) })
        .to_string();
        size += object.len() as u64;
        let request = Request::post(THINGS).body(Full::<bytes::Bytes>::from(object)).unwrap();
        let response = runtime.block_on(server.service().oneshot(request)).unwrap();
        assert_eq!(response.status(), 201);
    }
    let request = Request::get(format!("{THINGS}{path}")).header("accept", accept);
    let request = request.body(Full::<bytes::Bytes>::default()).unwrap();
    let mut length = 0;
    let read = || {
        runtime.block_on(async {
            let mut response = server.service().oneshot(request).await.unwrap();
            assert_eq!(response.status(), 200);
            // Each frame is dropped when it has been read, as a connection does.
            while let Some(frame) = response.frame().await {
                length += frame.unwrap().into_data().map_or(0, |it| bytes::Buf::remaining(&it));
            }
        });
    };
    let used = allocation_counter::measure(read).bytes_max;
    (used / if path.starts_with('?') { size } else { size / OBJECTS as u64 }, length)
}

/// Regression test: the complete response was kept in memory until its client had read it.
#[test]
fn an_indented_response_is_not_kept_in_memory() {
    let value = list(100_000, |_| json!(1));
    for (path, expected) in [("/a0?pretty=true", 15_000_000), ("?pretty=true", 60_000_000)] {
        let (peak, length) = peak(path, "application/json", &value);
        assert!(length > expected, "{path}: {length} bytes");
        assert!(peak < PEAK_PER_BYTE, "{path}: {peak} bytes at once for each stored byte");
    }
}

/// Regression test: a line of YAML is indented by its depth, and all lines were kept in memory.
#[test]
fn the_depth_of_an_object_does_not_multiply_the_memory_of_its_yaml() {
    let (lines, words) = ("a\n".repeat(100_000), "a ".repeat(100_000));
    for value in [list(100_000, |_| json!(1)), json!(lines), json!([lines]), json!(words)] {
        let (peak, _) = peak("/a0", "application/yaml", &value);
        assert!(peak < 60, "{peak} bytes at once for each stored byte");
    }
}
