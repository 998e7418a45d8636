//! Responses in protobuf mean the same as those in JSON.

use bytes::Buf;
use dogwatch_core::ObjectKey;
use http_body_util::BodyExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{FullResponse, JSON, MERGE, Server, WatchReader};
use crate::http::Settings;
use crate::protobuf;
use crate::store::{Draft, Expect};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const EITHER: &str = "application/vnd.kubernetes.protobuf,application/json";
const ONE: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const MANY: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const TABLE: &str = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/e.test/v1/namespaces/default/widgets";

/// Objects of many kinds, each with the path of its collection. Together they have every kind of
/// field: bytes, times, quantities, numbers or strings, raw JSON, schemas, and fields of another
/// stored version.
fn objects() -> Vec<(&'static str, Value)> {
    let labels = json!({ "matchLabels": { "a": "b" } });
    let template = json!({ "metadata": { "labels": { "a": "b" } },
        "spec": { "containers": [{ "name": "c", "image": "i", "ports": [{ "containerPort": 80 }],
            "livenessProbe": { "httpGet": { "port": "http" } },
            "resources": { "requests": { "cpu": "100m", "memory": "1Gi" } } }] } });
    vec![
        (
            MAPS,
            json!({ "metadata": { "name": "a", "labels": { "x": "1" } },
            "data": { "k": "ü\n\"", "empty": "" }, "binaryData": { "b": "/wA=" } }),
        ),
        (
            "/api/v1/namespaces/default/secrets",
            json!({ "metadata": { "name": "a" }, "data": { "k": "c2VjcmV0" }, "immutable": true }),
        ),
        (
            "/api/v1/namespaces/default/pods",
            json!({ "metadata": { "name": "a" }, "spec": {
            "containers": template["spec"]["containers"], "volumes": [{ "name": "v", "emptyDir": {} }] } }),
        ),
        (
            "/api/v1/namespaces/default/services",
            json!({ "metadata": { "name": "a" }, "spec": {
            "ports": [{ "name": "a", "port": 80, "targetPort": "http" }, { "name": "b", "port": 81, "targetPort": 8080 }] } }),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({ "metadata": { "name": "a" },
            "spec": { "selector": labels, "template": template, "strategy": { "rollingUpdate": { "maxSurge": "25%" } } } }),
        ),
        (
            "/apis/apps/v1/namespaces/default/controllerrevisions",
            json!({ "metadata": { "name": "a" },
            "revision": 3, "data": { "kind": "X", "apiVersion": "e.test/v1", "list": [1, null, 2.5] } }),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({ "metadata": { "name": "a" },
            "spec": { "renewTime": "2026-01-02T03:04:05.678901Z", "leaseDurationSeconds": 15 } }),
        ),
        (
            "/apis/events.k8s.io/v1/namespaces/default/events",
            json!({ "metadata": { "name": "a" },
            "eventTime": "2026-01-02T03:04:05.000001Z", "reportingController": "e.test/c", "reportingInstance": "c-0",
            "action": "Test", "reason": "Tested", "type": "Normal", "note": "well",
            "regarding": { "kind": "Pod", "namespace": "default", "name": "a" } }),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            json!({ "metadata": { "name": "a" },
            "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] }),
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            json!({ "metadata": { "name": "a" },
            "addressType": "IPv4", "endpoints": [{ "addresses": ["10.0.0.1"], "conditions": { "ready": true } }],
            "ports": [{ "name": "http", "port": 80 }] }),
        ),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition("gadgets")),
    ]
}

fn definition(plural: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "additionalProperties": true },
        "a": { "type": "array", "items": { "type": "string", "enum": ["x"], "default": "x" } },
        "b": { "type": "object", "additionalProperties": { "type": "number", "minimum": -1.5 } } } });
    json!({ "metadata": { "name": format!("{plural}.e.test") }, "spec": { "group": "e.test", "scope": "Namespaced",
        "names": { "plural": plural, "singular": &plural[..plural.len() - 1], "kind": plural, "listKind": format!("{plural}List") },
        "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }] } })
}

impl FullResponse {
    /// Returns the object in a response, which must be in protobuf.
    fn protobuf(&self) -> Value {
        assert_eq!(self.header("content-type"), PROTOBUF, "{self:?}");
        protobuf::decode(&self.bytes).unwrap_or_else(|error| panic!("{error}: {self:?}")).value
    }
}

impl Server {
    /// Defines the custom kind of [`WIDGETS`], with one object.
    async fn widgets(&self) {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(self.post(definitions, definition("widgets")).await.code, 201);
        let widget = json!({ "apiVersion": "e.test/v1", "kind": "widgets", "metadata": { "name": "a" } });
        let created = self.post(WIDGETS, widget).await;
        assert_eq!(created.code, 201, "{created:?}");
    }
}

impl WatchReader {
    /// Returns the next event of a watch in protobuf, or `None` when it has ended.
    async fn next_protobuf(&mut self) -> Option<Value> {
        loop {
            let length = self.rest.first_chunk().map(|it| u32::from_be_bytes(*it) as usize + 4);
            if let Some(length) = length.filter(|it| self.rest.len() >= *it) {
                let frame: Vec<u8> = self.rest.drain(..length).collect();
                let event_type = std::str::from_utf8(&frame[6..6 + usize::from(frame[5])]).unwrap();
                let object_at = frame.windows(4).position(|it| it == b"k8s\0").expect("an envelope");
                let object = &frame[object_at..];
                assert_eq!(frame[..object_at], protobuf::watch_head(event_type, object.len()));
                let object = protobuf::decode(object).expect("an object").value;
                return Some(json!({ "type": event_type, "object": object }));
            }
            let data = self.body.frame().await?.ok()?.into_data().expect("no trailers");
            self.rest.extend_from_slice(&data.concat());
        }
    }
}

/// Returns a value without what protobuf cannot say: nulls, empty lists, and the kinds of the items
/// of a list.
fn meaning(mut value: Value) -> Value {
    if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.remove("kind");
            item.remove("apiVersion");
        }
    }
    without_empty(value)
}

fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, it)| (name, without_empty(it)));
            fields.filter(|(_, it)| !it.is_null() && *it != json!([])).collect()
        }
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        other => other,
    }
}

#[tokio::test]
async fn objects_and_lists_of_every_kind_of_field_mean_the_same_in_both_encodings() {
    let server = Server::start().await;
    for (path, object) in objects() {
        let created = server.send("POST", path, &[JSON, ("accept", PROTOBUF)], &object.to_string()).await;
        assert_eq!(created.code, 201, "{created:?}");
        let one = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
        let json = server.get(&one).await.json();
        let (mut created, mut json) = (created.protobuf(), meaning(json));
        if json["kind"] == "CustomResourceDefinition" {
            // The server establishes it after the response.
            for it in [&mut created, &mut json] {
                it.as_object_mut().unwrap().retain(|name, _| name == "spec");
            }
        }
        assert_eq!(created, json, "{path}");
        for path in [&one, path, &format!("{path}?limit=1"), &format!("{path}?labelSelector=none")] {
            let response = server.get_as(path, PROTOBUF).await;
            assert_eq!(response.protobuf(), meaning(server.get(path).await.json()), "{path}");
            assert_eq!(response.header("cache-control"), "no-cache, private");
        }
        for (path, accept) in [(&one[..], ONE), (path, MANY)] {
            let json = server.get_as(path, &accept.replace(PROTOBUF, "application/json")).await.json();
            assert_eq!(server.get_as(path, accept).await.protobuf(), meaning(json), "{path}");
        }
    }
}

/// Regression test: one such object made every list of its kind fail.
#[tokio::test]
async fn every_time_that_is_accepted_can_be_encoded() {
    let server = Server::start().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    for (name, time) in [
        ("last", "9999-12-31T23:59:59.000000Z"),
        ("first", "0000-01-01T00:00:00.000000Z"),
        ("offset", "2026-01-02T03:04:05.000000+24:60"),
    ] {
        let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": name }, "spec": { "renewTime": time } });
        let made = server.send("POST", leases, &[JSON], &lease.to_string()).await;
        assert_eq!(made.code, 201, "{made:?}");
    }
    let listed = server.send("GET", "/apis/coordination.k8s.io/v1/leases", &[("accept", PROTOBUF)], "").await;
    assert_eq!(listed.code, 200, "{listed:?}");
}

#[tokio::test]
async fn every_built_in_kind_and_its_list_have_protobuf() {
    for def in crate::builtin::resources() {
        let kind = |kind: &str| protobuf::has_protobuf(&def.api_version(), kind);
        assert!(kind(&def.kind) && (!def.has_verb("list") || kind(&def.list_kind())), "{def:?}");
    }
}

#[tokio::test]
async fn errors_are_a_status_in_protobuf() {
    let server = Server::start().await;
    server.config_map("a", json!({})).await;
    server.widgets().await;
    let bad = json!({ "metadata": { "name": "B" } }).to_string();
    for (method, path, body, code) in [
        ("GET", &format!("{MAPS}/nope")[..], "", 404),
        ("GET", "/api/v1/nopes", "", 404),
        ("GET", &format!("{MAPS}?resourceVersion=x"), "", 400),
        ("POST", MAPS, &bad, 422),
        ("POST", MAPS, "{", 400),
        ("POST", MAPS, r#"{"metadata":{"name":"a"}}"#, 409),
        ("PUT", MAPS, "{}", 405),
        ("GET", "/version", "", 406),
        ("GET", &format!("{MAPS}?resourceVersion=99999999999999999"), "", 504),
        // The error of a custom kind is a built-in one.
        ("GET", &format!("{WIDGETS}/nope"), "", 404),
    ] {
        let of = async |accept| server.send(method, path, &[JSON, ("accept", accept)], body).await;
        let accept = if code == 406 { PROTOBUF } else { EITHER };
        let (response, json) =
            (of(accept).await, of(if code == 406 { "text/html" } else { "application/json" }).await);
        assert_eq!((response.code.as_u16(), json.code), (code, response.code), "{path}");
        assert_eq!(response.protobuf(), meaning(json.json()), "{method} {path}");
        assert_eq!(response.header("retry-after"), json.header("retry-after"));
    }
}

#[tokio::test]
async fn representations_that_do_not_exist_are_not_acceptable() {
    let server = Server::start().await;
    server.config_map("a", json!({})).await;
    server.widgets().await;
    let only = "only the following media types are accepted: application/json, application/yaml, \
                application/vnd.kubernetes.protobuf";
    let (map, widget) = (format!("{MAPS}/a"), format!("{WIDGETS}/a"));
    let is_list =
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)";
    // The error is in protobuf only if the client accepts that without a transformation.
    for (path, accept, in_protobuf, message) in [
        (&map[..], TABLE, false, only),
        (MAPS, TABLE, false, only),
        (MAPS, ONE, false, is_list),
        (WIDGETS, PROTOBUF, true, only),
        (&widget, PROTOBUF, true, only),
        (&format!("{WIDGETS}/nope"), PROTOBUF, true, only),
        (&format!("{WIDGETS}?watch=1"), PROTOBUF, true, only),
        (&widget, TABLE, false, only),
        ("/apis/apps", ONE, false, only),
        (&format!("{MAPS}?watch=1"), TABLE, false, only),
    ] {
        let response = server.get_as(path, accept).await;
        let status = if in_protobuf { response.protobuf() } else { response.json() };
        assert_eq!((&status["code"], &status["message"]), (&json!(406), &json!(message)), "{path} {accept}");
    }
    for (path, accept, content_type) in [
        (&widget[..], EITHER, "application/json"),
        (&widget, "application/vnd.kubernetes.protobuf,*/*", "application/json"),
        (&widget, "application/vnd.kubernetes.protobuf;q=0.9,application/yaml;q=0.5", "application/yaml"),
        (&widget, ONE, PROTOBUF),
        (WIDGETS, MANY, PROTOBUF),
        (&map, &format!("{TABLE},application/json"), "application/json"),
        (&map, "text/html,application/vnd.kubernetes.protobuf;q=0.3,application/json;q=0.2", PROTOBUF),
        (&map, "application/vnd.kubernetes.protobuf;stream=watch", PROTOBUF),
        (&map, "application/json,application/vnd.kubernetes.protobuf", "application/json"),
    ] {
        let response = server.get_as(path, accept).await;
        assert_eq!(
            (response.code.as_u16(), response.header("content-type")),
            (200, content_type),
            "{accept}"
        );
    }
}

#[tokio::test]
async fn writes_and_subresources_are_answered_in_protobuf() {
    let server = Server::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    for (path, object) in objects() {
        server.post(path, object).await;
    }
    let merge = [MERGE, ("accept", PROTOBUF)];
    let json = [JSON, ("accept", PROTOBUF)];
    let patched =
        server.send("PATCH", &format!("{MAPS}/a"), &merge, r#"{"data":{"k":"w"}}"#).await.protobuf();
    assert_eq!((&patched["kind"], &patched["data"]["k"]), (&json!("ConfigMap"), &json!("w")));
    let object = r#"{"metadata":{"name":"a"},"data":{"k":"x"}}"#;
    let put = server.send("PUT", &format!("{MAPS}/a"), &json, object).await;
    assert_eq!(put.protobuf()["data"], json!({ "k": "x" }));
    let scale = server.get_as(&format!("{deployments}/a/scale"), PROTOBUF).await.protobuf();
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(1)));
    let scaled =
        server.send("PATCH", &format!("{deployments}/a/scale"), &merge, r#"{"spec":{"replicas":3}}"#).await;
    assert_eq!(scaled.protobuf()["spec"]["replicas"], json!(3));
    let status = server.get_as(&format!("{deployments}/a/status"), PROTOBUF).await.protobuf();
    assert_eq!(status["spec"]["replicas"], json!(3));
    server.post("/api/v1/namespaces/default/serviceaccounts", json!({ "metadata": { "name": "s" } })).await;
    for (path, body, kind) in [
        ("/api/v1/namespaces/default/serviceaccounts/s/token", r#"{"spec":{}}"#, "TokenRequest"),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            r#"{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}"#,
            "SelfSubjectAccessReview",
        ),
        ("/apis/authentication.k8s.io/v1/tokenreviews", r#"{"spec":{"token":"x"}}"#, "TokenReview"),
        ("/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}", "SelfSubjectReview"),
        (
            "/api/v1/namespaces/default/pods/a/binding",
            r#"{"metadata":{"name":"a"},"target":{"name":"n"}}"#,
            "Status",
        ),
        ("/api/v1/namespaces/default/pods/a/eviction", r#"{"metadata":{"name":"a"}}"#, "Status"),
    ] {
        let response = server.send("POST", path, &json, body).await;
        assert_eq!(
            (response.code.as_u16(), &response.protobuf()["kind"]),
            (201, &json!(kind)),
            "{response:?}"
        );
    }
    let deleted = server.send("DELETE", &format!("{MAPS}/a"), &json, "").await.protobuf();
    assert_eq!((&deleted["kind"], &deleted["status"]), (&json!("Status"), &json!("Success")));
    let all = server.send("DELETE", deployments, &json, "").await.protobuf();
    assert_eq!((&all["kind"], all["items"].as_array().map(Vec::len)), (&json!("DeploymentList"), Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_watch_means_the_same_in_both_encodings() {
    let server = Server::start().await;
    server.widgets().await;
    for (path, accept) in [
        (MAPS, PROTOBUF),
        (MAPS, "application/vnd.kubernetes.protobuf;stream=watch"),
        (MAPS, EITHER),
        (MAPS, ONE),
        ("/apis/events.k8s.io/v1/namespaces/default/events", PROTOBUF),
        ("/api/v1/namespaces/default/pods", PROTOBUF),
        (WIDGETS, ONE),
    ] {
        let object = match objects().into_iter().find(|it| it.0 == path) {
            Some((_, object)) => object,
            None => json!({ "apiVersion": "e.test/v1", "kind": "widgets", "metadata": { "name": "b" } }),
        };
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let query =
            "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let first =
            server.post(path, json!({ "apiVersion": object["apiVersion"], "kind": object["kind"] })).await;
        assert_ne!(first.code, 201, "it has no name");
        let of_json = accept.replace(EITHER, "application/json").replace(PROTOBUF, "application/json");
        let watched = format!("{path}?{query}&timeoutSeconds=30");
        let mut json = server.watch_as(&watched, &of_json).await;
        let mut events = server.watch_as(&watched, accept).await;
        let content_type = "application/vnd.kubernetes.protobuf;stream=watch";
        assert_eq!(
            (events.code.as_u16(), &events.headers["content-type"]),
            (200, &content_type.parse().unwrap())
        );
        assert_eq!(server.post(path, object).await.code, 201);
        let patch = json!({ "metadata": { "labels": { "changed": "yes" } } });
        assert_eq!(server.merge(&format!("{path}/{name}"), patch).await.code, 200);
        server.send("DELETE", &format!("{path}/{name}?gracePeriodSeconds=0"), &[], "").await;
        let mut types = Vec::new();
        while let Some(event) = events.next_protobuf().await {
            types.push(event["type"].as_str().unwrap().to_owned());
            let expected = json.next().await.expect("as many events as in protobuf");
            assert_eq!(event, without_empty(expected), "{path} {accept}");
        }
        assert_eq!(json.next().await, None);
        types.dedup();
        let expected = ["ADDED", "BOOKMARK", "ADDED", "MODIFIED", "DELETED", "BOOKMARK"];
        let expected = if path == WIDGETS { &expected[..] } else { &expected[1..] };
        assert_eq!(types, expected, "{path} {accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_that_ends_a_watch_is_an_event_in_protobuf() {
    let server = Server::with(Settings::default()).await;
    let a = server.config_map("a", json!({})).await;
    server.config_map("b", json!({})).await;
    server.service.cluster().store().compact(u64::MAX);
    for accept in [PROTOBUF, ONE] {
        let path = format!("{MAPS}?watch=1&resourceVersion={a}");
        let error = server.watch_as(&path, accept).await.next_protobuf().await.expect("an error");
        let json = server.watch(&path).await.next().await.expect("an error");
        assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
        assert_eq!(error, without_empty(json));
    }
}

/// Regression test: the watch went on, and a client missed a change without notice.
#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_encoded_ends_a_watch() {
    let server = Server::start().await;
    let query = "watch=1&allowWatchBookmarks=true&timeoutSeconds=30";
    let later = server.watch_as(&format!("{MAPS}?{query}&resourceVersion=1"), PROTOBUF).await;
    let odd = json!({ "kind": "ConfigMap", "apiVersion": "v1", "data": { "k": 5 },
        "metadata": { "name": "odd", "namespace": "default" } });
    let draft = Draft::new(&odd, vec![]).unwrap();
    let key = ObjectKey::namespaced("default", "odd");
    let store = server.service.cluster().store();
    store.commit(&"/configmaps".into(), &key, Expect::Absent, Some(draft)).unwrap();
    server.config_map("z", json!({})).await;
    let first = server.watch_as(&format!("{MAPS}?{query}"), PROTOBUF).await;
    for mut watch in [first, later] {
        let mut types = Vec::new();
        while let Some(event) = watch.next_protobuf().await {
            types.push(event["type"].as_str().unwrap().to_owned());
        }
        assert_eq!(types, ["ERROR"]);
    }
}

/// Regression test: one such definition failed every list of definitions.
#[tokio::test]
async fn a_definition_that_cannot_be_encoded_is_rejected() {
    let server = Server::start().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let wrong = json!({ "type": "string", "maxLength": "63" });
    // As in kube-apiserver, anything else than a schema or a list is the same as no items.
    let ignored = "openAPIV3Schema.properties[a].items: Required value: must be specified";
    for (code, why, property) in [
        (400, "of type int64", json!({ "type": "array", "items": wrong })),
        (400, "of type int64", json!({ "type": "object", "additionalProperties": wrong })),
        (400, "of type int64", json!({ "items": { "type": "object", "additionalProperties": wrong } })),
        (400, "boolean or JSON schema expected", json!({ "type": "object", "additionalProperties": 5 })),
        (422, ignored, json!({ "type": "array", "items": 5 })),
        (422, ignored, json!({ "type": "array", "items": [] })),
    ] {
        let schema = json!({ "type": "object", "properties": { "a": property } });
        let definition = json!({ "metadata": { "name": "odds.e.test" },
            "spec": { "group": "e.test", "scope": "Namespaced", "names": { "plural": "odds", "kind": "Odd" },
                "versions": [{ "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": schema } }] } });
        let refused = server.post(path, definition).await;
        let message = refused.json()["message"].as_str().unwrap().to_owned();
        assert!(refused.code == code && message.contains(why), "{why} {message}");
    }
    assert_eq!(server.get_as(path, PROTOBUF).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_encoded_once_for_all_watches_reads_and_lists() {
    let server = Server::start().await;
    let path = format!("{MAPS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan");
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(server.watch_as(&path, PROTOBUF).await);
    }
    server.config_map("a", json!({})).await;
    let mut seen = Vec::new();
    for watch in &mut watches {
        let data = watch.body.frame().await.unwrap().unwrap().into_data().unwrap();
        // The frame has the object at its end, and so at the same distance from its start.
        seen.push((data.chunk().as_ptr(), data.chunk().len()));
    }
    assert!(seen.windows(2).all(|it| it[0] == it[1]), "the bytes are shared");
    let (frame, length) = seen[0];
    let inside = |it: *const u8| (frame as usize..frame as usize + length).contains(&(it as usize));
    let read = server.raw("GET", &format!("{MAPS}/a"), &[("accept", PROTOBUF)], "").await.unwrap();
    let read = read.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(inside(read.chunk().as_ptr()), "a read is a slice of the frame");
    let list = server.raw("GET", MAPS, &[("accept", PROTOBUF)], "").await.unwrap();
    let list = list.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(list.into_iter().any(|it| inside(it.as_ptr())), "and so is the entry of a list");
}

#[tokio::test]
async fn discovery_means_the_same_in_both_encodings() {
    let server = Server::start().await;
    server.widgets().await;
    for path in ["/api", "/apis", "/apis/apps", "/api/v1", "/apis/apps/v1", "/apis/e.test", "/apis/e.test/v1"]
    {
        let response = server.get_as(path, PROTOBUF).await;
        let mut json = server.get(path).await.json();
        // JSON omits the empty version of the documents of the core group.
        json["apiVersion"] = json.get("apiVersion").cloned().unwrap_or_else(|| "".into());
        assert_eq!(response.protobuf(), meaning(json), "{path}");
    }
    let parameters = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for path in ["/api", "/apis"] {
        let response = server.get_as(path, &format!("{PROTOBUF}{parameters}")).await;
        assert_eq!(response.header("content-type"), format!("{PROTOBUF}{parameters}"));
        let json = server.get_as(path, &format!("application/json{parameters}")).await;
        assert_eq!((response.header("etag"), response.header("vary")), (json.header("etag"), "Accept"));
        assert_eq!(response.header("cache-control"), "public");
        assert_eq!(protobuf::decode(&response.bytes).unwrap().value, meaning(json.json()), "{path}");
        let known =
            [("accept", &format!("{PROTOBUF}{parameters}")[..]), ("if-none-match", json.header("etag"))];
        assert_eq!(server.send("GET", path, &known, "").await.code, 304);
    }
}

/// Returns objects of all kinds, in which every field is set.
fn golden() -> Vec<Value> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/golden");
    let files = std::fs::read_dir(folder).expect("the golden objects exist").map(|it| it.unwrap().path());
    let mut files: Vec<_> = files.filter(|it| it.extension().is_some_and(|it| it == "json")).collect();
    files.sort();
    let read = |path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let all = files.into_iter().map(read);
    all.filter(|it: &Value| it["metadata"]["name"].is_string()).collect()
}

/// Removes about one of `of` fields, but not all fields of an object: protobuf has no empty maps.
fn thin_out(value: &mut Value, of: u64, random: &mut u64) {
    match value {
        Value::Object(fields) => {
            let mut left = fields.len();
            fields.retain(|name, it| {
                *random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                thin_out(it, of, random);
                let is_needed = left == 1 || matches!(&name[..], "kind" | "apiVersion" | "metadata" | "name");
                let is_kept = is_needed || !(*random >> 33).is_multiple_of(of);
                left -= usize::from(!is_kept);
                is_kept
            });
        }
        Value::Array(items) => items.iter_mut().for_each(|it| thin_out(it, of, random)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// For objects of all kinds with some of their fields.
    #[test]
    fn a_stored_object_is_equal_in_both_encodings(which in any::<prop::sample::Index>(), of in 2..9u64, mut random: u64) {
        thread_local!(static GOLDEN: Vec<Value> = golden());
        let mut object = GOLDEN.with(|it| which.get(it).clone());
        thin_out(&mut object, of, &mut random);
        let stored = Draft::new(&object, Vec::new()).unwrap().at(42);
        let encoded = stored.protobuf().unwrap();
        let decoded = protobuf::decode(&encoded.object()).unwrap().value;
        prop_assert_eq!(without_empty(decoded), without_empty(stored.to_value()));
    }
}
