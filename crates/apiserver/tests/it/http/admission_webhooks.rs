//! Webhooks: who is asked, about what, and what becomes of the request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::test_webhook::{Answer, Webhook};
use super::{JSON, Server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";

/// Has a webhook of that sort asked about every ConfigMap; `more` says what else its configuration says.
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
async fn what_a_validating_webhook_denies_is_not_stored_and_its_words_are_passed_on() {
    let server = Server::start().await;
    let deny: Answer = |request| match request["object"]["metadata"]["name"].as_str() {
        Some("good") => json!({ "allowed": true, "warnings": ["be careful"] }),
        _ => json!({ "allowed": false, "status": { "message": "no", "reason": "Forbidden", "code": 403 } }),
    };
    let webhook = Webhook::start(deny).await;
    install(&server, "validating", webhook.client_config(), json!({})).await;
    let refused = server.post(MAPS, map("bad", json!({}))).await;
    let why = r#"admission webhook "h.example.com" denied the request: no"#;
    assert_eq!((refused.refusal(), &refused.json()["reason"]), ((403, why.to_owned()), &json!("Forbidden")));
    assert_eq!(server.get(&format!("{MAPS}/bad")).await.code, 404);
    let made = server.post(MAPS, map("good", json!({}))).await;
    assert_eq!((made.code.as_u16(), made.header("warning")), (201, r#"299 - "be careful""#));
    assert_eq!(
        server.send("DELETE", &format!("{MAPS}/good"), &[], "").await.code,
        403,
        "it has no object then"
    );
    let asked = webhook.asked();
    let told: Vec<_> =
        asked.iter().map(|it| (it["operation"].as_str().unwrap(), it["name"].as_str().unwrap())).collect();
    assert_eq!(told, [("CREATE", "bad"), ("CREATE", "good"), ("DELETE", "good")]);
    assert!(asked[0]["object"]["metadata"]["uid"].is_string(), "it sees what would be stored");
    assert_eq!((&asked[2]["object"], &asked[2]["oldObject"]["data"]), (&Value::Null, &json!({ "k": "v" })));
    assert_eq!(asked[0]["userInfo"]["username"], "admin");
    assert_eq!(asked[0]["options"], json!({ "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1" }));
}

#[tokio::test]
async fn what_a_mutating_webhook_adds_is_stored_and_owned_by_nobody() {
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
    assert_eq!(webhook.asked()[0].get("name"), None, "there is none yet");
    let path = format!("{MAPS}/{}", made["metadata"]["name"].as_str().unwrap());
    let changed = server.merge(&path, json!({ "metadata": { "labels": null } })).await.json();
    assert_eq!(changed["metadata"]["labels"], json!({ "hooked": "yes" }));
    assert_eq!(webhook.asked().len(), 2);
}

#[tokio::test]
async fn a_webhook_that_does_not_answer_is_in_the_way_unless_it_need_not_be_asked() {
    let server = Server::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/x", listener.local_addr().unwrap());
    drop(listener);
    install(&server, "validating", json!({ "url": url }), json!({ "timeoutSeconds": 3 })).await;
    let refused = server.post(MAPS, map("a", json!({}))).await;
    let address = url.trim_start_matches("https://").trim_end_matches("/x");
    let why = format!(
        "failed calling webhook \"h.example.com\": failed to call webhook: Post \"{url}?timeout=3s\": dial tcp {address}: connect: connection refused"
    );
    assert_eq!(refused.refusal(), (500, format!("Internal error occurred: {why}")));
    assert_eq!(refused.json()["details"], json!({ "causes": [{ "message": why }] }));
    let ignore = json!([{ "op": "add", "path": "/webhooks/0/failurePolicy", "value": "Ignore" }]).to_string();
    let configuration = format!("{HOOKS}/validatingwebhookconfigurations/c");
    let patched = server
        .send("PATCH", &configuration, &[("content-type", "application/json-patch+json")], &ignore)
        .await;
    assert_eq!(patched.code, 200, "{patched:?}");
    assert_eq!(server.post(MAPS, map("a", json!({}))).await.code, 201);
}

#[tokio::test]
async fn calls_to_one_webhook_share_a_connection_and_find_it_again_when_that_is_closed() {
    let server = Server::start().await;
    let mut webhook = Webhook::start(|_| json!({ "allowed": true })).await;
    install(&server, "validating", webhook.client_config(), json!({})).await;
    for index in 0..10 {
        assert_eq!(server.post(MAPS, map(&format!("a-{index}"), json!({}))).await.code, 201);
    }
    let (asked, connections) = (webhook.asked().len(), webhook.connections());
    assert!(asked == 10 && connections < 5, "{asked} calls on {connections} connections");
    webhook.cut_connections().await;
    for index in 0..3 {
        let made = server.post(MAPS, map(&format!("b-{index}"), json!({}))).await;
        assert_eq!(made.code, 201, "a connection that was closed is no failure: {made:?}");
    }
}

#[tokio::test]
async fn calls_at_the_same_time_do_not_wait_for_each_other() {
    let server = Server::start().await;
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let webhook = Webhook::gated(|_| json!({ "allowed": true }), std::sync::Arc::clone(&gate)).await;
    install(&server, "validating", webhook.client_config(), json!({})).await;
    let writes = (0..5).map(|index| server.post(MAPS, map(&format!("a-{index}"), json!({}))));
    let writes = futures_util::future::join_all(writes.map(|it| async { it.await.code.as_u16() }));
    let open = async {
        let all = async {
            while webhook.asked().len() < 5 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let limit = std::time::Duration::from_secs(20);
        tokio::time::timeout(limit, all).await.expect("all five are asked about before one is answered");
        gate.add_permits(5);
    };
    assert_eq!(tokio::join!(writes, open).0, [201; 5]);
}

#[tokio::test]
async fn a_webhook_that_shows_another_certificate_is_not_believed() {
    let server = Server::start().await;
    let (webhook, other) =
        (Webhook::start(|_| json!({ "allowed": true })).await, Webhook::start(|_| json!({})).await);
    install(&server, "validating", json!({ "url": webhook.url, "caBundle": other.bundle }), json!({})).await;
    let refused = server.post(MAPS, map("a", json!({}))).await.refusal();
    assert!(refused.0 == 500 && refused.1.contains("tls: failed to verify certificate"), "{refused:?}");
    assert!(webhook.asked().is_empty());
}

#[tokio::test]
async fn selectors_rules_and_dry_runs_decide_who_is_asked() {
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
    assert!(webhook.asked().is_empty());
    let denied = server.post(&format!("{MAPS}?dryRun=All"), map("b", checked.clone())).await;
    let why = r#"admission webhook "h.example.com" denied the request without explanation"#;
    assert_eq!(denied.refusal(), (400, why.to_owned()));
    assert_eq!(webhook.asked()[0]["dryRun"], true);
    // What gets the label is asked about, and so is what loses it.
    let labelled =
        server.merge(&format!("{MAPS}/a"), json!({ "metadata": { "labels": { "checked": "yes" } } })).await;
    assert_eq!(labelled.code, 400);
    let configuration = format!("{HOOKS}/validatingwebhookconfigurations/c");
    assert_eq!(
        server.send("DELETE", &configuration, &[JSON], "").await.code,
        200,
        "nobody is asked about that"
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
    assert_eq!(server.merge(path, label("prod")).await.code, 400, "it would come into the selection");
    assert_eq!(server.merge(path, label("test")).await.code, 200);
    let asked: Vec<_> = webhook.asked().iter().map(|it| it["operation"].clone()).collect();
    assert_eq!(asked, ["CREATE", "UPDATE"]);
    // A deletion, and a part that has no labels of its own, go by the labels that are stored.
    let configuration = format!("{HOOKS}/validatingwebhookconfigurations/c");
    let test = json!([{ "op": "replace", "path": "/webhooks/0/namespaceSelector/matchLabels/env", "value": "test" }]);
    let json_patch = ("content-type", "application/json-patch+json");
    assert_eq!(server.send("PATCH", &configuration, &[json_patch], &test.to_string()).await.code, 200);
    assert_eq!(server.send("DELETE", path, &[JSON], "").await.code, 400);
    assert_eq!(server.merge(&format!("{path}/status"), label("dev")).await.code, 400);
}

#[tokio::test]
async fn a_webhook_with_match_conditions_is_called_and_whoever_stores_it_is_warned() {
    let server = Server::start().await;
    let webhook = Webhook::start(|_| json!({ "allowed": false })).await;
    let mut configuration = json!({ "metadata": { "name": "c" }, "webhooks": [{ "name": "h.example.com",
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
        "clientConfig": webhook.client_config(), "matchConditions": [{ "name": "never", "expression": "false" }],
        "rules": [{ "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] }] }] });
    let path = format!("{HOOKS}/validatingwebhookconfigurations");
    let made = server.post(&path, configuration.clone()).await;
    let warning = r#"299 - "webhooks[0].matchConditions are stored but not evaluated: this server has no CEL, and calls the webhook for every request that its rules and selectors match""#;
    assert_eq!((made.code.as_u16(), made.header("warning")), (201, warning));
    assert_eq!(server.post(MAPS, map("a", json!({}))).await.code, 400, "no request gets around it");
    assert_eq!(webhook.asked().len(), 1);
    // What was there before is not mentioned again.
    configuration["metadata"]["resourceVersion"] = made.json()["metadata"]["resourceVersion"].clone();
    configuration["metadata"]["labels"] = json!({ "a": "b" });
    let updated = server.send("PUT", &format!("{path}/c"), &[JSON], &configuration.to_string()).await;
    assert_eq!((updated.code.as_u16(), updated.header("warning")), (200, ""), "{updated:?}");
}

#[tokio::test]
async fn an_admission_policy_that_would_be_enforced_is_warned_about() {
    let server = Server::start().await;
    let policy = json!({ "metadata": { "name": "p" }, "spec": {
        "matchConstraints": { "resourceRules": [{ "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps"] }] }, "validations": [{ "expression": "false" }] } });
    let binding =
        json!({ "metadata": { "name": "b" }, "spec": { "policyName": "p", "validationActions": ["Deny"] } });
    let alone = server.post(&format!("{HOOKS}/validatingadmissionpolicies"), policy).await;
    assert_eq!(
        (alone.code.as_u16(), alone.header("warning")),
        (201, ""),
        "without a binding it does nothing"
    );
    let bound = server.post(&format!("{HOOKS}/validatingadmissionpolicybindings"), binding).await;
    let warning = r#"299 - "ValidatingAdmissionPolicyBinding \"b\" is stored but not enforced: this server does not evaluate CEL""#;
    assert_eq!((bound.code.as_u16(), bound.header("warning")), (201, warning));
    let change = json!({ "spec": { "failurePolicy": "Ignore" } });
    let changed = server.merge(&format!("{HOOKS}/validatingadmissionpolicies/p"), change).await;
    assert!(changed.header("warning").contains("is stored but not enforced"), "{changed:?}");
}
