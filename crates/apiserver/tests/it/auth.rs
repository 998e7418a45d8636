//! Who asks, with a cluster that knows tokens.

use dogwatch_apiserver::Refusal;
use dogwatch_apiserver::auth::{Anonymous, Authenticator, Deed, PeerIdentity};
use dogwatch_apiserver::cluster::{Cluster, Place, Source, User, Writer};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::json;

async fn cluster() -> Cluster {
    let cluster = Cluster::new(Source::real());
    cluster.bootstrap().await;
    cluster.know_token("hunter2", User::named("dev", &["devs"]));
    cluster.know_token("open-sesame", User::admin());
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "builder" } });
    cluster.add(account, &Writer::server("test")).await.unwrap();
    cluster
}

/// A token of the service account `default/builder`.
async fn account_token(cluster: &Cluster) -> String {
    let kind = cluster.catalog().kind("", "v1", "serviceaccounts").unwrap();
    let place = Place { kind: &kind, namespace: Some("default"), name: "builder", part: "token" };
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
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

fn reading(path: &str) -> Deed<'_> {
    Deed { method: "GET", path, watches: false }
}

fn outcome(found: Result<User, Refusal>) -> Result<String, u16> {
    found.map(|it| it.name).map_err(|it| it.0.code)
}

#[tokio::test]
async fn every_kind_of_credential_leads_to_its_user() {
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
        let found = authenticator.authenticate(&reading("/api"), &headers(token, &[]), peer, &cluster);
        assert_eq!(outcome(found), expected.map(str::to_owned), "{token:?} {peer:?}");
    }
}

#[tokio::test]
async fn a_token_dies_with_its_account() {
    let cluster = cluster().await;
    let token = account_token(&cluster).await;
    let kind = cluster.catalog().kind("", "v1", "serviceaccounts").unwrap();
    let place = Place { kind: &kind, namespace: Some("default"), name: "builder", part: "" };
    cluster.delete(&place, &Default::default(), &Writer::server("test")).await.unwrap();
    let found =
        Authenticator::new().authenticate(&reading("/api"), &headers(Some(&token), &[]), None, &cluster);
    assert_eq!(outcome(found), Err(401));
}

#[tokio::test]
async fn probes_need_no_credentials_but_wrong_ones_are_refused_there_too() {
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
        let found = authenticator.authenticate(&reading(path), &headers(token, &[]), None, &cluster);
        assert_eq!(outcome(found), expected.map(str::to_owned), "{anonymous:?} {path} {token:?}");
    }
}

#[tokio::test]
async fn only_masters_act_as_others() {
    let cluster = cluster().await;
    let as_bob = [("impersonate-user", "bob"), ("impersonate-group", "builders")];
    let act = |token| {
        Authenticator::new().authenticate(&reading("/api"), &headers(Some(token), &as_bob), None, &cluster)
    };
    let bob = act("open-sesame").unwrap();
    assert_eq!(
        (bob.name.as_str(), bob.groups),
        ("bob", vec!["builders".into(), "system:authenticated".into()])
    );
    assert_eq!(outcome(act("hunter2")), Err(403));
    // Who cannot log in learns nothing of what he may.
    assert_eq!(outcome(act("wrong")), Err(401));
}
