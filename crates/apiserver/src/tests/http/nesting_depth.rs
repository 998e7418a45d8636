//! The limit of nesting: deeper input is rejected with a message that names the limit, and every
//! stored object can be used with all verbs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::test_webhook::Webhook;
use super::{JSON, MERGE, Server, TABLE};

const LIMIT: usize = 100;
const MESSAGE: &str = "exceeded max depth of 100";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The shape of one level of nesting.
#[derive(Clone, Copy, Debug)]
enum Level {
    Object,
    WideObject,
    List,
    LongList,
}

fn level() -> impl Strategy<Value = Level> {
    prop_oneof![Just(Level::Object), Just(Level::WideObject), Just(Level::List), Just(Level::LongList)]
}

/// Nests the levels, with `core` in the innermost.
fn nested(levels: &[Level], core: Value) -> Value {
    levels.iter().rev().fold(core, |inner, level| match level {
        Level::Object => json!({ "a": inner }),
        Level::WideObject => json!({ "b": 1, "k8s.io/c": inner, "d": [] }),
        Level::List => json!([inner]),
        Level::LongList => json!([0, inner, "x"]),
    })
}

fn straight(levels: usize) -> Value {
    nested(&vec![Level::Object; levels], json!(1))
}

fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
}

fn widget(spec: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" }, "spec": spec })
}

fn revision(data: Value) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": { "name": "w" },
        "data": data, "revision": 1 })
}

async fn server() -> Server {
    let server = Server::start().await;
    let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": { "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } });
    let made = server.post(DEFINITIONS, definition).await;
    assert_eq!(made.code, 201, "{made:?}");
    server
}

/// Uses a stored object with every verb, and deletes it.
async fn use_with_every_verb(server: &Server, collection: &str, applied: &Value) {
    let path = format!("{collection}/w");
    let stored = server.get(&path).await;
    assert_eq!(stored.code, 200, "cannot be read: {stored:?}");
    for address in [&path, collection] {
        assert_eq!(server.get_as(address, TABLE).await.code, 200, "{address} as a table");
        assert_eq!(server.get_as(address, "application/yaml").await.code, 200, "{address} as YAML");
    }
    assert_eq!(server.get(collection).await.json()["items"].as_array().map(Vec::len), Some(1));
    let mut watch = server.watch(&format!("{collection}?watch=1&timeoutSeconds=60")).await;
    assert_eq!(watch.next().await.expect("an event")["type"], "ADDED");

    let merged = server.merge(&path, json!({ "metadata": { "labels": { "a": "b" } } })).await;
    assert_eq!(merged.code, 200, "cannot be patched: {merged:?}");
    let operations = r#"[{"op":"add","path":"/metadata/labels/c","value":"d"}]"#;
    let json_patch = [("content-type", "application/json-patch+json")];
    assert_eq!(server.send("PATCH", &path, &json_patch, operations).await.code, 200);
    let apply = [("content-type", "application/apply-patch+yaml")];
    let address = format!("{path}?fieldManager=other&force=true");
    let applied = server.send("PATCH", &address, &apply, &applied.to_string()).await;
    assert_eq!(applied.code, 200, "cannot be applied: {applied:?}");
    let mut read = server.get(&path).await.json();
    read["metadata"]["labels"]["e"] = "f".into();
    let put = server.send("PUT", &path, &[JSON], &read.to_string()).await;
    assert_eq!(put.code, 200, "cannot be written back with its managed fields: {put:?}");
    let deleted = server.send("DELETE", &path, &[], "").await;
    assert_eq!(deleted.code, 200, "cannot be deleted: {deleted:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_stored_object_can_be_used_with_all_verbs(
        levels in prop::collection::vec(level(), LIMIT - 8..LIMIT + 4),
        core in prop_oneof![Just(json!(1)), Just(json!("x")), Just(json!({})), Just(json!([])), Just(Value::Null)],
        built_in in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let outcome: Result<(), TestCaseError> = runtime.block_on(async {
            let server = server().await;
            // The data of a revision must be an object.
            let whole = |inner| if built_in { json!({ "a": inner }) } else { inner };
            let inner = whole(nested(&levels[usize::from(built_in)..], core));
            let (collection, object) =
                if built_in { (REVISIONS, revision(inner)) } else { (WIDGETS, widget(inner)) };
            let depth = depth_of(&object);
            let made = server.post(collection, object.clone()).await;
            if depth > LIMIT {
                let (code, message) = made.error();
                prop_assert_eq!(code, 400, "{} levels", depth);
                prop_assert!(message.contains(MESSAGE), "{}", message);
            } else {
                prop_assert_eq!(made.code.as_u16(), 201, "{} levels: {:?}", depth, made);
                use_with_every_verb(&server, collection, &object).await;
            }
            Ok(())
        });
        outcome?;
    }
}

#[tokio::test]
async fn patches_cannot_exceed_the_limit() {
    let server = server().await;
    assert_eq!(server.post(WIDGETS, widget(straight(LIMIT - 1))).await.code, 201);
    let path = format!("{WIDGETS}/w");
    let deep = json!({ "other": straight(LIMIT) });
    for (kind, body) in [
        ("application/merge-patch+json", deep.clone()),
        ("application/json-patch+json", json!([{ "op": "add", "path": "/other", "value": deep["other"] }])),
        ("application/json-patch+json", json!([{ "op": "copy", "from": "/spec", "path": "/spec/a/a/b" }])),
    ] {
        let rejected = server.send("PATCH", &path, &[("content-type", kind)], &body.to_string()).await;
        assert_eq!(rejected.code, 422, "{rejected:?}");
        assert!(rejected.text().contains(MESSAGE), "{rejected:?}");
    }
    // Too deep to be parsed at all.
    for kind in ["application/merge-patch+json", "application/json-patch+json"] {
        let body = "{\"a\":".repeat(5_000);
        let (code, message) = server.send("PATCH", &path, &[("content-type", kind)], &body).await.error();
        assert_eq!(code, 400);
        assert!(message.contains(MESSAGE), "{message}");
    }
    let apply = [("content-type", "application/apply-patch+yaml")];
    let address = format!("{path}?fieldManager=me&force=true");
    for body in [widget(straight(LIMIT)).to_string(), format!("a: {}", "[".repeat(5_000))] {
        let (code, message) = server.send("PATCH", &address, &apply, &body).await.error();
        assert_eq!(code, 400);
        assert!(message.contains(MESSAGE), "{message}");
    }
    use_with_every_verb(&server, WIDGETS, &widget(straight(LIMIT - 1))).await;
}

#[tokio::test]
async fn json_and_yaml_bodies_have_the_same_limit() {
    let server = server().await;
    for (depth, code) in [(LIMIT, 201), (LIMIT + 1, 400), (LIMIT + 30, 400), (20_000, 400)] {
        let spec = format!("{}{}", "{\"a\":".repeat(depth - 2) + "{", "}".repeat(depth - 1));
        let name = format!("w{depth}");
        let json = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"{name}"}},"spec":{spec}}}"#
        );
        let yaml = format!(
            "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: {name}-yaml\nspec: {spec}\n"
        );
        for (form, body) in [("application/json", json), ("application/yaml", yaml)] {
            let made = server.send("POST", WIDGETS, &[("content-type", form)], &body).await;
            assert_eq!(made.code, code, "{depth} levels of {form}: {made:?}");
            assert!(code == 201 || made.text().contains(MESSAGE), "{depth} levels of {form}: {made:?}");
        }
    }
    let options = "{\"a\":".repeat(500);
    let (code, message) = server.send("DELETE", &format!("{WIDGETS}/w100"), &[JSON], &options).await.error();
    assert_eq!(code, 400);
    assert!(message.contains(MESSAGE), "{message}");
}

#[tokio::test]
async fn invalid_utf_8_and_surrogates_are_replaced_as_in_go() {
    let server = Server::start().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let body = b"{\"metadata\":{\"name\":\"a\"},\"data\":{\"x\":\"\xff\",\"y\":\"\\ud800\",\"z\":\"\\ud83d\\ude00\"}}";
    let made = server.raw("POST", path, &[JSON], body.to_vec()).await.expect("not cut");
    assert_eq!(made.status(), 201);
    let data = server.get(&format!("{path}/a")).await.json()["data"].clone();
    assert_eq!(data, json!({ "x": "\u{fffd}", "y": "\u{fffd}", "z": "\u{1f600}" }));
    let patch = br#"{"data":{"x":"\udc00!"}}"#;
    let patched = server.raw("PATCH", &format!("{path}/a"), &[MERGE], patch.to_vec()).await.expect("not cut");
    assert_eq!(patched.status(), 200);
    assert_eq!(server.get(&format!("{path}/a")).await.json()["data"]["x"], "\u{fffd}!");
}

#[tokio::test]
async fn the_patch_of_a_webhook_cannot_exceed_the_limit() {
    let server = Server::start().await;
    let webhook = Webhook::start(|_| {
        let patch = json!([{ "op": "add", "path": "/data/b", "value": straight(LIMIT) }]);
        json!({ "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()) })
    })
    .await;
    let configuration = json!({ "metadata": { "name": "c" }, "webhooks": [{ "name": "h.example.com",
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 30,
        "clientConfig": webhook.client_config(), "rules": [{ "operations": ["*"], "apiGroups": ["apps"],
            "apiVersions": ["v1"], "resources": ["controllerrevisions"] }] }] });
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    let made = server.post(path, configuration).await;
    assert_eq!(made.code, 201, "{made:?}");
    let rejected = server.post(REVISIONS, revision(json!({}))).await;
    assert_eq!(rejected.code, 500, "{rejected:?}");
    assert!(rejected.text().contains(MESSAGE), "{rejected:?}");
    assert_eq!(server.get(&format!("{REVISIONS}/w")).await.code, 404);
}
