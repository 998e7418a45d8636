//! Writes that lose a race: they release what they allocated, and are not stored where they no
//! longer belong.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};

use super::test_webhook::Webhook;
use super::{JSON, Server};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(scope: &str) -> Value {
    json!({ "metadata": { "name": "widgets.example.com" },
        "spec": { "group": "example.com", "scope": scope, "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } })
}

fn widget(name: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name } })
}

fn node_port(name: &str, port: u16) -> Value {
    json!({ "metadata": { "name": name },
        "spec": { "type": "NodePort", "ports": [{ "port": 80, "nodePort": port }] } })
}

/// Regression test: the loser has read the service before the winner stored a node port in it. It
/// used to release that port, which was then given to the next service.
#[tokio::test]
async fn a_losing_update_does_not_release_the_node_port_of_the_winner() {
    let server = Server::start().await;
    let gate = Arc::new(Semaphore::new(0));
    let webhook = Webhook::gated(|_| json!({ "allowed": true }), Arc::clone(&gate)).await;
    let configuration = json!({ "metadata": { "name": "c" }, "webhooks": [{ "name": "h.example.com",
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 30,
        "clientConfig": webhook.client_config(), "objectSelector": { "matchLabels": { "slow": "yes" } },
        "rules": [{ "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"] }] }] });
    assert_eq!(server.post(HOOKS, configuration).await.code, 201);
    let mut service = server
        .post(SERVICES, json!({ "metadata": { "name": "a" }, "spec": { "ports": [{ "port": 80 }] } }))
        .await
        .json();
    let path = format!("{SERVICES}/a");
    service["metadata"]["labels"] = json!({ "slow": "yes" });
    let body = service.to_string();
    let loser = server.send("PUT", &path, &[JSON], &body);
    let winner = async {
        webhook.received(1).await;
        let won = server.merge(&path, node_port("a", 30007)).await;
        gate.add_permits(1);
        won
    };
    let (lost, won) = tokio::join!(loser, winner);
    assert_eq!((won.code.as_u16(), lost.code.as_u16()), (200, 409), "{won:?} {lost:?}");
    let other = server.post(SERVICES, node_port("b", 30007)).await;
    assert_eq!(other.code, 422, "{other:?}");
    assert!(other.text().contains("provided port is already allocated"), "{other:?}");
    assert_eq!(server.send("DELETE", &path, &[], "").await.code, 200);
    assert_eq!(server.post(SERVICES, node_port("b", 30007)).await.code, 201, "the port is free again");
}

/// Regression test: addresses and ports were allocated to the uid in the patch, and released from
/// the uid of the service.
#[tokio::test]
async fn a_patch_with_another_uid_allocates_nothing() {
    let server = Server::start().await;
    let external =
        json!({ "metadata": { "name": "a" }, "spec": { "type": "ExternalName", "externalName": "e.test" } });
    assert_eq!(server.post(SERVICES, external).await.code, 201);
    let path = format!("{SERVICES}/a");
    let spec = |port: u16, address: &str| {
        json!({ "type": "NodePort", "externalName": null, "clusterIP": address, "clusterIPs": [address],
            "ports": [{ "port": 80, "nodePort": port }] })
    };
    let mut patch = json!({ "metadata": { "uid": "x" }, "spec": spec(30080, "10.96.5.5") });
    let patched = server.merge(&path, patch.clone()).await.error();
    assert!(patched.0 == 422 && patched.1.contains("metadata.uid: Invalid value"), "{patched:?}");
    patch["apiVersion"] = "v1".into();
    patch["kind"] = "Service".into();
    patch["metadata"]["name"] = "a".into();
    patch["spec"] = spec(30081, "10.96.5.6");
    let apply = ("content-type", "application/apply-patch+yaml");
    let query = format!("{path}?fieldManager=m&force=true");
    let applied = server.send("PATCH", &query, &[apply], &patch.to_string()).await.error();
    assert!(applied.0 == 422 && applied.1.contains("metadata.uid: Invalid value"), "{applied:?}");
    for (name, port, address) in [("b", 30080, "10.96.5.5"), ("c", 30081, "10.96.5.6")] {
        let made =
            server.post(SERVICES, json!({ "metadata": { "name": name }, "spec": spec(port, address) })).await;
        assert_eq!(made.code, 201, "{made:?}");
    }
}

#[tokio::test]
async fn nothing_is_created_while_its_definition_is_terminating() {
    let server = Server::start().await;
    let (definition_path, widgets) =
        (format!("{DEFINITIONS}/widgets.example.com"), "/apis/example.com/v1/namespaces/default/widgets");
    assert_eq!(server.post(DEFINITIONS, definition("Namespaced")).await.code, 201);
    assert_eq!(server.post(widgets, widget("a")).await.code, 201);
    assert_eq!(server.send("DELETE", &definition_path, &[], "").await.code, 200);
    let rejected = server.post(widgets, widget("b")).await;
    let why = "create not allowed while custom resource definition is terminating";
    let forbidden = |name: &str| (403, format!("widgets.example.com {name:?} is forbidden: {why}"));
    assert_eq!(rejected.error(), forbidden("b"));
    let mut applied = widget("c");
    applied["apiVersion"] = "example.com/v1".into();
    applied["kind"] = "Widget".into();
    let apply = ("content-type", "application/apply-patch+yaml");
    let path = format!("{widgets}/c?fieldManager=m");
    assert_eq!(server.send("PATCH", &path, &[apply], &applied.to_string()).await.error(), forbidden("c"));
    let details = &rejected.json()["details"];
    assert_eq!((&details["group"], &details["kind"]), (&json!("example.com"), &json!("widgets")));
    let labels = json!({ "metadata": { "labels": { "x": "y" } } });
    assert_eq!(
        server.merge(&format!("{widgets}/a"), labels).await.code,
        200,
        "existing objects can be updated"
    );
}

/// A request knows its kind before its body has arrived. Meanwhile the definition may be replaced
/// by one of another scope, in which no request could address the object.
#[tokio::test]
async fn an_object_whose_definition_is_replaced_during_the_request_is_not_stored() {
    let server = Server::start().await;
    assert_eq!(server.post(DEFINITIONS, definition("Namespaced")).await.code, 201);
    let (send, body) = oneshot::channel::<Bytes>();
    let body = futures_util::stream::once(async { body.await.map(Frame::data) });
    let request = Request::post("/apis/example.com/v1/namespaces/default/widgets")
        .header(JSON.0, JSON.1)
        .body(StreamBody::new(Box::pin(body)))
        .unwrap();
    let slow = server.service.respond(request, None);
    let replace = async {
        let path = format!("{DEFINITIONS}/widgets.example.com");
        assert_eq!(server.send("DELETE", &path, &[], "").await.code, 200);
        let gone = server.merge(&path, json!({ "metadata": { "finalizers": null } })).await;
        assert_eq!(gone.code, 200, "{gone:?}");
        assert_eq!(server.post(DEFINITIONS, definition("Cluster")).await.code, 201);
        send.send(Bytes::from(widget("a").to_string())).unwrap();
    };
    let (response, ()) = tokio::join!(biased; slow, replace);
    let response = response.expect("not cut");
    let code = response.status();
    let text = response.into_body().collect().await.expect("not cut").to_bytes();
    assert_eq!(code, 404, "{text:?}");
    let listed = server.get("/apis/example.com/v1/widgets").await.json();
    assert_eq!(listed["items"], json!([]));
}

/// The minute is the leeway of token validation: k8s.io/kubernetes v1.36.4
/// pkg/serviceaccount/claims.go.
#[tokio::test(start_paused = true)]
async fn a_token_expires_a_minute_after_its_account_is_deleted_despite_finalizers() {
    let server = Server::start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({ "metadata": { "name": "a", "finalizers": ["example.com/hold"] } });
    assert_eq!(server.post(accounts, account).await.code, 201);
    let token = server.post(&format!("{accounts}/a/token"), json!({ "spec": {} })).await.json();
    let token = token["status"]["token"].as_str().expect("a token").to_owned();
    let is_valid = || server.service.cluster().tokens().user(&token).is_some();
    assert!(is_valid());
    assert_eq!(server.send("DELETE", &format!("{accounts}/a"), &[], "").await.code, 200);
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(is_valid());
    tokio::time::advance(Duration::from_secs(3)).await;
    assert!(!is_valid());
}
