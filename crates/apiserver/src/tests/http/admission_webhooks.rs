//! Admission webhooks: which requests they are called for, with what content, and the effect of
//! their response.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::test_webhook::{Responder, Webhook};
use super::{JSON, Server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";

/// Installs a webhook of this sort for ConfigMaps; `more` is added to its configuration.
async fn install(server: &Server, sort: &str, client_config: Value, more: Value) {
    let mut webhook = json!({ "name": "h.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 30,
        "clientConfig": client_config,
        "rules": [{ "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] }] });
    webhook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let configuration = json!({ "metadata": { "name": "c" }, "webhooks": [webhook] });
    let made = server.post(&format!("{HOOKS}/{sort}webhookconfigurations"), configuration).await;
    assert_eq!(made.code, 201, "{made:?}");
}

fn map(name: &str, labels: Value) -> Value {
    json!({ "metadata": { "name": name, "labels": labels }, "data": { "k": "v" } })
}

#[tokio::test]
async fn a_validating_webhook_can_deny_with_a_message_and_warn() {
    let server = Server::start().await;
    let deny: Responder = |request| match request["object"]["metadata"]["name"].as_str() {
        Some("good") => json!({ "allowed": true, "warnings": ["be careful"] }),
        _ => json!({ "allowed": false, "status": { "message": "no", "reason": "Forbidden", "code": 403 } }),
    };
    let webhook = Webhook::start(deny).await;
    install(&server, "validating", webhook.client_config(), json!({})).await;
    let rejected = server.post(MAPS, map("bad", json!({}))).await;
    let why = r#"admission webhook "h.example.com" denied the request: no"#;
    assert_eq!((rejected.error(), &rejected.json()["reason"]), ((403, why.to_owned()), &json!("Forbidden")));
    assert_eq!(server.get(&format!("{MAPS}/bad")).await.code, 404);
    let made = server.post(MAPS, map("good", json!({}))).await;
    assert_eq!((made.code.as_u16(), made.header("warning")), (201, r#"299 - "be careful""#));
    assert_eq!(
        server.send("DELETE", &format!("{MAPS}/good"), &[], "").await.code,
        403,
        "a deletion has no object"
    );
    let requests = webhook.requests();
    let operations: Vec<_> =
        requests.iter().map(|it| (it["operation"].as_str().unwrap(), it["name"].as_str().unwrap())).collect();
    assert_eq!(operations, [("CREATE", "bad"), ("CREATE", "good"), ("DELETE", "good")]);
    assert!(requests[0]["object"]["metadata"]["uid"].is_string(), "the webhook sees the object to be stored");
    assert_eq!(
        (&requests[2]["object"], &requests[2]["oldObject"]["data"]),
        (&Value::Null, &json!({ "k": "v" }))
    );
    assert_eq!(requests[0]["userInfo"]["username"], "admin");
    assert_eq!(requests[0]["options"], json!({ "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1" }));
}

#[tokio::test]
async fn fields_added_by_a_mutating_webhook_are_stored_without_a_manager() {
    let server = Server::start().await;
    let webhook = Webhook::start(|request| {
        assert!(request["object"]["metadata"]["uid"].is_null() || request["operation"] == "UPDATE");
        let patch = json!([{ "op": "add", "path": "/metadata/labels", "value": { "hooked": "yes" } }]);
        json!({ "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()) })
    })
    .await;
    install(&server, "mutating", webhook.client_config(), json!({})).await;
    let made =
        server.post(MAPS, json!({ "metadata": { "generateName": "a-" }, "data": { "k": "v" } })).await.json();
    assert_eq!(made["metadata"]["labels"], json!({ "hooked": "yes" }));
    let fields = json!({ "f:data": { ".": {}, "f:k": {} }, "f:metadata": { "f:generateName": {} } });
    assert_eq!(made["metadata"]["managedFields"][0]["fieldsV1"], fields);
    assert_eq!(webhook.requests()[0].get("name"), None, "the name is generated later");
    let path = format!("{MAPS}/{}", made["metadata"]["name"].as_str().unwrap());
    let changed = server.merge(&path, json!({ "metadata": { "labels": null } })).await.json();
    assert_eq!(changed["metadata"]["labels"], json!({ "hooked": "yes" }));
    assert_eq!(webhook.requests().len(), 2);
}

#[tokio::test]
async fn an_unreachable_webhook_fails_requests_unless_its_failure_policy_is_ignore() {
    let server = Server::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/x", listener.local_addr().unwrap());
    drop(listener);
    install(&server, "validating", json!({ "url": url }), json!({ "timeoutSeconds": 3 })).await;
    let rejected = server.post(MAPS, map("a", json!({}))).await;
    let address = url.trim_start_matches("https://").trim_end_matches("/x");
    let why = format!(
        "failed calling webhook \"h.example.com\": failed to call webhook: Post \"{url}?timeout=3s\": dial tcp {address}: connect: connection refused"
    );
    assert_eq!(rejected.error(), (500, format!("Internal error occurred: {why}")));
    assert_eq!(rejected.json()["details"], json!({ "causes": [{ "message": why }] }));
    let ignore = json!([{ "op": "add", "path": "/webhooks/0/failurePolicy", "value": "Ignore" }]).to_string();
    let configuration = format!("{HOOKS}/validatingwebhookconfigurations/c");
    let patched = server
        .send("PATCH", &configuration, &[("content-type", "application/json-patch+json")], &ignore)
        .await;
    assert_eq!(patched.code, 200, "{patched:?}");
    assert_eq!(server.post(MAPS, map("a", json!({}))).await.code, 201);
}

#[tokio::test]
async fn calls_to_a_webhook_reuse_connections_and_reconnect() {
    let server = Server::start().await;
    let mut webhook = Webhook::start(|_| json!({ "allowed": true })).await;
    install(&server, "validating", webhook.client_config(), json!({})).await;
    for index in 0..10 {
        assert_eq!(server.post(MAPS, map(&format!("a-{index}"), json!({}))).await.code, 201);
    }
    let (requests, connections) = (webhook.requests().len(), webhook.connections());
    assert!(requests == 10 && connections < 5, "{requests} calls on {connections} connections");
    webhook.cut_connections().await;
    for index in 0..3 {
        let made = server.post(MAPS, map(&format!("b-{index}"), json!({}))).await;
        assert_eq!(made.code, 201, "a closed connection must not fail the request: {made:?}");
    }
}

#[tokio::test]
async fn concurrent_calls_do_not_wait_for_each_other() {
    let server = Server::start().await;
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let webhook = Webhook::gated(|_| json!({ "allowed": true }), std::sync::Arc::clone(&gate)).await;
    install(&server, "validating", webhook.client_config(), json!({})).await;
    let writes = (0..5).map(|index| server.post(MAPS, map(&format!("a-{index}"), json!({}))));
    let writes = futures_util::future::join_all(writes.map(|it| async { it.await.code.as_u16() }));
    let open = async {
        // All arrive before the first response.
        webhook.received(5).await;
        gate.add_permits(5);
    };
    assert_eq!(tokio::join!(writes, open).0, [201; 5]);
}

/// The webhook may have done its work before the connection was lost, so the call is not repeated.
#[tokio::test]
async fn a_webhook_that_closes_the_connection_without_a_response_is_called_once() {
    let server = Server::start().await;
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let respond: Responder = |request| match request["name"].as_str() {
        Some("unanswered") => Value::Null,
        _ => json!({ "allowed": true }),
    };
    let webhook = Webhook::gated(respond, std::sync::Arc::clone(&gate)).await;
    install(&server, "validating", webhook.client_config(), json!({})).await;
    // Five calls at the same time leave five idle connections.
    let writes = (0..5).map(|index| server.post(MAPS, map(&format!("a-{index}"), json!({}))));
    let writes = futures_util::future::join_all(writes.map(|it| async { it.await.code.as_u16() }));
    let open = async {
        webhook.received(5).await;
        gate.add_permits(100);
    };
    assert_eq!(tokio::join!(writes, open).0, [201; 5]);
    let rejected = server.post(MAPS, map("unanswered", json!({}))).await.error();
    assert!(rejected.0 == 500 && rejected.1.contains("failed to call webhook"), "{rejected:?}");
    assert_eq!(webhook.requests().len(), 6, "five calls, and one without a response");
    assert_eq!(server.post(MAPS, map("answered", json!({}))).await.code, 201);
}

/// Returns a response that applies a JSON patch.
fn patching(patch: &Value) -> Value {
    json!({ "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()) })
}

#[tokio::test]
async fn a_webhook_is_called_again_only_if_a_later_one_has_changed_the_object() {
    let server = Server::start().await;
    let first = Webhook::start(|_| json!({ "allowed": true })).await;
    let second = Webhook::start(|request| match request["name"].as_str() {
        Some("changed") => {
            patching(&json!([{ "op": "add", "path": "/metadata/labels", "value": { "k": "v" } }]))
        }
        // Replaces a value with the same value.
        _ => patching(&json!([{ "op": "replace", "path": "/data/k", "value": "v" }])),
    })
    .await;
    let rules = json!([{ "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] }]);
    let webhooks: Vec<_> = [(&first, "a"), (&second, "b")]
        .map(|(webhook, name)| {
            json!({ "name": format!("{name}.example.com"), "admissionReviewVersions": ["v1"],
                "sideEffects": "None", "timeoutSeconds": 30, "reinvocationPolicy": "IfNeeded",
                "clientConfig": webhook.client_config(), "rules": rules })
        })
        .into();
    let configuration = json!({ "metadata": { "name": "c" }, "webhooks": webhooks });
    let made = server.post(&format!("{HOOKS}/mutatingwebhookconfigurations"), configuration).await;
    assert_eq!(made.code, 201, "{made:?}");
    assert_eq!(server.post(MAPS, map("unchanged", json!({}))).await.code, 201);
    assert_eq!((first.requests().len(), second.requests().len()), (1, 1));
    assert_eq!(server.post(MAPS, map("changed", json!({}))).await.code, 201);
    assert_eq!((first.requests().len(), second.requests().len()), (3, 2));
}

#[tokio::test]
async fn a_webhook_cannot_change_an_object_that_is_deleted() {
    let server = Server::start().await;
    let respond: Responder = |request| match request["name"].as_str() {
        Some("unchanged") => patching(&json!([])),
        _ => patching(&json!([{ "op": "add", "path": "/data", "value": {} }])),
    };
    let webhook = Webhook::start(respond).await;
    for name in ["a", "unchanged"] {
        assert_eq!(server.post(MAPS, map(name, json!({}))).await.code, 201);
    }
    let rules = json!({ "failurePolicy": "Ignore", "rules": [{ "operations": ["DELETE"], "apiGroups": ["*"],
        "apiVersions": ["*"], "resources": ["configmaps"] }] });
    install(&server, "mutating", webhook.client_config(), rules).await;
    let (code, message) = server.delete(&format!("{MAPS}/a")).await.error();
    let why = "attempted to modify the object, which is not supported for this operation";
    assert!(code == 500 && message.ends_with(why), "{message}");
    assert_eq!(server.delete(&format!("{MAPS}/unchanged")).await.code, 200);
}

/// Such an object used to be stored under a key that was not its own, and could not be deleted.
#[tokio::test]
async fn a_webhook_cannot_move_an_object_to_another_namespace() {
    let server = Server::start().await;
    let webhook = Webhook::start(|_| {
        patching(&json!([{ "op": "add", "path": "/metadata/namespace", "value": "kube-system" }]))
    })
    .await;
    assert_eq!(server.post(MAPS, map("before", json!({}))).await.code, 201);
    let rules = json!({ "rules": [{ "operations": ["CREATE", "UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"],
        "resources": ["configmaps", "nodes", "pods/status"] }] });
    install(&server, "mutating", webhook.client_config(), rules).await;
    let why = "the namespace of the provided object does not match the namespace sent on the request";
    let refused = (400, why.to_owned());
    assert_eq!(server.post(MAPS, map("a", json!({}))).await.error(), refused);
    let generated = json!({ "metadata": { "generateName": "a-" } });
    assert_eq!(server.post(MAPS, generated).await.error(), refused);
    let apply = ("content-type", "application/apply-patch+yaml");
    let applied = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "k": "w" } });
    for name in ["a", "before"] {
        let path = format!("{MAPS}/{name}?fieldManager=m&force=true");
        let sent = server.send("PATCH", &path, &[apply], &applied(name).to_string()).await;
        assert_eq!(sent.error(), refused, "{name}");
    }
    let path = format!("{MAPS}/before");
    let put = server.send("PUT", &path, &[JSON], &applied("before").to_string()).await;
    assert_eq!(put.error(), refused);
    assert_eq!(server.merge(&path, json!({ "data": { "k": "x" } })).await.error(), refused);
    // The namespace of an object outside all namespaces is dropped.
    let node = server.post("/api/v1/nodes", json!({ "metadata": { "name": "n" } })).await;
    assert_eq!((node.code.as_u16(), node.json()["metadata"].get("namespace")), (201, None));
    let pods = "/api/v1/namespaces/default/pods";
    let pod =
        json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    assert_eq!(server.post(pods, pod).await.code, 201);
    let status = json!({ "status": { "phase": "Running" } });
    assert_eq!(server.merge(&format!("{pods}/p/status"), status).await.error(), refused);
    let names = server.get("/api/v1/configmaps").await.json();
    let names: Vec<_> = names["items"].as_array().unwrap().iter().map(|it| &it["metadata"]["name"]).collect();
    assert!(!names.contains(&&json!("a")) && names.contains(&&json!("before")), "{names:?}");
    assert_eq!(server.send("DELETE", &path, &[], "").await.code, 200);
    assert_eq!(server.get(&path).await.code, 404);
}

#[tokio::test]
async fn a_webhook_can_name_a_new_object_but_not_rename_one() {
    let server = Server::start().await;
    let webhook = Webhook::start(|_| {
        patching(&json!([{ "op": "add", "path": "/metadata/name", "value": "other" },
            { "op": "add", "path": "/metadata/deletionGracePeriodSeconds", "value": 30 },
            { "op": "add", "path": "/metadata/deletionTimestamp", "value": "2026-01-02T03:04:05Z" }]))
    })
    .await;
    assert_eq!(server.post(MAPS, map("before", json!({}))).await.code, 201);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let rules = json!({ "rules": [{ "operations": ["CREATE", "UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"],
        "resources": ["configmaps", "leases"] }] });
    install(&server, "mutating", webhook.client_config(), rules).await;
    let made = server.post(MAPS, map("a", json!({}))).await;
    assert_eq!((made.code.as_u16(), &made.json()["metadata"]["name"]), (201, &json!("other")));
    assert_eq!(server.get(&format!("{MAPS}/a")).await.code, 404);
    // A ConfigMap has no grace period, whatever its metadata says.
    assert_eq!(server.send("DELETE", &format!("{MAPS}/other"), &[], "").await.code, 200);
    assert_eq!(server.get(&format!("{MAPS}/other")).await.code, 404);
    let changed = server.merge(&format!("{MAPS}/before"), json!({ "data": { "k": "x" } })).await.error();
    assert!(changed.0 == 422 && changed.1.contains("metadata.name"), "{changed:?}");
    let lease = json!({ "metadata": { "name": "l" } }).to_string();
    let put = server.send("PUT", &format!("{leases}/l"), &[JSON], &lease).await.error();
    let why = "the name of the object (other) does not match the name on the URL (l)";
    assert_eq!(put, (400, why.to_owned()));
    assert_eq!(server.get(&format!("{leases}/other")).await.code, 404);
}

/// Regression test: the object was stored with the type that the webhook gave it. The errors are
/// those of `ValidateTypeMeta` in k8s.io/apiextensions-apiserver v0.36.4
/// pkg/registry/customresource/validator.go, and of decoding in k8s.io/apiserver v0.36.4
/// pkg/admission/plugin/webhook/mutating/dispatcher.go.
#[tokio::test]
async fn a_webhook_cannot_change_the_type_of_an_object() {
    let server = Server::start().await;
    let webhook = Webhook::start(|request| {
        let labels = &request["object"]["metadata"]["labels"];
        let operations: Vec<_> = labels
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| match value.as_str().unwrap_or_default() {
                "none" => json!({ "op": "remove", "path": format!("/{name}") }),
                value => {
                    json!({ "op": "replace", "path": format!("/{name}"), "value": value.replace("..", "/") })
                }
            })
            .collect();
        patching(&operations.into())
    })
    .await;
    let definition = json!({ "metadata": { "name": "widgets.example.com" },
        "spec": { "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(server.post(definitions, definition).await.code, 201);
    let rules = json!({ "rules": [{ "operations": ["CREATE", "UPDATE"], "apiGroups": ["", "example.com"],
        "apiVersions": ["*"], "resources": ["widgets", "widgets/status", "configmaps"] }] });
    install(&server, "mutating", webhook.client_config(), rules).await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = |name: &str, labels: Value| json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name, "labels": labels } });
    let made = server.post(widgets, widget("before", json!({}))).await;
    assert_eq!(made.code, 201, "{made:?}");
    for (labels, code, why) in [
        (json!({ "kind": "Gadget" }), 422, r#"kind: Invalid value: "Gadget": must be Widget"#),
        (
            json!({ "apiVersion": "example.com..v2" }),
            422,
            r#"apiVersion: Invalid value: "example.com/v2": must be example.com/v1"#,
        ),
        (json!({ "kind": "none" }), 500, "Object 'Kind' is missing in"),
    ] {
        let created = server.post(widgets, widget("a", labels.clone())).await.error();
        assert!(created.0 == code && created.1.contains(why), "{created:?}");
        let patch = json!({ "metadata": { "labels": labels } });
        for part in ["", "/status"] {
            let patched = server.merge(&format!("{widgets}/before{part}"), patch.clone()).await.error();
            assert!(patched.0 == code && patched.1.contains(why), "{part} {patched:?}");
        }
    }
    let created = server.post(MAPS, map("a", json!({ "kind": "Secret" }))).await.error();
    assert!(created.0 == 500 && created.1.contains("unknown conversion"), "{created:?}");
    let found = server.get(widgets).await.json();
    assert_eq!((found["items"].as_array().unwrap().len(), &found["items"][0]["kind"]), (1, &json!("Widget")));
}

#[tokio::test]
async fn a_mutating_webhook_can_change_a_scale() {
    let server = Server::start().await;
    let webhook = Webhook::start(|request| {
        assert_eq!((&request["kind"]["kind"], &request["subResource"]), (&json!("Scale"), &json!("scale")));
        assert_eq!(request["oldObject"]["kind"], "Scale");
        match request["object"]["spec"]["replicas"].as_i64() {
            Some(8) => patching(&json!([{ "op": "add", "path": "/spec/replicas", "value": "many" }])),
            _ => patching(&json!([{ "op": "add", "path": "/spec/replicas", "value": 3 }])),
        }
    })
    .await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({ "metadata": { "labels": { "app": "d" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let deployment = json!({ "metadata": { "name": "d" }, "spec": { "replicas": 2, "template": template,
        "selector": { "matchLabels": { "app": "d" } } } });
    assert_eq!(server.post(deployments, deployment).await.code, 201);
    let rules = json!({ "rules": [{ "operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["*"],
        "resources": ["*/scale"] }] });
    install(&server, "mutating", webhook.client_config(), rules).await;
    let path = format!("{deployments}/d/scale");
    let scale = |replicas: i64| json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "d" }, "spec": { "replicas": replicas } });
    let put = server.send("PUT", &path, &[JSON], &scale(5).to_string()).await;
    assert_eq!((put.code.as_u16(), &put.json()["spec"]["replicas"]), (200, &json!(3)));
    assert_eq!(server.get(&format!("{deployments}/d")).await.json()["spec"]["replicas"], 3);
    let patched = server.merge(&path, json!({ "spec": { "replicas": 7 } })).await;
    assert_eq!((patched.code.as_u16(), &patched.json()["spec"]["replicas"]), (200, &json!(3)));
    let apply = ("content-type", "application/apply-patch+yaml");
    let applied = server
        .send("PATCH", &format!("{path}?fieldManager=m&force=true"), &[apply], &scale(6).to_string())
        .await;
    assert_eq!((applied.code.as_u16(), &applied.json()["spec"]["replicas"]), (200, &json!(3)));
    assert_eq!(webhook.requests().len(), 3);
    assert_eq!(server.merge(&path, json!({ "spec": { "replicas": 8 } })).await.code, 500);
}

#[tokio::test]
async fn an_object_is_not_created_in_a_namespace_deleted_while_a_webhook_responds() {
    let server = Server::start().await;
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let webhook = Webhook::gated(|_| json!({ "allowed": true }), std::sync::Arc::clone(&gate)).await;
    let namespace = json!({ "metadata": { "name": "x" } });
    assert_eq!(server.post("/api/v1/namespaces", namespace).await.code, 201);
    install(&server, "validating", webhook.client_config(), json!({})).await;
    let write = server.post("/api/v1/namespaces/x/configmaps", map("a", json!({})));
    let delete = async {
        webhook.received(1).await;
        let deleted = server.send("DELETE", "/api/v1/namespaces/x", &[], "").await;
        gate.add_permits(1);
        deleted.code.as_u16()
    };
    let (written, deleted) = tokio::join!(write, delete);
    assert_eq!((written.code.as_u16(), deleted), (403, 200), "{written:?}");
}

#[tokio::test]
async fn a_webhook_cannot_turn_a_request_for_a_token_into_something_else() {
    let server = Server::start().await;
    let webhook = Webhook::start(|request| match request["object"]["spec"]["expirationSeconds"].as_i64() {
        Some(1000) => patching(&json!([{ "op": "replace", "path": "/spec", "value": "none" }])),
        _ => patching(&json!([{ "op": "add", "path": "/spec/expirationSeconds", "value": 900 }])),
    })
    .await;
    let rules = json!({ "rules": [{ "operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"],
        "resources": ["serviceaccounts/token"] }] });
    install(&server, "mutating", webhook.client_config(), rules).await;
    let account = json!({ "metadata": { "name": "a" } });
    assert_eq!(server.post("/api/v1/namespaces/default/serviceaccounts", account).await.code, 201);
    let request = |seconds: i64| {
        let server = &server;
        let request = json!({ "spec": { "audiences": [], "expirationSeconds": seconds } });
        async move { server.post("/api/v1/namespaces/default/serviceaccounts/a/token", request).await }
    };
    let made = request(700).await;
    assert_eq!((made.code.as_u16(), &made.json()["spec"]["expirationSeconds"]), (201, &json!(900)));
    let rejected = request(1000).await.error();
    assert!(rejected.0 == 500 && rejected.1.starts_with("Internal error occurred"), "{rejected:?}");
}

/// k8s.io/kubernetes v1.36.4 pkg/registry/core/pod/storage/eviction.go deletes with
/// `ValidateAllObjectFunc`: the eviction itself has been admitted already.
#[tokio::test]
async fn an_eviction_is_reviewed_as_an_eviction_only() {
    let server = Server::start().await;
    let webhook = Webhook::start(|request| json!({ "allowed": request["subResource"] == "eviction" })).await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod =
        json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    assert_eq!(server.post(pods, pod).await.code, 201);
    let rules = json!({ "rules": [{ "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
        "resources": ["pods", "pods/*"] }] });
    install(&server, "validating", webhook.client_config(), rules).await;
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p" } });
    let evicted = server.post(&format!("{pods}/p/eviction"), eviction).await;
    assert_eq!(evicted.code, 201, "{evicted:?}");
    assert_eq!(server.get(&format!("{pods}/p")).await.code, 404);
    assert_eq!(webhook.requests().len(), 1);
}

#[tokio::test]
async fn a_webhook_with_another_certificate_is_not_trusted() {
    let server = Server::start().await;
    let (webhook, other) =
        (Webhook::start(|_| json!({ "allowed": true })).await, Webhook::start(|_| json!({})).await);
    install(&server, "validating", json!({ "url": webhook.url, "caBundle": other.bundle }), json!({})).await;
    let rejected = server.post(MAPS, map("a", json!({}))).await.error();
    assert!(rejected.0 == 500 && rejected.1.contains("tls: failed to verify certificate"), "{rejected:?}");
    assert!(webhook.requests().is_empty());
}

#[tokio::test]
async fn selectors_and_rules_decide_if_a_webhook_is_called() {
    let server = Server::start().await;
    let webhook = Webhook::start(|_| json!({ "allowed": false })).await;
    let selecting = json!({ "objectSelector": { "matchLabels": { "checked": "yes" } },
        "sideEffects": "NoneOnDryRun",
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "default" } } });
    install(&server, "validating", webhook.client_config(), selecting).await;
    let checked = json!({ "checked": "yes" });
    assert_eq!(server.post(MAPS, map("a", json!({}))).await.code, 201, "another label");
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    assert_eq!(server.post(elsewhere, map("a", checked.clone())).await.code, 201, "another namespace");
    let secret = json!({ "metadata": { "name": "a", "labels": checked } });
    assert_eq!(server.post("/api/v1/namespaces/default/secrets", secret).await.code, 201, "another kind");
    assert!(webhook.requests().is_empty());
    let denied = server.post(&format!("{MAPS}?dryRun=All"), map("b", checked.clone())).await;
    let why = r#"admission webhook "h.example.com" denied the request without explanation"#;
    assert_eq!(denied.error(), (400, why.to_owned()));
    assert_eq!(webhook.requests()[0]["dryRun"], true);
    // The webhook is called for an update if the old or the new object matches the selector.
    let labelled =
        server.merge(&format!("{MAPS}/a"), json!({ "metadata": { "labels": { "checked": "yes" } } })).await;
    assert_eq!(labelled.code, 400);
    let configuration = format!("{HOOKS}/validatingwebhookconfigurations/c");
    assert_eq!(
        server.send("DELETE", &configuration, &[JSON], "").await.code,
        200,
        "webhooks are not called for webhook configurations"
    );
    assert_eq!(server.post(MAPS, map("b", checked)).await.code, 201);
}

#[tokio::test]
async fn a_namespace_is_selected_by_the_labels_it_will_have() {
    let server = Server::start().await;
    let webhook = Webhook::start(|_| json!({ "allowed": false })).await;
    let selecting = json!({ "namespaceSelector": { "matchLabels": { "env": "prod" } },
        "rules": [{ "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces", "namespaces/*"] }] });
    install(&server, "validating", webhook.client_config(), selecting).await;
    let namespace = |name: &str, env: &str| json!({ "metadata": { "name": name, "labels": { "env": env } } });
    assert_eq!(server.post("/api/v1/namespaces", namespace("a", "prod")).await.code, 400, "denied");
    assert_eq!(server.post("/api/v1/namespaces", namespace("a", "dev")).await.code, 201);
    let label = |env: &str| json!({ "metadata": { "labels": { "env": env } } });
    let path = "/api/v1/namespaces/a";
    assert_eq!(server.merge(path, label("prod")).await.code, 400, "the new labels match the selector");
    assert_eq!(server.merge(path, label("test")).await.code, 200);
    let operations: Vec<_> = webhook.requests().iter().map(|it| it["operation"].clone()).collect();
    assert_eq!(operations, ["CREATE", "UPDATE"]);
    // Deletions and subresources without labels are matched by the stored labels.
    let configuration = format!("{HOOKS}/validatingwebhookconfigurations/c");
    let test = json!([{ "op": "replace", "path": "/webhooks/0/namespaceSelector/matchLabels/env", "value": "test" }]);
    let json_patch = ("content-type", "application/json-patch+json");
    assert_eq!(server.send("PATCH", &configuration, &[json_patch], &test.to_string()).await.code, 200);
    assert_eq!(server.send("DELETE", path, &[JSON], "").await.code, 400);
    assert_eq!(server.merge(&format!("{path}/status"), label("dev")).await.code, 400);
}

#[tokio::test]
async fn a_webhook_is_called_only_if_its_match_conditions_are_true() {
    let server = Server::start().await;
    let webhook = Webhook::start(|_| json!({ "allowed": false })).await;
    let conditions = json!([
        { "name": "labelled", "expression": "object != null && object.metadata.?labels.call.orValue('') == 'yes'" },
        { "name": "strict", "expression": "object.metadata.name != 'fails' || object.data.missing == 'x'" }]);
    install(&server, "validating", webhook.client_config(), json!({ "matchConditions": conditions })).await;
    let yes = json!({ "call": "yes" });
    assert_eq!(server.post(MAPS, map("a", json!({}))).await.code, 201);
    assert_eq!(webhook.requests().len(), 0);
    assert_eq!(server.post(MAPS, map("b", yes.clone())).await.code, 400);
    assert_eq!(webhook.requests().len(), 1);
    let failed = server.post(MAPS, map("fails", yes)).await;
    let why = "expression 'object.metadata.name != 'fails' || object.data.missing == 'x'' resulted in error: no such key: \
               missing";
    assert_eq!(failed.error(), (403, format!("configmaps \"fails\" is forbidden: {why}")));
    assert_eq!(server.send("DELETE", &format!("{MAPS}/a"), &[], "").await.code, 200);
    assert_eq!(webhook.requests().len(), 1);
}

/// Installs a mutating policy of this name for ConfigMaps, bound, with one JSON patch.
async fn install_policy(server: &Server, name: &str, reinvocation: &str, patch: &str) {
    let policy = json!({ "metadata": { "name": name }, "spec": { "reinvocationPolicy": reinvocation,
        "matchConstraints": { "resourceRules": [{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps"] }] },
        "mutations": [{ "patchType": "JSONPatch", "jsonPatch": { "expression": patch } }] } });
    let binding = json!({ "metadata": { "name": name }, "spec": { "policyName": name } });
    assert_eq!(server.post(&format!("{HOOKS}/mutatingadmissionpolicies"), policy).await.code, 201);
    assert_eq!(server.post(&format!("{HOOKS}/mutatingadmissionpolicybindings"), binding).await.code, 201);
}

#[tokio::test]
async fn policies_are_applied_before_webhooks_and_again_after_their_changes() {
    let server = Server::start().await;
    let count = "[JSONPatch{op: 'add', path: '/data/KEY', value: object.data.?KEY.orValue('') + 'p'}]";
    install_policy(&server, "again", "IfNeeded", &count.replace("KEY", "again")).await;
    install_policy(&server, "once", "Never", &count.replace("KEY", "once")).await;
    let webhook = Webhook::start(|request| {
        let seen = request["object"]["data"]["hooked"].as_str().unwrap_or_default();
        let patch = json!([{ "op": "add", "path": "/data/hooked", "value": format!("{seen}w") }]);
        json!({ "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()) })
    })
    .await;
    let again = json!({ "reinvocationPolicy": "IfNeeded" });
    install(&server, "mutating", webhook.client_config(), again).await;
    let made = server.post(MAPS, map("a", json!({}))).await.json();
    assert_eq!(made["data"], json!({ "k": "v", "again": "pp", "once": "p", "hooked": "ww" }));
    let seen: Vec<_> = webhook.requests().iter().map(|it| it["object"]["data"].clone()).collect();
    assert_eq!(seen[0], json!({ "k": "v", "again": "p", "once": "p" }), "policies come first");
    assert_eq!(seen[1], json!({ "k": "v", "again": "pp", "once": "p", "hooked": "w" }));
}

#[tokio::test]
async fn a_policy_is_in_effect_as_soon_as_it_is_bound_and_no_longer() {
    let server = Server::start().await;
    let (policies, bindings) = (
        format!("{HOOKS}/validatingadmissionpolicies"),
        format!("{HOOKS}/validatingadmissionpolicybindings"),
    );
    let policy = json!({ "metadata": { "name": "p" }, "spec": {
        "matchConstraints": { "resourceRules": [{ "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps"] }] }, "validations": [{ "expression": "false", "message": "no" }] } });
    let binding =
        json!({ "metadata": { "name": "b" }, "spec": { "policyName": "p", "validationActions": ["Deny"] } });
    let alone = server.post(&policies, policy).await;
    assert_eq!((alone.code.as_u16(), alone.header("warning")), (201, ""));
    assert_eq!(
        server.post(MAPS, map("a", json!({}))).await.code,
        201,
        "a policy without a binding has no effect"
    );
    assert_eq!(server.post(&bindings, binding).await.code, 201);
    let why = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
    let denied = server.post(MAPS, map("b", json!({}))).await;
    assert_eq!(denied.error(), (422, format!("configmaps \"b\" is forbidden: {why}")));
    assert_eq!(server.send("DELETE", &format!("{MAPS}/a"), &[], "").await.code, 422);
    let warn = json!({ "spec": { "validationActions": ["Warn"] } });
    assert_eq!(server.merge(&format!("{bindings}/b"), warn).await.code, 200);
    let warned = server.post(MAPS, map("b", json!({}))).await;
    let warning = r#"299 - "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no""#;
    assert_eq!((warned.code.as_u16(), warned.header("warning")), (201, warning));
    assert_eq!(server.send("DELETE", &format!("{policies}/p"), &[], "").await.code, 200);
    assert_eq!(server.send("DELETE", &format!("{MAPS}/b"), &[], "").await.header("warning"), "");
}

#[tokio::test]
async fn expressions_that_do_not_compile_are_rejected_with_the_object() {
    let server = Server::start().await;
    let policy = json!({ "metadata": { "name": "p" }, "spec": {
        "matchConstraints": { "resourceRules": [{ "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps"] }] }, "validations": [{ "expression": "object.a" }] } });
    let refused = server.post(&format!("{HOOKS}/validatingadmissionpolicies"), policy).await;
    let why =
        "spec.validations[0].expression: Invalid value: \"object.a\": must evaluate to bool but got dyn";
    let message = format!("ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: {why}");
    assert_eq!(refused.error(), (422, message));
}
