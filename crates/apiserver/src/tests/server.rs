//! The server as a whole: initial objects, endpoints, credentials and shutdown.

use std::net::SocketAddr;

use crate::auth::Anonymous;
use crate::cluster::{Cluster, ObjectRef, Writer};
use crate::user::User;
use crate::{ApiServer, ServiceAccountKeys, StartError};
use dogwatch_core::ObjectKey;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

fn stored(cluster: &Cluster, plural: &str, name: &str) -> Option<Value> {
    let kind = cluster.catalog().kind("", "v1", plural)?;
    cluster.get(&kind, &ObjectKey::namespaced("default", name)).map(|it| it.to_value())
}

async fn add(cluster: &Cluster, name: &str) {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
    cluster.add(object, &Writer::server("test")).await.unwrap();
}

fn address(server: &ApiServer) -> SocketAddr {
    server.url().strip_prefix("http://").unwrap().parse().unwrap()
}

const CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: cats.zoo.example }
spec:
  group: zoo.example
  scope: Namespaced
  names: { plural: cats, kind: Cat }
  versions:
  - name: v1
    served: true
    storage: true
    schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
---
# An empty document.
---
apiVersion: zoo.example/v1
kind: Cat
metadata: { name: tom }
";

#[tokio::test]
async fn a_server_starts_with_its_initial_objects() {
    let map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "typed" } })).unwrap();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "ready" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
        "status": { "phase": "Running", "podIP": "10.0.0.7" },
    }))
    .unwrap();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "listed" } },
    ]});
    let server =
        ApiServer::builder().object(&map).object(&pod).object(&list).yaml(CRD).start().await.unwrap();
    let cluster = server.cluster();
    assert!(stored(cluster, "configmaps", "typed").is_some());
    assert!(stored(cluster, "configmaps", "listed").is_some());
    assert_eq!(stored(cluster, "pods", "ready").unwrap()["status"]["podIP"], "10.0.0.7");
    let cats = cluster.catalog().kind("zoo.example", "v1", "cats").unwrap();
    assert_eq!(cluster.list(&cats, None).len(), 1);
}

#[tokio::test]
async fn an_invalid_initial_object_is_named() {
    let start = |yaml: &'static str| ApiServer::builder().in_process().yaml(yaml).start();
    let misspelt = "{ apiVersion: v1, kind: ConfigMap, metadata: { name: a }, dta: {} }";
    let rejected = start(misspelt).await.unwrap_err();
    assert_eq!(rejected.to_string(), "cannot create initial object ConfigMap \"a\"");
    assert!(matches!(rejected, StartError::Refused { ref source, .. } if source.0.message.contains("dta")));
    let unreadable = start("a: [").await.unwrap_err();
    assert!(matches!(unreadable, StartError::Unreadable { position: 1, .. }), "{unreadable:?}");
}

#[tokio::test]
async fn a_fork_is_independent() {
    let server = ApiServer::start().await.unwrap();
    add(server.cluster(), "before").await;
    let fork = server.fork().await.unwrap();
    assert_ne!(fork.url(), server.url());
    assert!(TcpStream::connect(address(&fork)).await.is_ok());
    add(fork.cluster(), "there").await;
    add(server.cluster(), "here").await;
    for (cluster, names) in [(server.cluster(), ["before", "here"]), (fork.cluster(), ["before", "there"])] {
        let maps = cluster.catalog().kind("", "v1", "configmaps").unwrap();
        let found: Vec<String> =
            cluster.list(&maps, Some("default")).iter().map(|it| it.key().name().to_owned()).collect();
        assert_eq!(found, names);
    }
    let in_process = ApiServer::in_process().await.unwrap().fork().await.unwrap();
    assert_eq!(in_process.url(), "http://in-process.invalid");
}

#[tokio::test]
async fn a_seed_determines_uids_names_and_times() {
    let uid = || async {
        let yaml = "{ apiVersion: v1, kind: ConfigMap, metadata: { generateName: a- } }";
        let server = ApiServer::builder().in_process().seed(7).yaml(yaml).start().await.unwrap();
        let maps = server.cluster().catalog().kind("", "v1", "configmaps").unwrap();
        let made = server.cluster().list(&maps, None).pop().unwrap().to_value();
        let metadata = |field: &str| made["metadata"][field].as_str().unwrap().to_owned();
        [metadata("uid"), metadata("name"), metadata("creationTimestamp")]
    };
    let first = uid().await;
    assert_eq!(first, uid().await);
    assert!(first[2].starts_with("2026-01-01T00:00:"), "{first:?}");
}

/// Creates a token of the service account `default/a`, on a server with a well-known seed.
async fn seeded(listens: bool) -> (ApiServer, String) {
    let yaml = "{ apiVersion: v1, kind: ServiceAccount, metadata: { name: a } }";
    let builder = ApiServer::builder().seed(42).yaml(yaml);
    let builder = if listens { builder } else { builder.in_process() };
    let server = builder.start().await.unwrap();
    let kind = server.cluster().catalog().kind("", "v1", "serviceaccounts").unwrap();
    let place = ObjectRef { kind: &kind, namespace: Some("default"), name: "a", part: "token" };
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let made = server.cluster().create(&place, request, &Writer::server("test")).await.unwrap();
    let token = made.object.to_value(&kind)["status"]["token"].as_str().unwrap().to_owned();
    (server, token)
}

#[tokio::test]
async fn a_seed_does_not_reveal_the_signing_key_of_a_listening_server() {
    let (victim, own) = seeded(true).await;
    let (_, in_process) = seeded(false).await;
    let (_, other) = seeded(true).await;
    assert!(victim.cluster().tokens().user(&own).is_some());
    for forged in [in_process, other] {
        assert_eq!(victim.cluster().tokens().user(&forged), None);
    }
    let fork = victim.fork().await.unwrap();
    assert!(fork.cluster().tokens().user(&own).is_some(), "a fork accepts the tokens of its parent");
    // Uids do not depend on a listener.
    let (server, _) = seeded(false).await;
    let uid =
        |it: &ApiServer| stored(it.cluster(), "serviceaccounts", "a").unwrap()["metadata"]["uid"].clone();
    assert_eq!(uid(&server), uid(&victim));
}

#[tokio::test]
async fn the_seed_determines_the_tokens_of_an_in_process_server() {
    let ((server, first), (_, second)) = (seeded(false).await, seeded(false).await);
    assert!(server.cluster().tokens().user(&second).is_some());
    assert_eq!(first.split('.').next(), second.split('.').next());
}

#[tokio::test]
async fn a_server_off_loopback_needs_tls_and_a_token() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    for (tls, token) in [(false, false), (true, false), (false, true)] {
        let mut builder = ApiServer::builder().bind(everywhere).tls(tls);
        if token {
            builder = builder.token("hunter2");
        }
        let rejected = builder.start().await.unwrap_err();
        assert!(matches!(rejected, StartError::Exposed { .. }), "{tls} {token}: {rejected}");
    }
}

/// There is no authorizer, so an anonymous client may read all Secrets.
#[tokio::test]
async fn a_server_off_loopback_must_reject_requests_without_credentials() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    for anonymous in [Anonymous::Allowed, Anonymous::Admin] {
        let builder = ApiServer::builder().bind(everywhere).tls(true).token("hunter2");
        let rejected = builder.anonymous(anonymous).start().await.unwrap_err();
        assert!(matches!(rejected, StartError::ExposedToAnonymous { .. }), "{rejected}");
        assert!(rejected.to_string().contains("allow_exposure"), "{rejected}");
    }
    let loopback = ApiServer::builder().tls(true).token("hunter2").anonymous(Anonymous::Allowed);
    loopback.start().await.unwrap().stop().await;
}

#[tokio::test]
async fn a_port_in_use_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let rejected = ApiServer::builder().bind(address).start().await.unwrap_err();
    assert_eq!(rejected.to_string(), format!("cannot listen on {address}"));
}

#[tokio::test]
async fn with_tls_a_token_is_generated_by_default() {
    let server = ApiServer::builder().tls(true).start().await.unwrap();
    assert!(server.url().starts_with("https://127.0.0.1:"), "{}", server.url());
    let token = server.token().unwrap().expose_secret();
    assert_eq!(server.cluster().tokens().user(token), Some(User::admin()));
    assert!(server.kubeconfig().contains(token));
    let fork = server.fork().await.unwrap();
    assert_eq!(fork.cluster().tokens().user(token), Some(User::admin()));
    assert!(!format!("{server:?}").contains(token));
}

#[tokio::test]
async fn debug_output_of_a_builder_hides_secrets() {
    let builder = ApiServer::builder().token("hunter2");
    assert!(!format!("{builder:?}").contains("hunter2"));
}

#[tokio::test]
async fn dropping_a_server_frees_the_port_and_the_cluster() {
    let server = ApiServer::start().await.unwrap();
    let address = address(&server);
    let cluster = std::sync::Arc::downgrade(server.cluster());
    drop(server);
    assert!(TcpListener::bind(address).await.is_ok());
    // The aborted tasks end as soon as the runtime polls them.
    while cluster.upgrade().is_some() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn stopping_a_server_frees_the_cluster() {
    let server = ApiServer::start().await.unwrap();
    let cluster = std::sync::Arc::downgrade(server.cluster());
    server.stop().await;
    assert!(cluster.upgrade().is_none());
}

#[tokio::test]
async fn readiness_names_every_controller() {
    // With a task for each, and all in one task.
    for builder in [ApiServer::builder(), ApiServer::builder().seed(1)] {
        let server = builder.in_process().start().await.unwrap();
        let loops = server.cluster().background().loops();
        for name in ["definition-controller", "resourcequota-controller", "event-expiry"] {
            assert!(
                loops.get(name).is_some_and(|it| it.panics == 0 && it.down.is_none()),
                "{name}: {loops:?}"
            );
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn a_server_has_the_network_the_key_and_the_issuers_that_it_is_given() {
    let pem = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let server = ApiServer::builder()
        .in_process()
        .service_network("10.7.0.0/24".parse().unwrap())
        .service_account_keys(ServiceAccountKeys::signing(pem.as_bytes()).unwrap())
        .service_account_issuer("https://first.example.com")
        .service_account_issuer("https://second.example.com")
        .yaml("{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}")
        .yaml("{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}}")
        .start()
        .await
        .unwrap();
    let cluster = server.cluster();
    let address = |name: &str| stored(cluster, "services", name).unwrap()["spec"]["clusterIP"].clone();
    assert_eq!((address("kubernetes"), address("web")), (json!("10.7.0.1"), json!("10.7.0.2")));
    let addresses = cluster.catalog().kind("networking.k8s.io", "v1", "ipaddresses").unwrap();
    let names: Vec<_> = cluster.list(&addresses, None).iter().map(|it| it.key().name().to_owned()).collect();
    assert_eq!(names, ["10.7.0.1", "10.7.0.2"]);
    let account = ObjectKey::namespaced("default", "robot");
    let kind = cluster.catalog().kind("", "v1", "serviceaccounts").unwrap();
    let place = ObjectRef::of(&kind, &account).part("token");
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "metadata": { "name": "robot" }, "spec": {} });
    let answer = cluster.create(&place, request, &Writer::server("test")).await.unwrap();
    let answer = answer.object.to_value(&kind);
    assert_eq!(
        answer["spec"]["audiences"],
        json!(["https://first.example.com", "https://second.example.com"])
    );
    let token = answer["status"]["token"].as_str().unwrap();
    let user = cluster.tokens().user(token).expect("the token is valid");
    assert_eq!(user.name, "system:serviceaccount:default:robot");
    let (issuer, keys) = (cluster.tokens().issuer().0.to_owned(), cluster.tokens().issuer().1);
    assert_eq!((issuer.as_str(), &keys["keys"][0]["alg"]), ("https://first.example.com", &json!("ES256")));
}
