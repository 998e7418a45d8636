//! Writes: accepted bodies, errors and responses.

use serde_json::{Value, json};

use super::{JSON, METADATA, Server, TABLE};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn a_creation_is_201_and_warns_about_dropped_fields() {
    let server = Server::start().await;
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "foo": 1 });
    let warned = server.post(MAPS, object.clone()).await;
    assert_eq!((warned.code.as_u16(), warned.header("warning")), (201, r#"299 - "unknown field \"foo\"""#));
    let strict = server.post(&format!("{MAPS}?fieldValidation=Strict"), object.clone()).await;
    let why = r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "foo""#;
    assert_eq!(strict.error(), (400, why.to_owned()));
    let again = server.post(&format!("{MAPS}?fieldValidation=Ignore"), object).await;
    assert_eq!((again.error().0, again.header("warning")), (409, ""));
}

#[tokio::test]
async fn the_field_manager_comes_from_the_query_or_the_user_agent() {
    let server = Server::start().await;
    let body = json!({ "metadata": { "name": "a" }, "data": { "k": "v" } }).to_string();
    let agent = ("user-agent", "kubectl/v1.36.4 (linux/amd64)");
    let created = server.send("POST", MAPS, &[JSON, agent], &body).await.json();
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "kubectl");
    let patched =
        server.merge(&format!("{MAPS}/a?fieldManager=me"), json!({ "data": { "n": "1" } })).await.json();
    let managers = patched["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().any(|it| it["manager"] == "me"), "{managers:?}");
}

#[tokio::test]
async fn a_dry_run_stores_nothing_and_other_values_are_rejected() {
    let server = Server::start().await;
    let object = json!({ "metadata": { "name": "a" } });
    let dry = server.post(&format!("{MAPS}?dryRun=All"), object.clone()).await;
    assert_eq!((dry.code.as_u16(), dry.json()["metadata"].get("resourceVersion")), (201, None));
    assert_eq!(server.get(&format!("{MAPS}/a")).await.code, 404);
    let why = r#"CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All""#;
    assert_eq!(server.post(&format!("{MAPS}?dryRun=Some"), object).await.error(), (422, why.to_owned()));
}

#[tokio::test]
async fn a_dry_run_may_create_an_object_with_a_version() {
    let server = Server::start().await;
    let object = json!({ "metadata": { "name": "a", "resourceVersion": "77" } });
    let dry = server.post(&format!("{MAPS}?dryRun=All"), object.clone()).await;
    assert_eq!((dry.code.as_u16(), &dry.json()["metadata"]["resourceVersion"]), (201, &json!("77")));
    let why = "resourceVersion should not be set on objects to be created";
    assert_eq!(server.post(MAPS, object).await.error(), (500, why.to_owned()));
}

/// The limit is `MaxRequestBodyBytes` in k8s.io/apiserver v0.36.4 pkg/server/config.go.
#[tokio::test]
async fn a_body_is_json_or_yaml_of_limited_size() {
    let server = Server::start().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yaml\ndata:\n  key: \"1\"\n";
    let created = server.send("POST", MAPS, &[("content-type", "application/yaml")], yaml).await;
    assert_eq!((created.code.as_u16(), &created.json()["data"]), (201, &json!({ "key": "1" })));
    let text = server.send("POST", MAPS, &[("content-type", "text/plain")], "hello").await;
    assert!(text.error().0 == 415 && text.json().get("details").is_none(), "{text:?}");
    let long = json!({ "metadata": { "name": "a" }, "data": { "k": "x".repeat(3 * 1024 * 1024) } });
    let rejected = server.post(MAPS, long).await;
    assert_eq!(rejected.error(), (413, "Request entity too large: limit is 3145728".to_owned()));
}

const WIDGETS: &str = "/apis/example.com/v1/widgets";

/// Defines a custom kind whose objects may have any fields.
async fn define_widgets(server: &Server) {
    let schema =
        json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let definition = json!({ "metadata": { "name": "widgets.example.com" },
        "spec": { "group": "example.com", "scope": "Cluster", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }] } });
    let made = server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    assert_eq!(made.code, 201, "{made:?}");
}

fn large_widget(bytes: usize) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" },
        "spec": { "a": "x".repeat(bytes) } })
}

/// Regression test: each JSON patch of 100 bytes may copy 3 MiB, and nothing limited the sum.
#[tokio::test]
async fn an_object_cannot_grow_beyond_its_size_limit() {
    let server = Server::start().await;
    define_widgets(&server).await;
    assert_eq!(server.post(WIDGETS, large_widget(1_000_000)).await.code, 201);
    let path = format!("{WIDGETS}/w");
    let copy = async |to: &str, query: &str| {
        let patch = json!([{ "op": "copy", "from": "/spec/a", "path": format!("/spec/{to}") }]).to_string();
        let kind = ("content-type", "application/json-patch+json");
        server.send("PATCH", &format!("{path}{query}"), &[kind], &patch).await
    };
    assert_eq!(copy("b", "").await.code, 200);
    assert_eq!(copy("c", "").await.code, 200);
    for query in ["", "?dryRun=All"] {
        let (code, why) = copy("d", query).await.error();
        assert!(code == 413 && why.ends_with("the limit is 3145728"), "{code} {why}");
    }
    let applied =
        json!({ "apiVersion": "example.com/v1", "kind": "Widget", "spec": { "d": "x".repeat(1_000_000) } });
    let apply = ("content-type", "application/apply-patch+yaml");
    let applied =
        server.send("PATCH", &format!("{path}?fieldManager=m"), &[apply], &applied.to_string()).await;
    assert_eq!(applied.code, 413);
    let stored = server.get(&path).await.json();
    assert_eq!(stored["spec"].as_object().unwrap().keys().collect::<Vec<_>>(), ["a", "b", "c"]);
}

/// A small map takes a hundred times as much memory as its text.
#[tokio::test]
async fn an_object_that_takes_too_much_memory_is_rejected() {
    let server = Server::start().await;
    define_widgets(&server).await;
    let maps = |count: usize| Value::from(vec![json!({ "": 0 }); count]);
    let widget = |spec: Value| json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" }, "spec": spec });
    let too_large = "exceeded max memory of 64 MiB: the object has too many small lists and maps";
    let (code, why) = server.post(WIDGETS, widget(json!({ "a": maps(200_000) }))).await.error();
    assert!(code == 400 && why.contains(too_large), "{code} {why}");
    assert_eq!(server.post(WIDGETS, widget(json!({ "a": maps(60_000) }))).await.code, 201);
    let path = format!("{WIDGETS}/w");
    let (code, why) = server.merge(&path, json!({ "spec": { "b": maps(60_000) } })).await.error();
    assert!(code == 422 && why.ends_with(too_large), "{code} {why}");
    let (code, why) = server.merge(&path, json!({ "spec": { "b": maps(200_000) } })).await.error();
    assert!(code == 400 && why.ends_with(too_large), "{code} {why}");
    assert_eq!(server.merge(&path, json!({ "spec": { "a": maps(50_000) } })).await.code, 200);
    let applied = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "spec": { "c": maps(60_000) } });
    let apply = ("content-type", "application/apply-patch+yaml");
    let (code, why) =
        server.send("PATCH", &format!("{path}?fieldManager=m"), &[apply], &applied.to_string()).await.error();
    assert!(code == 413 && why.ends_with(too_large), "{code} {why}");
    let applied = widget(json!({ "a": maps(200_000) })).to_string();
    let apply = ("content-type", "application/apply-patch+yaml");
    let (code, why) =
        server.send("PATCH", &format!("{path}?fieldManager=m"), &[apply], &applied).await.error();
    assert!(code == 400 && why.ends_with(too_large), "{code} {why}");
}

/// Defaults turn an empty map into several.
#[tokio::test]
async fn the_memory_of_defaults_counts() {
    let server = Server::start().await;
    let set = |templates: usize| {
        json!({ "metadata": { "name": "s" }, "spec": { "serviceName": "s", "selector": { "matchLabels": { "a": "b" } },
            "template": { "metadata": { "labels": { "a": "b" } } }, "volumeClaimTemplates": vec![json!({}); templates] } })
    };
    let path = "/apis/apps/v1/namespaces/default/statefulsets";
    assert_eq!(server.post(path, set(10)).await.code, 422, "the templates have no names");
    for many in [50_000, 200_000] {
        let (code, why) = server.post(path, set(many)).await.error();
        assert!(code == 400 && why.contains("exceeded max memory of 64 MiB"), "{many}: {code} {why}");
    }
}

/// Regression test: an object that later defaults of its definition made too large could not be
/// parsed.
#[tokio::test]
async fn defaults_of_a_definition_that_take_too_much_memory_are_not_set() {
    let server = Server::start().await;
    define_widgets(&server).await;
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" },
        "spec": { "l": vec![json!({ "a": 0 }); 2_100] } });
    assert_eq!(server.post(WIDGETS, widget).await.code, 201);
    let nested = (0..70).fold(json!(0), |inner, _| json!({ "a": inner }));
    let default =
        json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "default": nested });
    let items = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": { "d": default } });
    let spec = json!({ "type": "object", "properties": { "l": { "type": "array", "items": items } } });
    let schema = json!({ "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } });
    let versions = json!([{ "name": "v1", "served": true, "storage": true, "schema": schema }]);
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    let changed = server.merge(definition, json!({ "spec": { "versions": versions } })).await;
    assert_eq!(changed.code, 200, "{changed:?}");
    let path = format!("{WIDGETS}/w");
    assert_eq!(server.get(&path).await.json()["spec"]["l"][0], json!({ "a": 0 }));
    let labelled = server.merge(&path, json!({ "metadata": { "labels": { "a": "b" } } })).await;
    assert_eq!(labelled.code, 413, "the defaults would be stored");
    assert_eq!(server.merge(&path, json!({ "spec": { "l": [{ "a": 1 }] } })).await.code, 200);
    assert!(server.get(&path).await.json()["spec"]["l"][0]["d"]["a"]["a"]["a"].is_object());
    assert_eq!(server.send("DELETE", &path, &[], "").await.code, 200);
}

/// Discovery repeats the accepted names for every version.
#[tokio::test]
async fn the_accepted_names_of_a_definition_are_validated() {
    let server = Server::start().await;
    define_widgets(&server).await;
    let status = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com/status";
    let names = json!({ "plural": "widgets", "kind": "Widget", "shortNames": vec!["w"; 257] });
    let (code, why) = server.merge(status, json!({ "status": { "acceptedNames": names } })).await.error();
    assert!(code == 422 && why.contains("status.acceptedNames.shortNames: Too many: 257"), "{code} {why}");
}

/// The owners of fields are dropped before an object is rejected, as in k8s.io/apiserver v0.36.4
/// pkg/endpoints/handlers/create.go.
#[tokio::test]
async fn managed_fields_do_not_make_an_object_too_large() {
    let server = Server::start().await;
    define_widgets(&server).await;
    let mut object = large_widget(10);
    // Each key is in the object and in the managed fields.
    let entries = (0..1_000).map(|index| (format!("{}{index}", "k".repeat(1_000)), json!(0)));
    object["spec"] = entries.collect::<serde_json::Map<_, _>>().into();
    let made = server.post(WIDGETS, object).await;
    assert_eq!(made.code, 201);
    assert!(made.json()["metadata"].get("managedFields").is_some());
    let text = json!({ "spec": { "text": "x".repeat(1_500_000) } });
    let grown = server.merge(&format!("{WIDGETS}/w"), text).await;
    assert_eq!(grown.code, 200);
    assert_eq!(grown.json()["metadata"].get("managedFields"), None);
}

/// An object may be too large because it was stored before there was a limit.
#[tokio::test]
async fn an_object_that_is_too_large_can_shrink_and_be_deleted() {
    let server = Server::start().await;
    define_widgets(&server).await;
    let cluster = server.service.cluster();
    let kind = cluster.catalog().kind_of("example.com/v1", "Widget").unwrap();
    let mut object = large_widget(7_000_000);
    object["spec"]["b"] = json!("y".repeat(1_000));
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    object["metadata"]["uid"] = json!("5f1d9a3e-0000-4000-8000-000000000000");
    let (key, draft) = ("w".parse().unwrap(), kind.draft(&object).unwrap());
    let absent = crate::store::Expect::Absent;
    cluster.storage().commit(&kind.collection, &key, absent, Some(draft)).await.unwrap();
    let path = format!("{WIDGETS}/w");
    assert_eq!(server.merge(&path, json!({ "spec": { "c": "z".repeat(1_000) } })).await.code, 413);
    assert_eq!(server.merge(&path, json!({ "spec": { "b": null } })).await.code, 200, "it is smaller");
    assert_eq!(server.send("DELETE", &path, &[], "").await.code, 200);
    assert_eq!(server.get(&path).await.code, 200, "a finalizer holds it");
    assert_eq!(server.merge(&path, json!({ "metadata": { "finalizers": null } })).await.code, 200);
    assert_eq!(server.get(&path).await.code, 404);
}

#[tokio::test]
async fn only_the_four_patch_types_are_accepted() {
    let server = Server::start().await;
    server.config_map("a", json!({})).await;
    let path = format!("{MAPS}/a");
    let patch = async |kind: &str, body: Value| {
        server.send("PATCH", &path, &[("content-type", kind)], &body.to_string()).await
    };
    let json_patch = json!([{ "op": "add", "path": "/data/j", "value": "1" }]);
    assert_eq!(patch("application/json-patch+json", json_patch).await.code, 200);
    assert_eq!(
        patch("application/merge-patch+json; charset=utf-8", json!({ "data": { "m": "1" } })).await.code,
        200
    );
    let strategic = patch("application/strategic-merge-patch+json", json!({ "data": { "s": "1" } })).await;
    assert_eq!(strategic.json()["data"], json!({ "k": "v", "j": "1", "m": "1", "s": "1" }));
    for kind in ["application/json", "text/plain", ""] {
        let rejected = patch(kind, json!({})).await;
        assert_eq!(rejected.error(), (415, "415: Unsupported Media Type".to_owned()));
        assert_eq!(rejected.json()["details"], json!({}));
    }
    let apply = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "new" }, "data": { "k": "v" } });
    let send = async |query: &str| {
        let path = format!("{MAPS}/new{query}");
        server
            .send("PATCH", &path, &[("content-type", "application/apply-patch+yaml")], &apply.to_string())
            .await
    };
    let why = r#"PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch"#;
    assert_eq!(send("").await.error(), (422, why.to_owned()));
    assert_eq!(send("?fieldManager=me").await.code, 201);
    assert_eq!(send("?fieldManager=me").await.code, 200);
}

#[tokio::test]
async fn a_deletion_returns_a_status_or_the_object() {
    let server = Server::start().await;
    server.config_map("a", json!({})).await;
    let uid = server.get(&format!("{MAPS}/a")).await.json()["metadata"]["uid"].clone();
    let deleted = server.send("DELETE", &format!("{MAPS}/a"), &[("accept", TABLE)], "").await;
    let details = json!({ "name": "a", "kind": "configmaps", "uid": uid });
    let expected = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details });
    assert_eq!((deleted.code.as_u16(), deleted.json()), (200, expected));

    let account = json!({ "metadata": { "name": "s" } });
    server.post("/api/v1/namespaces/default/serviceaccounts", account).await;
    let deleted = server.send("DELETE", "/api/v1/namespaces/default/serviceaccounts/s", &[], "").await;
    assert_eq!(deleted.json()["kind"], "ServiceAccount");

    let held = json!({ "metadata": { "name": "held", "finalizers": ["example.com/f"] } });
    server.post(MAPS, held).await;
    let going = server.send("DELETE", &format!("{MAPS}/held?orphanDependents=false"), &[], "").await;
    assert_eq!((going.code.as_u16(), &going.json()["kind"]), (202, &json!("ConfigMap")));
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector_and_returned() {
    let server = Server::start().await;
    for (name, label) in [("a", "1"), ("b", "1"), ("c", "2")] {
        server.config_map(name, json!({ "x": label })).await;
    }
    let path = format!("{MAPS}?labelSelector=x%3D1");
    let dry = server.send("DELETE", &format!("{path}&dryRun=All"), &[], "").await.json();
    assert_eq!(dry["items"].as_array().unwrap().len(), 2);
    let deleted = server.send("DELETE", &path, &[], "").await.json();
    assert_eq!((&deleted["kind"], deleted["items"].as_array().unwrap().len()), (&json!("ConfigMapList"), 2));
    assert_eq!(server.get(MAPS).await.json()["items"].as_array().unwrap().len(), 1);
    let rejected = server.send("DELETE", &format!("{path}&propagationPolicy=X"), &[], "").await;
    assert_eq!(rejected.error().0, 422);
}

#[tokio::test]
async fn writes_return_the_requested_representation() {
    let server = Server::start().await;
    let body = json!({ "metadata": { "name": "a" } }).to_string();
    let created = server.send("POST", MAPS, &[JSON, ("accept", METADATA)], &body).await;
    assert_eq!((created.code.as_u16(), &created.json()["kind"]), (201, &json!("PartialObjectMetadata")));
}

#[tokio::test]
async fn subresources_have_their_own_kinds() {
    let server = Server::start().await;
    let template = json!({ "metadata": { "labels": { "app": "d" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let deployment = json!({ "metadata": { "name": "d" }, "spec": { "replicas": 2, "template": template,
        "selector": { "matchLabels": { "app": "d" } } } });
    assert_eq!(server.post("/apis/apps/v1/namespaces/default/deployments", deployment).await.code, 201);
    let scale = "/apis/apps/v1/namespaces/default/deployments/d/scale";
    assert_eq!(server.get(scale).await.json()["spec"], json!({ "replicas": 2 }));
    let five = json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "d" }, "spec": { "replicas": 5 } });
    let put = server.send("PUT", scale, &[JSON], &five.to_string()).await;
    assert_eq!(
        (put.code.as_u16(), &put.json()["kind"], &put.json()["spec"]["replicas"]),
        (200, &json!("Scale"), &json!(5))
    );
    let table = server.get_as(scale, TABLE).await.json();
    assert_eq!(table["rows"][0]["cells"][0], "d");
}

#[tokio::test]
async fn responses_for_a_custom_kind_follow_the_apiextensions_server() {
    let server = Server::start().await;
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let versions =
        json!([{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }]);
    let definition = json!({ "metadata": { "name": "webs.ex.io" }, "spec": { "group": "ex.io", "scope": "Namespaced",
        "names": { "plural": "webs", "kind": "Web" }, "versions": versions } });
    let created = server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    assert_eq!(created.code, 201, "{created:?}");
    let webs = "/apis/ex.io/v1/namespaces/default/webs";
    let empty = server.get(webs).await;
    assert_eq!(empty.json()["metadata"]["continue"], "");
    let object = json!({ "apiVersion": "ex.io/v1", "kind": "Web", "metadata": { "name": "w" } });
    assert_eq!(server.post(webs, object).await.code, 201);
    assert_eq!(server.get(webs).await.json()["items"][0]["kind"], "Web");

    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    let rejected = server.send("PATCH", &format!("{webs}/w"), &strategic, "{}").await;
    let message = "the body of the request was in an unknown format - accepted media types include: \
                   application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    assert_eq!(rejected.error(), (415, message.to_owned()));
    assert_eq!(
        server.send("PUT", webs, &[JSON], "{}").await.error(),
        (400, "name must be provided".to_owned())
    );
    for path in ["/apis/ex.io/v1/webs/w", "/apis/ex.io/v2/webs", "/apis/ex.io/v1/others"] {
        assert_eq!(
            (server.get(path).await.code.as_u16(), server.get(path).await.text()),
            (404, "404 page not found\n")
        );
    }
    let no_part = server.get(&format!("{webs}/w/status")).await;
    assert_eq!(no_part.error(), (404, "webs.ex.io \"w\" not found".to_owned()));
    let head = server.send("HEAD", webs, &[], "").await;
    assert!(head.code == 200 && head.bytes.is_empty() && head.header("content-length") != "0", "{head:?}");
    let crosswise = server
        .get_as(&format!("{webs}/w"), "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
        .await;
    assert_eq!(crosswise.error(), (500, "content is not a list".to_owned()));
}

/// The expected responses are those of kube-apiserver.
#[tokio::test]
async fn the_status_of_an_autoscaler_is_written_in_either_version() {
    let server = Server::start().await;
    let first = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let second = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/a";
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" });
    let spec = json!({ "maxReplicas": 5, "targetCPUUtilizationPercentage": 60, "scaleTargetRef": target });
    let mut object = server.post(first, json!({ "metadata": { "name": "a" }, "spec": spec })).await.json();
    object["spec"]["maxReplicas"] = json!(9);
    object["status"] =
        json!({ "currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 70 });
    let status = format!("{first}/a/status");
    let written = server.send("PUT", &status, &[JSON], &object.to_string()).await.json();
    assert_eq!((&written["spec"]["maxReplicas"], &written["status"]), (&json!(5), &object["status"]));
    let shown = server.get(second).await.json()["status"].clone();
    let cpu = json!({ "name": "cpu", "current": { "averageUtilization": 70 } });
    assert_eq!(shown["currentMetrics"][0]["resource"], cpu);

    let metric = json!({ "name": "cpu", "current": { "averageUtilization": 33, "averageValue": "100m" } });
    let metrics = json!([{ "type": "Resource", "resource": metric }]);
    server.merge(&format!("{second}/status"), json!({ "status": { "currentMetrics": metrics } })).await;
    let shown = server.get(&status).await.json();
    assert_eq!(shown["status"]["currentCPUUtilizationPercentage"], 33);
    let rejected = server.merge(&status, json!({ "status": { "currentReplicas": -1 } })).await;
    let why = "HorizontalPodAutoscaler.autoscaling \"a\" is invalid: status.currentReplicas: Invalid value: -1: must be \
               greater than or equal to 0";
    assert_eq!(rejected.error(), (422, why.to_owned()));
}

#[tokio::test]
async fn an_apply_with_a_uid_does_not_recreate_the_object() {
    let server = Server::start().await;
    let apply = ("content-type", "application/apply-patch+yaml");
    let path = format!("{MAPS}/gone?fieldManager=m");
    let object =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "gone", "uid": "u-1" } });
    let rejected = server.send("PATCH", &path, &[apply], &object.to_string()).await;
    let why = "Operation cannot be fulfilled on configmaps \"gone\": uid mismatch: the provided object specified uid u-1, and no \
               existing object was found";
    assert_eq!(rejected.error(), (409, why.to_owned()));
    assert_eq!(server.get(&format!("{MAPS}/gone")).await.code, 404);
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "gone" } });
    assert_eq!(server.send("PATCH", &path, &[apply], &object.to_string()).await.code, 201);
}

#[tokio::test]
async fn connect_requests_need_no_body_and_change_nothing() {
    let server = Server::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let container = |name: &str| json!({ "name": name, "image": "i" });
    let pod = |name: &str, node: &str, containers: &[&str]| {
        let containers: Vec<_> = containers.iter().map(|it| container(it)).collect();
        let spec =
            json!({ "nodeName": node, "containers": containers, "initContainers": [container("first")] });
        json!({ "metadata": { "name": name }, "spec": spec })
    };
    for (name, node, containers) in
        [("free", "", &["c"][..]), ("placed", "n", &["c"]), ("two", "", &["c", "d"])]
    {
        let made = server.post(pods, pod(name, node, containers)).await;
        assert_eq!(made.code, 201, "{made:?}");
    }
    assert_eq!(server.post("/api/v1/nodes", json!({ "metadata": { "name": "n" } })).await.code, 201);
    let service = json!({ "metadata": { "name": "s" }, "spec": { "ports": [{ "port": 80 }] } });
    assert_eq!(server.post("/api/v1/namespaces/default/services", service).await.code, 201);
    let unplaced = (400, "pod free does not have a host assigned".to_owned());
    for method in ["GET", "POST"] {
        for part in ["exec?command=ls&container=c&stdout=true", "attach", "portforward", "proxy/x"] {
            let rejected = server.send(method, &format!("{pods}/free/{part}"), &[], "").await;
            assert_eq!(rejected.error(), unplaced, "{method} {part}");
        }
    }
    let log = server.get(&format!("{pods}/free/log")).await;
    assert_eq!((log.code.as_u16(), log.bytes.len()), (204, 0), "a pod that is on no node has an empty log");
    let placed = server.send("POST", &format!("{pods}/placed/exec"), &[], "").await.error();
    assert!(
        placed.0 == 500
            && placed.1.contains(r#"node "n" has no kubelet"#)
            && placed.1.contains("exec is not"),
        "{placed:?}"
    );
    let unclear = server.send("POST", &format!("{pods}/two/exec"), &[], "").await.error();
    let why = "a container name must be specified for pod two, choose one of: [first c d]";
    assert_eq!(unclear, (400, why.to_owned()));
    let wrong = server.send("POST", &format!("{pods}/two/attach?container=x"), &[], "").await.error();
    assert_eq!(wrong, (400, "container x is not valid for pod two".to_owned()));
    assert_eq!(server.send("POST", &format!("{pods}/none/exec"), &[], "").await.code, 404);
    // A proxied request is meant for the backend: it must not delete or change the object here.
    let services = "/api/v1/namespaces/default/services";
    for (path, code) in
        [(format!("{pods}/free"), 400), (format!("{services}/s"), 503), ("/api/v1/nodes/n".to_owned(), 500)]
    {
        let before = server.get(&path).await.bytes;
        for method in ["DELETE", "PUT", "PATCH", "POST"] {
            let merge = ("content-type", "application/merge-patch+json");
            let body = r#"{"metadata":{"labels":{"a":"b"}}}"#;
            let response = server.send(method, &format!("{path}/proxy/x"), &[merge], body).await;
            assert_eq!(response.code, code, "{method} {path}: {response:?}");
        }
        assert_eq!(server.get(&path).await.bytes, before, "{path}");
    }
}

#[tokio::test]
async fn the_rules_of_a_definition_are_checked_and_enforced() {
    let server = Server::start().await;
    let definition = |rule: &str| {
        let schema = json!({ "type": "object", "properties": {
            "size": { "type": "integer", "x-kubernetes-validations": [{ "rule": rule, "message": "no luck" }] },
            "mode": { "type": "string", "x-kubernetes-validations": [{ "rule": "self == oldSelf" }] } } });
        json!({ "metadata": { "name": "widgets.example.com" }, "spec": { "group": "example.com",
            "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema } }] } })
    };
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let refused = server.post(path, definition("self != wrong")).await;
    assert_eq!(refused.code, 422, "{refused:?}");
    let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("undeclared reference to 'wrong'"), "{message}");
    let made = server.post(path, definition("self != 13")).await;
    assert_eq!((made.code.as_u16(), made.header("warning")), (201, ""));
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = |size: i64| {
        json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" },
            "size": size, "mode": "a" })
    };
    let refused = server.post(widgets, widget(13)).await;
    let message = r#"Widget.example.com "w" is invalid: size: Invalid value: 13: no luck"#;
    assert_eq!((refused.code.as_u16(), refused.json()["message"].as_str()), (422, Some(message)));
    assert_eq!(server.post(widgets, widget(12)).await.code, 201);
    let changed = server.merge(&format!("{widgets}/w"), json!({ "mode": "b" })).await;
    let message =
        r#"Widget.example.com "w" is invalid: mode: Invalid value: "b": failed rule: self == oldSelf"#;
    assert_eq!((changed.code.as_u16(), changed.json()["message"].as_str()), (422, Some(message)));
    assert_eq!(server.merge(&format!("{widgets}/w"), json!({ "size": 14 })).await.code, 200);
}

#[tokio::test]
async fn many_definitions_that_wait_for_the_names_of_one_are_accepted_at_once() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const WAITING: usize = 60;
    let server = Server::start().await;
    let definition = |plural: &str, short_names: Vec<String>| {
        json!({ "metadata": { "name": format!("{plural}.example.com") },
            "spec": { "group": "example.com", "scope": "Namespaced",
                "names": { "plural": plural, "kind": format!("K{plural}"), "shortNames": short_names },
                "versions": [{ "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object" } } }] } })
    };
    let accepted = async |plural: &str| {
        let object = server.get(&format!("{DEFINITIONS}/{plural}.example.com")).await.json();
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|it| it["type"] == "NamesAccepted" && it["status"] == "True")
    };
    let all = (0..WAITING).map(|it| format!("s{it}")).collect();
    assert_eq!(server.post(DEFINITIONS, definition("holders", all)).await.code, 201);
    for index in 0..WAITING {
        let made =
            server.post(DEFINITIONS, definition(&format!("w{index}"), vec![format!("s{index}")])).await;
        assert_eq!(made.code, 201, "{made:?}");
        assert!(!accepted(&format!("w{index}")).await);
    }
    let freed = json!({ "spec": { "names": { "shortNames": [] } } });
    let changed = server.merge(&format!("{DEFINITIONS}/holders.example.com"), freed).await;
    assert_eq!(changed.code, 200, "{changed:?}");
    for index in 0..WAITING {
        assert!(accepted(&format!("w{index}")).await, "w{index}");
    }
}

/// Regression test: only the warnings of webhooks were returned.
#[tokio::test]
async fn a_write_of_a_scale_returns_the_warnings_about_its_object() {
    let server = Server::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({ "metadata": { "labels": { "app": "d" } }, "spec": {
        "topologySpreadConstraints": [{ "topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule" }],
        "containers": [{ "name": "c", "image": "i" }] } });
    let deployment = json!({ "metadata": { "name": "d" }, "spec": { "replicas": 2, "template": template,
        "selector": { "matchLabels": { "app": "d" } } } });
    let made = server.post(deployments, deployment).await;
    assert!(made.header("warning").contains("a null labelSelector results in matching no pod"), "{made:?}");
    let scaled = server.merge(&format!("{deployments}/d/scale"), json!({ "spec": { "replicas": 3 } })).await;
    assert_eq!((scaled.code.as_u16(), scaled.header("warning")), (200, made.header("warning")));
}
