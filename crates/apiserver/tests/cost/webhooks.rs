//! Reviews of a large object by many webhooks.

use bytes::Bytes;
use dogwatch_apiserver::{ApiServer, Controllers};
use http::Request;
use http_body_util::Full;
use serde_json::json;
use tokio::runtime::Builder;
use tower::ServiceExt;

use crate::measure::list;

/// The size of the reviewed object, close to the largest of its kind.
const SIZE: usize = 1_000_000;

/// Returns the maximum number of bytes allocated at a time while this number of webhooks of a sort
/// review an object. They do not respond, and are ignored.
fn peak(sort: &str, webhooks: usize) -> u64 {
    // The kernel accepts connections, and nothing reads from them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let certificate = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap().cert.pem();
    let bundle = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, certificate);
    let webhooks = list(webhooks, |i| {
        json!({ "name": format!("h{i}.example.com"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Ignore", "clientConfig": { "url": url, "caBundle": bundle },
            "rules": [{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"] }] })
    });
    let configuration = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{sort}WebhookConfiguration"),
        "metadata": { "name": "c" }, "webhooks": webhooks });
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let builder = ApiServer::builder().in_process().seed(1).controllers(Controllers::none());
    let server = runtime.block_on(builder.object(&configuration).start()).unwrap();
    let object = json!({ "metadata": { "name": "a" }, "data": { "k": "x".repeat(SIZE) } });
    let request = Request::post("/api/v1/namespaces/default/configmaps");
    let request = request.body(Full::new(Bytes::from(object.to_string()))).unwrap();
    let create = || {
        let response = runtime.block_on(server.service().oneshot(request)).unwrap();
        assert_eq!(response.status(), 201);
    };
    allocation_counter::measure(create).bytes_max
}

fn assert_constant_peak(sort: &str) {
    let (few, many) = (peak(sort, 16), peak(sort, 64));
    assert!(many < few * 3 / 2, "{sort}: {many} bytes for 64 webhooks, {few} bytes for 16");
}

/// Regression test: the object was copied for each webhook, in case it had to be called again.
#[test]
fn the_number_of_mutating_webhooks_does_not_multiply_the_memory_for_an_object() {
    assert_constant_peak("Mutating");
}

/// Regression test: all webhooks were called at the same time, each with copies of the object.
#[test]
fn the_number_of_validating_webhooks_does_not_multiply_the_memory_for_an_object() {
    assert_constant_peak("Validating");
}
