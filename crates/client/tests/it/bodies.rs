//! Request bodies in protobuf: who sends them, and what happens on a server that does not decode
//! them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use dogwatch_apiserver::ApiServer;
use dogwatch_client::api::Patch;
use dogwatch_client::{Api, Client, Encoding, RequestBody};
use dogwatch_core::{Gvk, ListParams, PatchParams, ResourceType, WatchParams, WriteParams};
use dogwatch_wire::WatchEvent;
use futures_util::TryStreamExt;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::DynamicObject;
use serde_json::json as value;
use tower::util::MapRequest;

use crate::scripted::{Script, json, refusal};

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MAP: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"a"}}"#;

fn params() -> WriteParams {
    WriteParams::default()
}

fn map(name: &str, data: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some(BTreeMap::from([("key".to_owned(), data.to_owned())]));
    map
}

fn maps(script: &Script) -> Api<ConfigMap> {
    Api::namespaced(script.client(), "a").with_body_encoding(Encoding::Protobuf)
}

/// Returns the content types of all requests so far.
fn content_types(script: &Script) -> Vec<String> {
    let text = |it: &crate::scripted::Seen| it.headers[CONTENT_TYPE].to_str().expect("text").to_owned();
    script.seen().iter().map(text).collect()
}

/// Our own API server, a client of it, and the content types of the bodies that it got.
struct Served {
    _server: ApiServer,
    client: Client,
    sent: Arc<Mutex<Vec<String>>>,
}

impl Served {
    async fn start() -> Self {
        let server = ApiServer::builder().in_process().seed(1).start().await.expect("the server starts");
        let sent = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&sent);
        let service = MapRequest::new(server.service(), move |request: Request<RequestBody>| {
            if *request.method() != Method::GET {
                let media = request.headers()[CONTENT_TYPE].to_str().expect("text").to_owned();
                record.lock().expect("not poisoned").push(media);
            }
            request
        });
        let client = Client::from_service(server.url().parse().expect("a URL"), "default", service);
        Self { _server: server, client, sent }
    }

    fn sent(&self) -> Vec<String> {
        std::mem::take(&mut *self.sent.lock().expect("not poisoned"))
    }
}

#[tokio::test]
async fn an_object_is_created_and_replaced_in_protobuf() {
    let served = Served::start().await;
    let maps = Api::<ConfigMap>::default_namespaced(served.client.clone());
    let maps = maps.with_body_encoding(Encoding::Protobuf);
    let mut created = maps.create(&params(), &map("x", "1")).await.expect("created");
    assert_eq!(created.data.as_ref().expect("data")["key"], "1");
    let stale = created.clone();
    created.data = map("x", "2").data;
    maps.replace("x", &params(), &created).await.expect("replaced");
    let error = maps.replace("x", &params(), &stale).await.expect_err("it changed since");
    assert!(error.status().is_some_and(|it| it.is_conflict()), "{error}");
    let error = maps.create(&params(), &map("x", "3")).await.expect_err("it exists");
    assert!(error.status().is_some_and(|it| it.is_already_exists()), "{error}");
    assert_eq!(served.sent(), [PROTOBUF; 4]);
    assert_eq!(maps.get("x").await.expect("it exists").data, map("x", "2").data);
}

#[tokio::test]
async fn an_object_in_protobuf_is_stored_like_the_same_object_in_json() {
    let served = Served::start().await;
    let in_json = Api::<Deployment>::default_namespaced(served.client.clone());
    let in_protobuf = in_json.clone().with_body_encoding(Encoding::Protobuf);
    let deployment = |name: &str| -> Deployment {
        serde_json::from_value(value!({
            "metadata": { "name": name, "labels": { "app": "web" }, "annotations": { "note": "é" } },
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": { "app": "web" } },
                "strategy": { "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": 0 } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": [{
                        "name": "web", "image": "web:1",
                        "resources": { "limits": { "cpu": "500m", "memory": "1Gi" } },
                        "ports": [{ "containerPort": 80 }],
                        "livenessProbe": { "httpGet": { "path": "/", "port": "http" } },
                    }] },
                },
            },
        }))
        .expect("a deployment")
    };
    let one = in_json.create(&params(), &deployment("x")).await.expect("created");
    let other = in_protobuf.create(&params(), &deployment("y")).await.expect("created");
    assert_eq!(one.spec, other.spec);
    assert_eq!(one.metadata.annotations, other.metadata.annotations);
    assert_eq!(served.sent(), [JSON, PROTOBUF]);
}

#[tokio::test]
async fn managed_fields_are_requested_from_a_server_that_ignores_the_parameter() {
    let served = Served::start().await;
    let maps = Api::<ConfigMap>::default_namespaced(served.client.clone());
    maps.create(&params(), &map("x", "1")).await.expect("created");
    for maps in [maps.clone(), maps.with_encoding(Encoding::Json)] {
        let list = maps.list(&ListParams::default()).await.expect("a list");
        assert!(list.bad.is_empty() && list.items.iter().any(|it| it.data == map("x", "1").data));
        assert!(list.items.iter().all(|it| it.metadata.managed_fields.is_none()));
        let mut watch = maps.watch(&WatchParams::initial_events()).await.expect("a watch");
        let first = watch.try_next().await.expect("no error");
        assert!(matches!(first, Some(WatchEvent::Added(_))), "{first:?}");
        let kept = maps.clone().with_managed_fields().get("x").await.expect("it exists");
        assert!(kept.metadata.managed_fields.is_some());
    }
}

#[tokio::test]
async fn bodies_are_json_unless_the_handle_says_otherwise() {
    let script = Script::new((0..5).map(|_| json(200, MAP)));
    let plain = Api::<ConfigMap>::namespaced(script.client(), "a");
    assert_eq!((plain.encoding(), plain.body_encoding()), (Encoding::Protobuf, Encoding::Json));
    plain.create(&params(), &map("x", "1")).await.expect("created");
    plain.with_encoding(Encoding::Protobuf).create(&params(), &map("x", "1")).await.expect("created");
    // Another type may have fields that protobuf does not have.
    let read = maps(&script).reading::<DynamicObject>();
    assert_eq!(read.body_encoding(), Encoding::Json);
    let dynamic: DynamicObject = serde_json::from_str(MAP).expect("an object");
    read.create(&params(), &dynamic).await.expect("created");
    maps(&script)
        .replace_subresource::<ConfigMap>("x", "status", &params(), &map("x", "1"))
        .await
        .expect("replaced");
    let change = value!({ "data": {} });
    maps(&script).patch("x", &PatchParams::default(), Patch::Merge(&change)).await.expect("patched");
    assert_eq!(content_types(&script), [JSON, JSON, JSON, JSON, "application/merge-patch+json"]);
    // A custom resource has no protobuf, whatever the type of its objects.
    let widgets = ResourceType::namespaced(Gvk::new("example.com", "v1", "Widget"), "widgets");
    let custom = Api::<ConfigMap>::dynamic(script.client(), widgets).with_body_encoding(Encoding::Protobuf);
    assert_eq!(custom.body_encoding(), Encoding::Json);
}

#[tokio::test]
async fn a_server_that_answers_415_gets_json_once_and_from_then_on() {
    let refused = || refusal(415, "UnsupportedMediaType");
    let script =
        Script::new([refused(), json(201, MAP), json(201, MAP), json(200, MAP), refused(), json(200, MAP)]);
    let handle = maps(&script);
    let clone = handle.clone().in_namespace("b");
    handle.create(&params(), &map("x", "1")).await.expect("created");
    clone.create(&params(), &map("x", "1")).await.expect("created");
    handle.replace("x", &params(), &map("x", "1")).await.expect("replaced");
    assert_eq!(content_types(&script), [PROTOBUF, JSON, JSON, JSON]);
    let seen = script.seen();
    assert!(seen[0].body.starts_with("k8s\0"), "{:?}", seen[0].body);
    assert_eq!(seen[1].body, serde_json::to_string(&map("x", "1")).expect("JSON"));
    assert_eq!((&seen[0].method, &seen[0].target), (&seen[1].method, &seen[1].target));
    // The preference is the same; what was found out is not part of it, and another handle asks
    // again.
    assert_eq!(handle.body_encoding(), Encoding::Protobuf);
    maps(&script).replace("x", &params(), &map("x", "1")).await.expect("replaced");
    assert_eq!(content_types(&script)[4..], [PROTOBUF, JSON]);
}

#[tokio::test]
async fn a_415_without_a_status_counts_and_one_for_json_is_the_error() {
    let plain = || json(415, "no");
    let script = Script::new([plain(), plain(), plain()]);
    let handle = maps(&script);
    for requests in [2, 3] {
        let error = handle.create(&params(), &map("x", "1")).await.expect_err("refused");
        assert!(error.status().is_some_and(|it| it.code == 415), "{error}");
        assert_eq!(script.seen().len(), requests);
    }
}

#[tokio::test]
async fn other_errors_do_not_change_the_encoding() {
    let script = Script::new([refusal(422, "Invalid"), refusal(400, "BadRequest"), json(201, MAP)]);
    let handle = maps(&script);
    for _ in 0..2 {
        handle.create(&params(), &map("x", "1")).await.expect_err("refused");
    }
    handle.create(&params(), &map("x", "1")).await.expect("created");
    assert_eq!(content_types(&script), [PROTOBUF; 3]);
}

/// A type of a program for a built-in kind, with a value that does not fit.
#[derive(Debug, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Odd {
    api_version: String,
    kind: String,
    #[serde(default)]
    data: u32,
}

impl k8s_openapi::Resource for Odd {
    const API_VERSION: &'static str = "v1";
    const GROUP: &'static str = "";
    const KIND: &'static str = "ConfigMap";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "configmaps";
    type Scope = NamespaceResourceScope;
}

#[tokio::test]
async fn an_object_that_does_not_fit_into_protobuf_is_sent_as_json() {
    let script = Script::new([json(201, MAP)]);
    let resource = maps(&script).resource().clone();
    let odd = Api::<Odd>::dynamic(script.client(), resource).in_namespace("a");
    let odd = odd.with_body_encoding(Encoding::Protobuf);
    let object = Odd { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned(), data: 5 };
    odd.create(&params(), &object).await.expect("created");
    assert_eq!(content_types(&script), [JSON]);
}
