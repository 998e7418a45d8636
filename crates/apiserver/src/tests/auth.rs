//! Authentication of requests to a cluster with tokens.

use crate::ApiError;
use crate::auth::{Anonymous, Authenticator, PeerIdentity};
use crate::authorization::{AccessRequest, AccessTarget, AuthorizationMode};
use crate::cluster::{Cluster, ObjectRef, Source, Writer};
use crate::user::User;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};

async fn cluster() -> Cluster {
    let cluster = Cluster::new(Source::real());
    cluster.bootstrap().await;
    cluster.tokens().add_static("hunter2", User::named("dev", &["devs"]));
    cluster.tokens().add_static("open-sesame", User::admin());
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "builder" } });
    cluster.add(account, &Writer::server("test")).await.unwrap();
    cluster
}

/// Creates a token of the service account `default/builder`.
async fn account_token(cluster: &Cluster) -> String {
    token_for(cluster, &[]).await
}

/// Creates a token of the service account `default/builder` for these audiences.
async fn token_for(cluster: &Cluster, audiences: &[&str]) -> String {
    let kind = cluster.catalog().kind("", "v1", "serviceaccounts").unwrap();
    let place = ObjectRef { kind: &kind, namespace: Some("default"), name: "builder", part: "token" };
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": { "audiences": audiences } });
    let made = cluster.create(&place, request, &Writer::server("test")).await.unwrap();
    made.object.to_value(&kind)["status"]["token"].as_str().unwrap().to_owned()
}

fn headers(token: Option<&str>, others: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    }
    for (name, value) in others {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

/// Authenticates a request to read a path.
fn authenticated(
    authenticator: &Authenticator,
    path: &str,
    headers: &HeaderMap,
    peer: Option<&PeerIdentity>,
    cluster: &Cluster,
) -> Result<User, ApiError> {
    let access = AccessRequest { verb: "get".into(), target: AccessTarget::Path(path) };
    authenticator.authenticate(path, &access, headers, peer, cluster)
}

fn outcome(found: Result<User, ApiError>) -> Result<String, u16> {
    found.map(|it| it.name).map_err(|it| it.0.code)
}

#[tokio::test]
async fn every_kind_of_credential_authenticates_its_user() {
    let cluster = cluster().await;
    let account = account_token(&cluster).await;
    let peer = PeerIdentity::new("jane", &["devs"]);
    let authenticator = Authenticator::new();
    for (token, peer, expected) in [
        (Some("hunter2"), None, Ok("dev")),
        (Some("open-sesame"), None, Ok("admin")),
        (Some(account.as_str()), None, Ok("system:serviceaccount:default:builder")),
        (Some("wrong"), None, Err(401)),
        (None, None, Err(401)),
        (None, Some(&peer), Ok("jane")),
        (Some("hunter2"), Some(&peer), Ok("jane")),
    ] {
        let found = authenticated(&authenticator, "/api", &headers(token, &[]), peer, &cluster);
        assert_eq!(outcome(found), expected.map(str::to_owned), "{token:?} {peer:?}");
    }
}

/// Returns the status of a TokenReview.
async fn reviewed(cluster: &Cluster, token: &str, audiences: &[&str]) -> Value {
    let kind = cluster.catalog().kind("authentication.k8s.io", "v1", "tokenreviews").unwrap();
    let place = ObjectRef { kind: &kind, namespace: None, name: "", part: "" };
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": { "token": token, "audiences": audiences } });
    let made = cluster.create(&place, review, &Writer::server("test")).await.unwrap();
    made.object.to_value(&kind)["status"].clone()
}

#[tokio::test]
async fn a_token_for_another_audience_does_not_log_in() {
    let cluster = cluster().await;
    let api = "https://kubernetes.default.svc";
    for (audiences, expected) in [
        (&[][..], Ok("system:serviceaccount:default:builder")),
        (&["vault", api][..], Ok("system:serviceaccount:default:builder")),
        (&["vault"][..], Err(401)),
    ] {
        let token = token_for(&cluster, audiences).await;
        let found = authenticated(&Authenticator::new(), "/api", &headers(Some(&token), &[]), None, &cluster);
        assert_eq!(outcome(found), expected.map(str::to_owned), "{audiences:?}");
    }
}

#[tokio::test]
async fn a_token_review_returns_only_requested_audiences() {
    let cluster = cluster().await;
    let api = "https://kubernetes.default.svc";
    let vault = token_for(&cluster, &["vault", "other"]).await;
    let own = account_token(&cluster).await;
    for (token, requested, audiences) in [
        (vault.as_str(), &["foo", "vault"][..], Some(json!(["vault"]))),
        (vault.as_str(), &["foo"][..], None),
        (vault.as_str(), &[][..], None),
        (own.as_str(), &[][..], Some(json!([api]))),
        (own.as_str(), &["vault"][..], None),
        // Static tokens are valid for the API server only.
        ("hunter2", &[][..], Some(json!([api]))),
        ("hunter2", &["vault"][..], None),
    ] {
        let status = reviewed(&cluster, token, requested).await;
        assert_eq!(status.get("audiences").cloned(), audiences, "{requested:?} {status}");
        assert_eq!(status["authenticated"] == true, audiences.is_some(), "{requested:?} {status}");
    }
    let mismatch = reviewed(&cluster, &vault, &["foo"]).await;
    let why = r#"[invalid bearer token, token audiences ["vault" "other"] is invalid for the target audiences ["foo"]]"#;
    assert_eq!(mismatch, json!({ "user": {}, "error": why }));
    assert_eq!(
        reviewed(&cluster, "wrong", &[]).await,
        json!({ "user": {}, "error": "invalid bearer token" })
    );
}

#[tokio::test]
async fn an_access_review_says_that_the_server_does_not_authorize() {
    let cluster = cluster().await;
    for (plural, spec) in [
        ("selfsubjectaccessreviews", json!({})),
        ("subjectaccessreviews", json!({ "user": "bob" })),
        ("localsubjectaccessreviews", json!({ "user": "bob" })),
    ] {
        let kind = cluster.catalog().kind("authorization.k8s.io", "v1", plural).unwrap();
        let namespace = kind.def.namespaced.then_some("default");
        let place = ObjectRef { kind: &kind, namespace, name: "", part: "" };
        let mut review =
            json!({ "apiVersion": "authorization.k8s.io/v1", "kind": kind.def.kind, "spec": spec });
        review["spec"]["resourceAttributes"] =
            json!({ "verb": "delete", "resource": "nodes", "namespace": namespace });
        let made = cluster.create(&place, review, &Writer::server("test")).await.unwrap();
        let status = made.object.to_value(&kind)["status"].clone();
        let reason = status["reason"].as_str().unwrap();
        assert!(status["allowed"] == true && reason.contains("does not authorize"), "{plural}: {status}");
    }
}

#[tokio::test]
async fn a_token_is_invalid_after_its_account_is_deleted() {
    let cluster = cluster().await;
    let token = account_token(&cluster).await;
    let kind = cluster.catalog().kind("", "v1", "serviceaccounts").unwrap();
    let place = ObjectRef { kind: &kind, namespace: Some("default"), name: "builder", part: "" };
    cluster.delete(&place, &Default::default(), &Writer::server("test")).await.unwrap();
    let found = authenticated(&Authenticator::new(), "/api", &headers(Some(&token), &[]), None, &cluster);
    assert_eq!(outcome(found), Err(401));
}

#[tokio::test]
async fn probes_need_no_credentials_but_reject_wrong_ones() {
    let cluster = cluster().await;
    for (anonymous, path, token, expected) in [
        (Anonymous::Refused, "/readyz", None, Ok("system:anonymous")),
        (Anonymous::Refused, "/version", Some("hunter2"), Ok("dev")),
        (Anonymous::Refused, "/readyz", Some("wrong"), Err(401)),
        (Anonymous::Refused, "/api", None, Err(401)),
        (Anonymous::Allowed, "/api", None, Ok("system:anonymous")),
        (Anonymous::Admin, "/api", None, Ok("admin")),
        (Anonymous::Admin, "/readyz", None, Ok("admin")),
        (Anonymous::Admin, "/api", Some("wrong"), Err(401)),
    ] {
        let authenticator = Authenticator::new().anonymous(anonymous);
        let found = authenticated(&authenticator, path, &headers(token, &[]), None, &cluster);
        assert_eq!(outcome(found), expected.map(str::to_owned), "{anonymous:?} {path} {token:?}");
    }
}

#[tokio::test]
async fn with_authorization_impersonation_takes_a_permission() {
    let cluster = cluster().await.with_authorization(AuthorizationMode::Rbac);
    let as_bob = [("impersonate-user", "bob"), ("impersonate-group", "builders")];
    let act =
        |token| authenticated(&Authenticator::new(), "/api", &headers(Some(token), &as_bob), None, &cluster);
    let bob = act("open-sesame").unwrap();
    assert_eq!(
        (bob.name.as_str(), bob.groups),
        ("bob", vec!["builders".into(), "system:authenticated".into()])
    );
    assert_eq!(outcome(act("hunter2")), Err(403));
    // Authentication comes first: an unauthenticated client does not learn what is permitted.
    assert_eq!(outcome(act("wrong")), Err(401));
}
