//! Servers that enforce roles. What each request may do is in the scenarios `rbac-*` of
//! `conformance/`, which were recorded from kube-apiserver.

use std::time::Duration;

use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::ServiceExt;

use crate::tests::test_cluster::TestCluster;
use crate::{ApiServer, AuthorizationMode, Controllers, User};

/// Longer than anything that completes at all.
const TIMEOUT: Duration = Duration::from_secs(600);

async fn server() -> ApiServer {
    ApiServer::builder()
        .in_process()
        .authorization(AuthorizationMode::Rbac)
        .token("admin")
        .token_of("bob", User::named("bob", &["devs"]))
        .start()
        .await
        .unwrap()
}

/// Sends a request with a token, or without one if it is empty. Returns the status code and the
/// body.
async fn send(server: &ApiServer, token: &str, method: Method, path: &str, body: Value) -> (u16, Value) {
    let mut request = http::Request::builder().method(method).uri(format!("http://localhost{path}"));
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let bytes = if body.is_null() { String::new() } else { body.to_string() };
    let request = request.header("content-type", "application/json").body(bytes).unwrap();
    let response = timeout(TIMEOUT, server.service().oneshot(request)).await.unwrap().unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn get(server: &ApiServer, token: &str, path: &str) -> u16 {
    send(server, token, Method::GET, path, Value::Null).await.0
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Gives a ClusterRole to the group `devs`.
async fn bind(server: &ApiServer, role: &str) {
    let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": role }, "roleRef": { "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "Group", "name": "devs" }] });
    let path = format!("{RBAC}/clusterrolebindings");
    assert_eq!(send(server, "admin", Method::POST, &path, binding).await.0, 201);
}

#[tokio::test]
async fn a_user_may_do_what_a_binding_permits_from_the_next_request_on() {
    let server = server().await;
    assert_eq!(get(&server, "bob", "/api/v1/pods").await, 403);
    bind(&server, "view").await;
    assert_eq!(get(&server, "bob", "/api/v1/pods").await, 200);
    assert_eq!(get(&server, "bob", "/api/v1/secrets").await, 403);
    let path = format!("{RBAC}/clusterrolebindings/view");
    assert_eq!(send(&server, "admin", Method::DELETE, &path, Value::Null).await.0, 200);
    assert_eq!(get(&server, "bob", "/api/v1/pods").await, 403);
}

#[tokio::test]
async fn a_request_without_credentials_is_one_of_system_anonymous() {
    let server = server().await;
    for (token, path, expected) in [
        ("", "/readyz", 200),
        ("", "/version", 200),
        ("", "/api", 403),
        ("", "/metrics", 403),
        ("wrong", "/readyz", 401),
        ("bob", "/api", 200),
        ("bob", "/metrics", 403),
        ("admin", "/metrics", 200),
    ] {
        assert_eq!(get(&server, token, path).await, expected, "{token:?} {path}");
    }
}

#[tokio::test]
async fn the_request_log_has_the_decision_and_its_reason() {
    let server = server().await;
    bind(&server, "view").await;
    for (token, path) in [("bob", "/api/v1/pods"), ("bob", "/api/v1/secrets"), ("wrong", "/api/v1/nodes")] {
        get(&server, token, path).await;
    }
    let logged = server.requests();
    let of = |resource: &str| {
        let found = logged.clone().verb("list").resource(resource);
        found.last().map(|it| (it.decision.clone(), it.reason.clone())).unwrap()
    };
    let reason = r#"RBAC: allowed by ClusterRoleBinding "view" of ClusterRole "view" to Group "devs""#;
    assert_eq!(of("pods"), ("allow".to_owned(), reason.to_owned()));
    assert_eq!(of("secrets"), ("forbid".to_owned(), String::new()));
    assert_eq!(of("nodes"), (String::new(), String::new()));
    assert_eq!(logged.forbidden().count(), 1);
}

#[tokio::test]
async fn a_fork_enforces_its_own_roles() {
    let server = server().await;
    bind(&server, "view").await;
    let fork = server.fork().await.unwrap();
    let path = format!("{RBAC}/clusterrolebindings/view");
    assert_eq!(send(&fork, "admin", Method::DELETE, &path, Value::Null).await.0, 200);
    assert_eq!(get(&fork, "bob", "/api/v1/pods").await, 403);
    assert_eq!(get(&server, "bob", "/api/v1/pods").await, 200);
}

#[tokio::test]
async fn components_need_no_roles() {
    let server = server().await;
    let request = http::Request::get("http://localhost/api/v1/secrets").body(String::new()).unwrap();
    let response = server.component_service("garbage-collector").oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

#[tokio::test]
async fn the_roles_of_kubernetes_exist_from_the_start() {
    let server = server().await;
    for (path, expected) in [
        (format!("{RBAC}/clusterroles"), 69),
        (format!("{RBAC}/clusterrolebindings"), 50),
        (format!("{RBAC}/roles"), 7),
        (format!("{RBAC}/rolebindings"), 7),
    ] {
        let (code, list) = send(&server, "admin", Method::GET, &path, Value::Null).await;
        assert_eq!((code, list["items"].as_array().unwrap().len()), (200, expected), "{path}");
    }
    let mut rules = Vec::new();
    for name in ["view", "edit", "admin"] {
        let path = format!("{RBAC}/clusterroles/{name}");
        let (_, role) = send(&server, "admin", Method::GET, &path, Value::Null).await;
        rules.push(role["rules"].as_array().map(Vec::len).unwrap());
    }
    assert!(rules[0] > 0 && rules[0] < rules[1] && rules[1] < rules[2], "{rules:?}");
}

/// Creates a Role with one rule as a user who may create Roles and nothing else. Returns the status
/// code and the message of the response.
async fn create_role(rule: Value) -> (u16, String) {
    let server = server().await;
    // Not all verbs: one of them is `escalate`.
    let creates =
        json!({ "verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"] });
    grant(&server, "roles", creates).await;
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "large" },
        "rules": [rule] });
    let path = format!("{RBAC}/namespaces/default/roles");
    let (code, refusal) = send(&server, "bob", Method::POST, &path, role).await;
    (code, refusal["message"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn rules_with_billions_of_permissions_are_rejected_quickly() {
    let many: Vec<String> = (0..10_000).map(|it| format!("r{it}")).collect();
    let rule = json!({ "verbs": many, "apiGroups": many, "resources": many, "resourceNames": many });
    let (code, message) = create_role(rule).await;
    assert!(code == 403 && message.contains("too many combinations"), "{code} {message}");
}

/// Creates a ClusterRole with one rule, and gives it to the group `devs`.
async fn grant(server: &ApiServer, name: &str, rule: Value) {
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name }, "rules": [rule] });
    assert_eq!(send(server, "admin", Method::POST, &format!("{RBAC}/clusterroles"), role).await.0, 201);
    bind(server, name).await;
}

/// The texts are those of kube-apiserver.
#[tokio::test]
async fn each_part_of_the_status_of_a_claim_takes_a_permission() {
    let server = server().await;
    let claim = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": { "name": "c" },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "x" } }] } } });
    let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    assert_eq!(send(&server, "admin", Method::POST, claims, claim).await.0, 201);
    let rule = |resource: &str, verb: &str| json!({ "verbs": [verb], "apiGroups": ["resource.k8s.io"], "resources": [resource] });
    grant(&server, "status", rule("resourceclaims/status", "update")).await;
    let (_, mut claim) = send(&server, "admin", Method::GET, &format!("{claims}/c"), Value::Null).await;
    claim["status"] =
        json!({ "allocation": {}, "reservedFor": [{ "resource": "pods", "name": "p", "uid": "u" }] });
    let status = format!("{claims}/c/status");
    let (code, refusal) = send(&server, "bob", Method::PUT, &status, claim.clone()).await;
    let expected = r#"ResourceClaim.resource.k8s.io "c" is invalid: status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="update" permission: resourceclaims.resource.k8s.io is forbidden: User "bob" cannot update resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope"#;
    assert_eq!((code, refusal["message"].as_str().unwrap()), (422, expected));
    grant(&server, "binding", rule("resourceclaims/binding", "update")).await;
    let (code, allocated) = send(&server, "bob", Method::PUT, &status, claim).await;
    assert_eq!(code, 200, "{allocated}");
    let mut claim = allocated;
    claim["status"]["devices"] = json!([{ "driver": "d.example.com", "pool": "p", "device": "x" }]);
    let (code, refusal) = send(&server, "bob", Method::PUT, &status, claim).await;
    let expected = r#"changing status.devices requires resource="resourceclaims/driver", verb="[arbitrary-node:update]" permission: resourceclaims.resource.k8s.io "d.example.com" is forbidden: User "bob" cannot arbitrary-node:update resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace "default""#;
    let message = refusal["message"].as_str().unwrap();
    assert!(code == 422 && message.contains(expected), "{message}");
}

/// Regression test: each of the drivers took a decision about all rules of the user.
#[tokio::test]
async fn a_status_with_more_drivers_than_can_be_allocated_is_rejected_without_decisions() {
    let server = server().await;
    let claim = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": { "name": "c" },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "x" } }] } } });
    let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    assert_eq!(send(&server, "admin", Method::POST, claims, claim).await.0, 201);
    let rule = json!({ "verbs": ["update"], "apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"] });
    grant(&server, "status", rule).await;
    let (_, mut claim) = send(&server, "admin", Method::GET, &format!("{claims}/c"), Value::Null).await;
    let device = |it: usize| json!({ "driver": format!("d{it}"), "pool": "p", "device": "x" });
    claim["status"] = json!({ "allocation": {}, "devices": (0..10_000).map(device).collect::<Vec<_>>() });
    let (code, refusal) =
        send(&server, "bob", Method::PUT, &format!("{claims}/c/status"), claim.clone()).await;
    let message = refusal["message"].as_str().unwrap();
    assert!(code == 422 && message.contains("status.devices: Too many: 10000: must have at most 32 items"));
    assert!(!message.contains("resourceclaims/driver"), "no decision was made");
    // Nor can it be stored without an allocation, for which no decision is needed.
    claim["status"] = json!({ "devices": [device(0)] });
    let (code, refusal) = send(&server, "bob", Method::PUT, &format!("{claims}/c/status"), claim).await;
    let message = refusal["message"].as_str().unwrap();
    assert!(code == 422 && message.contains("must be an allocated device in the claim"), "{message}");
}

/// The prefix is authorized as a watch.
#[tokio::test]
async fn the_deprecated_watch_prefix_only_watches() {
    let server = server().await;
    let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.e.test" },
        "spec": { "group": "e.test", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(&server, "admin", Method::POST, definitions, definition).await.0, 201);
    let widget = json!({ "apiVersion": "e.test/v1", "kind": "Widget", "metadata": { "name": "x" } });
    let widgets = "/apis/e.test/v1/namespaces/default/widgets";
    assert_eq!(send(&server, "admin", Method::POST, widgets, widget.clone()).await.0, 201);
    let watches = json!({ "verbs": ["watch"], "apiGroups": ["", "e.test"], "resources": ["*"] });
    grant(&server, "watcher", watches).await;
    for collection in
        ["/apis/e.test/v1/watch/namespaces/default/widgets", "/api/v1/watch/namespaces/default/secrets"]
    {
        for path in [collection.to_owned(), format!("{collection}/x")] {
            for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                let (code, _) = send(&server, "bob", method.clone(), &path, widget.clone()).await;
                assert_eq!(code, 405, "{method} {path}");
            }
        }
    }
    assert_eq!(get(&server, "admin", &format!("{widgets}/x")).await, 200);
}

#[tokio::test]
async fn not_every_missing_permission_is_reported() {
    let many: Vec<String> = (0..30).map(|it| format!("r{it}")).collect();
    let rule = json!({ "verbs": ["get"], "apiGroups": many, "resources": many, "resourceNames": many });
    let (code, message) = create_role(rule).await;
    assert!(code == 403 && message.ends_with("... and more"), "{code} {}", message.len());
    assert_eq!(message.lines().count(), 1 + 1_000 + 1);
}

/// Regression test: all rules of a user were copied into one answer.
#[tokio::test]
async fn a_review_of_rules_shows_not_more_than_a_mebibyte() {
    let server = server().await;
    let rule = |name: &str, count: usize| {
        let names: Vec<String> = (0..count).map(|it| format!("{name}-{it}")).collect();
        json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": names })
    };
    grant(&server, "a", rule("small", 10)).await;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": { "namespace": "default" } });
    let (code, whole) = send(&server, "bob", Method::POST, path, review.clone()).await;
    assert_eq!((code, &whole["status"]["incomplete"]), (201, &json!(false)));
    for name in ["b", "c", "d"] {
        grant(&server, name, rule(name, 40_000)).await;
    }
    let (code, part) = send(&server, "bob", Method::POST, path, review).await;
    assert_eq!((code, &part["status"]["incomplete"]), (201, &json!(true)));
    let error = part["status"]["evaluationError"].as_str().unwrap();
    assert!(error.contains("too large"), "{error}");
    let shown = part["status"]["resourceRules"].as_array().unwrap().len();
    let all = whole["status"]["resourceRules"].as_array().unwrap().len();
    assert!(shown > all && part.to_string().len() < 2 * 1024 * 1024, "{shown} {all}");
}

/// Regression test: each error took memory several times over.
#[tokio::test]
async fn the_errors_of_an_access_review_are_limited() {
    let server = server().await;
    let review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": { "verb": "get", "resource": "pods",
            "labelSelector": { "requirements": vec![json!({}); 50_000] } } } });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let (code, refusal) = send(&server, "bob", Method::POST, path, review).await;
    let causes = refusal["details"]["causes"].as_array().unwrap().len();
    assert!(code == 422 && (1..=1_001).contains(&causes), "{code} {causes}");
}

#[tokio::test(start_paused = true)]
async fn a_role_with_many_selectors_is_aggregated() {
    let it = TestCluster::with(Controllers::default()).await;
    const ROLES: (&str, &str) = ("rbac.authorization.k8s.io/v1", "ClusterRole");
    let rule = json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] });
    for number in 0..50 {
        let metadata = json!({ "name": format!("part-{number}") });
        it.add(json!({ "apiVersion": ROLES.0, "kind": ROLES.1, "metadata": metadata, "rules": [rule] }))
            .await;
    }
    let selectors = vec![json!({}); 50_000];
    it.add(json!({ "apiVersion": ROLES.0, "kind": ROLES.1, "metadata": { "name": "all" },
        "aggregationRule": { "clusterRoleSelectors": selectors } }))
        .await;
    let is_complete = |role: &Value| role["metadata"]["name"] == "all" && role["rules"] == json!([rule]);
    it.until(ROLES, |roles| roles.iter().any(is_complete)).await;
}

#[tokio::test(start_paused = true)]
async fn roles_that_aggregate_each_other_in_a_circle_are_not_written_all_the_time() {
    let it = TestCluster::with(Controllers::default()).await;
    const ROLES: (&str, &str) = ("rbac.authorization.k8s.io/v1", "ClusterRole");
    for (name, next) in [("a", "b"), ("b", "c"), ("c", "a")] {
        let rule = json!({ "verbs": [name], "apiGroups": [""], "resources": ["pods"] });
        it.add(json!({ "apiVersion": ROLES.0, "kind": ROLES.1,
            "metadata": { "name": name, "labels": { "name": name } }, "rules": [rule],
            "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "name": next } }] } }))
            .await;
    }
    let before = it.cluster.store().revision();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let writes = it.cluster.store().revision() - before;
    assert!(writes <= 3 * 61, "{writes}");
}

#[tokio::test(start_paused = true)]
async fn an_aggregated_role_follows_the_roles_that_it_selects() {
    let it = TestCluster::with(Controllers::default()).await;
    const ROLES: (&str, &str) = ("rbac.authorization.k8s.io/v1", "ClusterRole");
    let role = |name: &str, more: Value| {
        let mut role = json!({ "apiVersion": ROLES.0, "kind": ROLES.1, "metadata": { "name": name } });
        role.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        role
    };
    let rule = |verb: &str| json!([{ "verbs": [verb], "apiGroups": [""], "resources": ["pods"] }]);
    let labelled = |name: &str, verb: &str| {
        let mut part = role(name, json!({ "rules": rule(verb) }));
        part["metadata"]["labels"] = json!({ "part-of": "all" });
        part
    };
    it.add(role(
        "all",
        json!({ "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "part-of": "all" } }] } }),
    ))
    .await;
    it.add(labelled("a", "get")).await;
    it.add(labelled("b", "list")).await;
    it.add(labelled("c", "get")).await;
    it.add(role("other", json!({ "rules": rule("delete") }))).await;
    let verbs = |roles: &[Value]| {
        let all = roles.iter().find(|it| it["metadata"]["name"] == "all").unwrap();
        let rules = all["rules"].as_array().cloned().unwrap_or_default();
        rules.iter().map(|it| it["verbs"][0].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    it.until(ROLES, |roles| verbs(roles) == ["get", "list"]).await;
    it.change(ROLES, "a", "", |it| it["metadata"]["labels"] = json!({})).await;
    it.until(ROLES, |roles| verbs(roles) == ["list", "get"]).await;
    it.delete(ROLES, "b", None).await;
    it.delete(ROLES, "c", None).await;
    it.until(ROLES, |roles| verbs(roles).is_empty()).await;
}
