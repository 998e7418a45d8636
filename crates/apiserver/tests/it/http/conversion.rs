//! Conversion webhooks of custom kinds: objects are stored in one version and served in any.

use serde_json::{Value, json};

use super::test_webhook::{Responder, Webhook};
use super::{MERGE, Server};

const OLD: &str = "/apis/e.test/v1/namespaces/default/cars";
const NEW: &str = "/apis/e.test/v2/namespaces/default/cars";

/// Converts between `seats` in version 1 and `places` in version 2.
const CONVERT: Responder = |request| {
    let desired = request["desiredAPIVersion"].as_str().unwrap();
    let (from, to) = if desired == "e.test/v2" { ("seats", "places") } else { ("places", "seats") };
    let convert = |it: &Value| {
        let mut it = it.clone();
        it["apiVersion"] = desired.into();
        let value = it["spec"].as_object_mut().unwrap().remove(from);
        it["spec"][to] = value.unwrap_or_default();
        it
    };
    let objects: Vec<Value> = request["objects"].as_array().unwrap().iter().map(convert).collect();
    json!({ "result": { "status": "Success" }, "convertedObjects": objects })
};

async fn define(server: &Server, webhook: &Webhook) {
    let version = |name: &str, field: &str| {
        let spec = json!({ "type": "object", "properties": { field: { "type": "integer" } } });
        json!({ "name": name, "served": true, "storage": name == "v1",
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } } })
    };
    let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "cars.e.test" },
        "spec": { "group": "e.test", "scope": "Namespaced", "names": { "plural": "cars", "kind": "Car" },
            "versions": [version("v1", "seats"), version("v2", "places")],
            "conversion": { "strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": webhook.client_config() } } } });
    let made = server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    assert_eq!(made.code, 201, "{made:?}");
}

fn car(version: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": format!("e.test/{version}"), "kind": "Car", "metadata": { "name": name }, "spec": spec })
}

#[tokio::test]
async fn an_object_is_served_in_each_version_and_stored_in_one() {
    let server = Server::start().await;
    let webhook = Webhook::start(CONVERT).await;
    define(&server, &webhook).await;
    let made = server.post(NEW, car("v2", "a", json!({ "places": 4 }))).await.json();
    assert_eq!((&made["spec"], &made["apiVersion"]), (&json!({ "places": 4 }), &json!("e.test/v2")));
    assert_eq!(server.get(&format!("{OLD}/a")).await.json()["spec"], json!({ "seats": 4 }));
    assert_eq!(server.get(&format!("{NEW}/a")).await.json(), made);
    let changed = server.merge(&format!("{NEW}/a"), json!({ "spec": { "places": 5 } })).await.json();
    assert_eq!(changed["spec"], json!({ "places": 5 }));
    server.post(OLD, car("v1", "b", json!({ "seats": 2 }))).await;
    let list = server.get(NEW).await.json();
    let places: Vec<_> = list["items"].as_array().unwrap().iter().map(|it| &it["spec"]["places"]).collect();
    assert_eq!(places, [5, 2]);
    let uid = made["metadata"]["uid"].clone();
    let held =
        server.merge(&format!("{OLD}/a"), json!({ "metadata": { "finalizers": ["e.test/hold"] } })).await;
    assert_eq!(held.json()["metadata"]["uid"], uid, "the webhook cannot change the uid");
    let going = server.send("DELETE", &format!("{NEW}/a"), &[MERGE], "").await.json();
    assert_eq!(
        (&going["spec"], going["metadata"]["deletionTimestamp"].is_string()),
        (&json!({ "places": 5 }), true)
    );
}

#[tokio::test]
async fn watches_deliver_every_change_in_their_own_version() {
    let server = Server::start().await;
    let webhook = Webhook::start(CONVERT).await;
    define(&server, &webhook).await;
    server.post(OLD, car("v1", "a", json!({ "seats": 1 }))).await;
    let mut events = server.watch(&format!("{NEW}?watch=true&resourceVersion=0")).await;
    server.merge(&format!("{OLD}/a"), json!({ "spec": { "seats": 2 } })).await;
    server.send("DELETE", &format!("{OLD}/a"), &[], "").await;
    for (kind, places) in [("ADDED", 1), ("MODIFIED", 2), ("DELETED", 2)] {
        let event = events.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["spec"]), (&json!(kind), &json!({ "places": places })));
        assert_eq!(event["object"]["apiVersion"], "e.test/v2");
    }
}

#[tokio::test]
async fn nothing_is_served_or_stored_if_the_conversion_fails() {
    let server = Server::start().await;
    let webhook =
        Webhook::start(|_| json!({ "result": { "status": "Failed", "message": "not today" } })).await;
    define(&server, &webhook).await;
    server.post(OLD, car("v1", "a", json!({ "seats": 1 }))).await;
    let failed =
        |version: &str| (500, format!("conversion webhook for e.test/{version}, Kind=Car failed: not today"));
    assert_eq!(server.get(&format!("{NEW}/a")).await.error(), failed("v1"));
    assert_eq!(server.get(NEW).await.error(), failed("v1"));
    assert_eq!(server.post(NEW, car("v2", "b", json!({ "places": 1 }))).await.error(), failed("v2"));
    assert_eq!(
        server.get(&format!("{OLD}/a")).await.json()["spec"],
        json!({ "seats": 1 }),
        "no conversion is needed"
    );
    assert_eq!(server.get(&format!("{OLD}/b")).await.code, 404);
    let mut events = server.watch(&format!("{NEW}?watch=true&resourceVersion=0")).await;
    assert_eq!(events.next().await.unwrap()["type"], "ERROR");
}
