//! Writes: the request for each verb, and the meaning of its response.

use std::time::Duration;

use dogwatch_client::api::{ApplyError, Deletion, LogParams, Patch};
use dogwatch_client::{Api, Error};
use dogwatch_core::{DeleteParams, Gvk, ListParams, PatchParams, Preconditions, ResourceType, WriteParams};
use futures_util::TryStreamExt;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, ServiceAccount};
use kube_core::DynamicObject;
use serde_json::json as value;

use crate::scripted::{Script, json, reply};

const MAP: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"a","managedFields":[{"manager":"m"}]}}"#;

fn maps(script: &Script) -> Api<ConfigMap> {
    Api::namespaced(script.client(), "a")
}

#[tokio::test]
async fn each_patch_has_its_content_type_and_path() {
    let script = Script::new([json(200, MAP), json(200, MAP), json(200, MAP), json(200, MAP)]);
    let (api, params) = (maps(&script), PatchParams::default());
    let operations = value!([{ "op": "remove", "path": "/data" }]);
    let partial = value!({ "data": { "a": "b" } });
    api.patch("x", &params, Patch::Json(&operations)).await.expect("patched");
    api.patch("x", &params, Patch::Merge(&partial)).await.expect("patched");
    api.patch_status("x", &params, Patch::Strategic(&partial)).await.expect("patched");
    api.apply("x", &PatchParams::apply("me").force(), &partial).await.expect("applied");
    let seen = script.seen();
    let types: Vec<_> = seen.iter().map(|it| it.headers[CONTENT_TYPE].to_str().unwrap()).collect();
    assert_eq!(
        types,
        [
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml"
        ]
    );
    assert_eq!(seen[2].target, "/base/api/v1/namespaces/a/configmaps/x/status");
    assert_eq!(seen[3].target, "/base/api/v1/namespaces/a/configmaps/x?fieldManager=me&force=true");
    let applied: serde_json::Value = serde_json::from_str(&seen[3].body).expect("JSON");
    let completed = value!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" }, "data": { "a": "b" } });
    assert_eq!(applied, completed, "required fields are filled in");
}

#[tokio::test]
async fn dy_1_apply_rejects_managed_fields_and_needs_a_manager() {
    let script = Script::default();
    let stored: serde_json::Value = serde_json::from_str(MAP).expect("valid");
    assert!(maps(&script).apply("x", &PatchParams::apply("me"), &stored).await.is_err());
    assert!(maps(&script).apply("x", &PatchParams::default(), &value!({})).await.is_err());
    assert!(script.seen().is_empty());
}

#[tokio::test]
async fn an_apply_conflict_names_fields_and_managers() {
    let status = value!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409,
        "details": { "causes": [{ "reason": "FieldManagerConflict", "message": "conflict with \"other\" using v1", "field": ".data.a" }] },
    });
    let script = Script::new([
        json(409, status.to_string()),
        json(409, r#"{"status":"Failure","reason":"Conflict"}"#),
    ]);
    let error = maps(&script).apply("x", &PatchParams::apply("me"), &value!({})).await.expect_err("conflict");
    let ApplyError::Conflict(conflicts) = error else { panic!("{error}") };
    assert_eq!((conflicts[0].field.as_str(), conflicts[0].manager.as_str()), (".data.a", "other"));
    let error = maps(&script).apply("x", &PatchParams::apply("me"), &value!({})).await.expect_err("conflict");
    assert!(matches!(error, ApplyError::Other(error) if error.is_conflict()));
}

#[tokio::test]
async fn a_deletion_returns_whether_the_object_is_gone() {
    let gone = r#"{"kind":"Status","apiVersion":"v1","status":"Success","details":{"name":"x"}}"#;
    let script = Script::new([json(200, gone), json(200, MAP), json(202, MAP)]);
    let api = maps(&script);
    assert!(matches!(api.delete("x", &DeleteParams::default()).await, Ok(Deletion::Gone(_))));
    let params = DeleteParams::foreground()
        .grace_period(Duration::from_secs(3))
        .preconditions(Preconditions::uid("u"));
    assert!(matches!(api.delete("x", &params).await, Ok(Deletion::Terminating(_))));
    assert_eq!(
        script.seen()[1].body,
        r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":3,"propagationPolicy":"Foreground","preconditions":{"uid":"u"}}"#
    );
}

#[tokio::test]
async fn a_collection_is_deleted_in_one_namespace_only() {
    let script = Script::new([json(
        200,
        r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[{},{}]}"#,
    )]);
    let which = ListParams::default().labels("a=b".parse().expect("valid"));
    assert_eq!(maps(&script).delete_collection(&DeleteParams::default(), &which).await.expect("deleted"), 2);
    assert_eq!(script.seen()[0].target, "/base/api/v1/namespaces/a/configmaps?labelSelector=a%3Db");
    let everywhere = Api::<ConfigMap>::all(script.client());
    assert!(everywhere.delete_collection(&DeleteParams::default(), &which).await.is_err());
    assert_eq!(script.seen().len(), 1);
}

#[tokio::test]
async fn managed_fields_are_skipped_by_default() {
    let script = Script::new([json(200, MAP), json(200, MAP)]);
    assert!(maps(&script).get("x").await.expect("read").metadata.managed_fields.is_none());
    let kept = maps(&script).with_managed_fields().get("x").await.expect("read");
    assert_eq!(kept.metadata.managed_fields.map(|it| it.len()), Some(1));
}

#[tokio::test]
async fn dy_1_paths_of_typed_dynamic_and_cluster_scoped_handles() {
    let script = Script::new((0..6).map(|_| json(200, r#"{"metadata":{"name":"x"}}"#)));
    let client = script.client();
    Api::<Deployment>::default_namespaced(client.clone()).get("x").await.expect("read");
    Api::<Node>::all(client.clone()).get("x").await.expect("read");
    let widgets = ResourceType::namespaced(Gvk::new("example.com", "v1", "Widget"), "widgets");
    Api::<DynamicObject>::dynamic(client.clone(), widgets.clone())
        .in_namespace("b")
        .get("x")
        .await
        .expect("read");
    let clusters = ResourceType::cluster(Gvk::new("example.com", "v1", "Cluster"), "clusters");
    Api::<DynamicObject>::dynamic(client.clone(), clusters)
        .in_namespace("ignored")
        .get("x")
        .await
        .expect("read");
    assert_eq!(
        script.targets(),
        [
            "/base/apis/apps/v1/namespaces/default/deployments/x",
            "/base/api/v1/nodes/x",
            "/base/apis/example.com/v1/namespaces/b/widgets/x",
            "/base/apis/example.com/v1/clusters/x",
        ]
    );
    assert!(
        Api::<DynamicObject>::dynamic(client.clone(), widgets).get("x").await.is_err(),
        "which namespace?"
    );
    assert!(Api::<Pod>::all(client).get("x").await.is_err(), "which namespace?");
    assert_eq!(script.seen().len(), 4);
}

#[tokio::test]
async fn sc_1_scale_is_read_and_set() {
    let scale =
        r#"{"kind":"Scale","apiVersion":"autoscaling/v1","spec":{"replicas":3},"status":{"replicas":2}}"#;
    let script = Script::new([json(200, scale), json(200, scale)]);
    let api = Api::<Deployment>::namespaced(script.client(), "a");
    assert_eq!(api.get_scale("x").await.expect("read").spec.and_then(|it| it.replicas), Some(3));
    api.set_replicas("x", &PatchParams::default(), 3).await.expect("scaled");
    let seen = script.seen();
    assert_eq!(seen[1].target, "/base/apis/apps/v1/namespaces/a/deployments/x/scale");
    assert_eq!(seen[1].body, r#"{"spec":{"replicas":3}}"#);
}

#[tokio::test]
async fn logs_come_whole_in_chunks_and_in_lines() {
    let log = || reply(200).chunk("one\ntw").chunk("o\r\n\nthree");
    let script = Script::new([log(), log(), log()]);
    let api = Api::<Pod>::namespaced(script.client(), "a");
    let params = LogParams::default().container("c").tail(9).follow();
    assert_eq!(api.logs("x", &params).await.expect("read"), "one\ntwo\r\n\nthree");
    let chunks: Vec<_> = api.log_stream("x", &params).await.expect("open").try_collect().await.expect("read");
    assert_eq!(chunks.len(), 2);
    let lines: Vec<_> = api.log_lines("x", &params).await.expect("open").try_collect().await.expect("read");
    assert_eq!(lines, ["one", "two", "", "three"]);
    assert_eq!(
        script.targets()[0],
        "/base/api/v1/namespaces/a/pods/x/log?container=c&follow=true&tailLines=9"
    );
}

#[tokio::test]
async fn eviction_and_tokens_are_created_at_their_subresource() {
    let script = Script::new([
        json(201, r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
        json(
            201,
            r#"{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":{"audiences":[]},"status":{"token":"t","expirationTimestamp":"2030-01-01T00:00:00Z"}}"#,
        ),
    ]);
    Api::<Pod>::namespaced(script.client(), "a").evict("x", &DeleteParams::default()).await.expect("evicted");
    let accounts = Api::<ServiceAccount>::namespaced(script.client(), "a");
    let token = accounts.create_token("x", &Default::default()).await.expect("made");
    assert_eq!(token.status.and_then(|it| it.token).as_deref(), Some("t"));
    assert_eq!(
        script.targets(),
        ["/base/api/v1/namespaces/a/pods/x/eviction", "/base/api/v1/namespaces/a/serviceaccounts/x/token"]
    );
    assert!(script.seen()[0].body.contains(r#""kind":"Eviction""#));
}

#[tokio::test]
async fn a_table_has_columns_and_rows_and_another_kind_is_an_error() {
    let table = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[{"name":"Name","type":"string"},{"name":"Age","type":"string"}],
        "rows":[{"cells":["x","5d"],"object":{"metadata":{"name":"x"}}}]}"#;
    let script = Script::new([json(200, table), json(200, MAP)]);
    let printed = maps(&script).table(&ListParams::default()).await.expect("printed");
    assert_eq!(printed.cell(&printed.rows[0], "Age"), Some(&value!("5d")));
    assert!(maps(&script).table_of("x").await.is_err());
    assert!(script.seen()[0].headers[http::header::ACCEPT].to_str().unwrap().contains("as=Table"));
}

#[tokio::test]
async fn a_created_object_is_sent_as_json_and_returned_as_stored() {
    let script = Script::new([json(201, MAP)]);
    let params = WriteParams::default().manager("me").dry_run();
    let made = maps(&script).create(&params, &ConfigMap::default()).await.expect("created");
    assert_eq!(made.metadata.name.as_deref(), Some("x"));
    let seen = &script.seen()[0];
    assert_eq!(seen.method, http::Method::POST);
    assert_eq!(seen.target, "/base/api/v1/namespaces/a/configmaps?dryRun=All&fieldManager=me");
    assert!(seen.body.contains(r#""kind":"ConfigMap""#), "{}", seen.body);
}

#[tokio::test]
async fn rq_2_a_handle_over_all_namespaces_does_not_create_namespaced_objects() {
    let script = Script::new([]);
    let everywhere = Api::<ConfigMap>::all(script.client());
    let error =
        everywhere.create(&WriteParams::default(), &ConfigMap::default()).await.expect_err("no namespace");
    assert!(matches!(error, Error::InvalidRequest(_)), "{error}");
    assert!(script.seen().is_empty());
}
