//! Every verb on config maps, pods and deployments.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use dogwatch::api::{
    ConflictRetries, DeleteParams, Deletion, DynamicObject, FieldValidation, GetParams, ListParams, Patch,
    PatchParams, Preconditions, Resource, ResourceVersion, WriteParams, retry_on_conflict,
};
use dogwatch::client::{Warning, WarningHandler};
use dogwatch::k8s_openapi::NamespaceResourceScope;
use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::k8s_openapi::api::core::v1::{ConfigMap, Pod};
use dogwatch::{Api, Client, View};
use serde::Serialize;
use serde_json::json;

use crate::fixtures::{config_map, deployment, deployments, labelled, names, object, pod};
use crate::support::{TestNamespace, client, config, refused};

/// Creates, reads, lists, replaces and deletes an object of any kind.
async fn crud_round_trip<K>(object: K)
where
    K: View<Of = K> + Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize + Clone + Debug,
{
    let client = client();
    let space = TestNamespace::new(&client).await;
    let api = space.api::<K>(&client);
    let name = object.meta().name.clone().expect("the test names its objects");

    let created = api.create(&WriteParams::default(), &object).await.expect("created");
    assert_eq!(created.meta().namespace.as_ref(), Some(&space.name));
    assert!(created.meta().uid.is_some() && created.meta().creation_timestamp.is_some());
    assert!(created.version().is_exact());

    let read = api.get(&name).await.expect("exists");
    assert_eq!(read.meta().uid, created.meta().uid);
    let listed = api.list(&ListParams::default()).await.expect("listed");
    assert!(names(&listed.items).contains(&name) && listed.bad.is_empty());

    // A controller of the cluster may change the object at any time.
    let mut replaced = None;
    for _ in 0..10 {
        let mut changed = api.get(&name).await.expect("exists");
        changed.meta_mut().annotations = Some(BTreeMap::from([("seen".to_owned(), "yes".to_owned())]));
        match api.replace(&name, &WriteParams::default(), &changed).await {
            Err(error) if error.is_conflict() => {}
            written => {
                replaced = Some(written.expect("replaced"));
                break;
            }
        }
    }
    let replaced = replaced.expect("one of ten attempts meets no conflict");
    assert_eq!(replaced.meta().uid, created.meta().uid);
    assert!(created.version().is_older_than(&replaced.version()), "a change makes a newer version");

    api.delete(&name, &DeleteParams::default()).await.expect("deleted");
    assert!(api.get_opt(&name).await.expect("a response").is_none());
}

#[tokio::test]
async fn a_config_map_is_created_read_replaced_and_deleted() {
    crud_round_trip(config_map("a", json!({}))).await;
}

#[tokio::test]
async fn a_pod_is_created_read_replaced_and_deleted() {
    crud_round_trip(pod("a")).await;
}

#[tokio::test]
async fn a_deployment_is_created_read_replaced_and_deleted() {
    crud_round_trip(deployment("a")).await;
}

async fn config_maps() -> (Client, TestNamespace, Api<ConfigMap>) {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let api = space.api(&client);
    (client, space, api)
}

#[tokio::test]
async fn get_opt_returns_none_for_a_missing_object_and_any_other_failure_as_an_error() {
    let (client, _space, api) = config_maps().await;
    assert!(api.get_opt("nothing").await.expect("a response").is_none());
    let everywhere = Api::<ConfigMap>::all(client);
    assert!(everywhere.get_opt("nothing").await.is_err(), "a name without its namespace is an error");
}

#[tokio::test]
async fn replacing_a_stale_object_is_a_conflict_and_one_without_a_version_succeeds() {
    let (_client, _space, api) = config_maps().await;
    let first = api.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    let mut newer = first.clone();
    newer.data = Some(BTreeMap::from([("key".to_owned(), "newer".to_owned())]));
    api.replace("a", &WriteParams::default(), &newer).await.expect("replaced");

    let mut stale = first;
    stale.data = Some(BTreeMap::from([("key".to_owned(), "stale".to_owned())]));
    let status = refused(api.replace("a", &WriteParams::default(), &stale).await);
    assert!(status.is_conflict() && status.code == 409, "{status:?}");

    stale.metadata.resource_version = None;
    let won = api.replace("a", &WriteParams::default(), &stale).await.expect("replaced");
    assert_eq!(won.data, stale.data);
}

#[tokio::test]
async fn replacing_with_the_same_content_changes_no_version() {
    let (_client, _space, api) = config_maps().await;
    let first = api.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    let same = api.replace("a", &WriteParams::default(), &first).await.expect("replaced");
    assert_eq!(same.metadata.resource_version, first.metadata.resource_version);
}

#[tokio::test]
async fn a_conflicting_change_is_retried_on_the_current_object() {
    let (_client, _space, api) = config_maps().await;
    api.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    let mut attempts = 0;
    let written = retry_on_conflict(ConflictRetries::BRIEF, || {
        attempts += 1;
        let first = attempts == 1;
        let api = &api;
        async move {
            let mut read = api.get("a").await?;
            if first {
                let other = json!({ "data": { "theirs": "1" } });
                api.patch("a", &PatchParams::default(), Patch::Merge(&other)).await?;
            }
            read.data.get_or_insert_default().insert("ours".to_owned(), "1".to_owned());
            api.replace("a", &WriteParams::default(), &read).await
        }
    })
    .await
    .expect("the second attempt has no conflict");
    assert_eq!(attempts, 2);
    let keys: Vec<_> = written.data.expect("data").into_keys().collect();
    assert_eq!(keys, ["key", "ours", "theirs"]);
}

#[tokio::test]
async fn an_object_without_finalizers_is_deleted_immediately() {
    let (_client, _space, api) = config_maps().await;
    api.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    let deletion = api.delete("a", &DeleteParams::default()).await.expect("deleted");
    assert!(matches!(deletion, Deletion::Gone(_)), "{deletion:?}");
    assert!(refused(api.delete("a", &DeleteParams::default()).await).is_not_found());
}

#[tokio::test]
async fn an_object_with_finalizers_is_terminating_until_the_last_is_removed() {
    let (_client, _space, api) = config_maps().await;
    let held = json!({ "metadata": { "name": "a", "finalizers": ["conformance.example/hold"] } });
    api.create(&WriteParams::default(), &object(held)).await.expect("created");
    let deletion = api.delete("a", &DeleteParams::default()).await.expect("accepted");
    let Deletion::Terminating(going) = deletion else { panic!("{deletion:?}") };
    assert!(going.metadata.deletion_timestamp.is_some());
    assert!(api.get("a").await.expect("still exists").metadata.deletion_timestamp.is_some());

    let free = json!({ "metadata": { "finalizers": null } });
    api.patch("a", &PatchParams::default(), Patch::Merge(&free)).await.expect("freed");
    assert!(api.get_opt("a").await.expect("a response").is_none());
}

#[tokio::test]
async fn deleting_a_collection_deletes_the_selected_objects() {
    let (client, _space, api) = config_maps().await;
    for (name, group) in [("a", "go"), ("b", "go"), ("c", "stay")] {
        let object = config_map(name, json!({ "group": group }));
        api.create(&WriteParams::default(), &object).await.expect("created");
    }
    let met = api.delete_collection(&DeleteParams::default(), &labelled("group=go")).await.expect("deleted");
    assert_eq!(met, 2);
    let left = api.list(&labelled("group")).await.expect("listed");
    assert_eq!(names(&left.items), ["c"]);
    let everywhere = Api::<ConfigMap>::all(client);
    assert!(everywhere.delete_collection(&DeleteParams::default(), &labelled("group=go")).await.is_err());
}

#[tokio::test]
async fn a_dry_run_returns_the_result_and_stores_nothing() {
    let (_client, _space, api) = config_maps().await;
    let dry = WriteParams::default().dry_run();
    let created = api.create(&dry, &config_map("a", json!({}))).await.expect("would be created");
    assert!(created.metadata.uid.is_some());
    assert!(api.get_opt("a").await.expect("a response").is_none());

    let stored = api.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    let mut changed = stored.clone();
    changed.data = None;
    let returned = api.replace("a", &dry, &changed).await.expect("would be replaced");
    assert_eq!(returned.data, None);
    let patch = json!({ "data": { "key": "patched" } });
    let returned = api.patch("a", &PatchParams::default().dry_run(), Patch::Merge(&patch)).await;
    assert_eq!(returned.expect("would be patched").data.expect("data")["key"], "patched");
    api.delete("a", &DeleteParams::default().dry_run()).await.expect("would be deleted");
    assert_eq!(api.get("a").await.expect("still exists"), stored);
}

/// Returns a deployment with an unknown field, and a dynamic handle, which keeps the field.
fn misspelt(space: &TestNamespace, client: &Client) -> (Api<DynamicObject>, DynamicObject) {
    let api = Api::dynamic(client.clone(), deployments()).in_namespace(&space.name);
    let mut value = serde_json::to_value(deployment("a")).expect("an object is JSON");
    value["spec"]["replicaz"] = json!(3);
    (api, object(value))
}

#[tokio::test]
async fn strict_validation_rejects_an_unknown_field_by_name() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let (api, misspelt) = misspelt(&space, &client);
    let strict = WriteParams::default().validation(FieldValidation::Strict);
    let status = refused(api.create(&strict, &misspelt).await);
    assert!(status.is_bad_request() && status.message.contains("spec.replicaz"), "{status:?}");
    assert!(api.get_opt("a").await.expect("a response").is_none());
}

#[derive(Clone, Debug, Default)]
struct RecordedWarnings(Arc<Mutex<Vec<String>>>);

impl WarningHandler for RecordedWarnings {
    fn warn(&self, warning: &Warning) {
        self.0.lock().expect("not poisoned").push(warning.text.clone());
    }
}

#[tokio::test]
async fn ignore_validation_drops_an_unknown_field_silently_and_warn_validation_warns() {
    let warnings = RecordedWarnings::default();
    let client = Client::builder(config()).warnings(warnings.clone()).build().expect("a client");
    let space = TestNamespace::new(&client).await;
    let (api, misspelt) = misspelt(&space, &client);

    let ignore = WriteParams::default().validation(FieldValidation::Ignore);
    let stored = api.create(&ignore, &misspelt).await.expect("created");
    assert!(stored.data["spec"].get("replicaz").is_none());
    assert_eq!(*warnings.0.lock().expect("not poisoned"), [] as [&str; 0]);

    let warn = WriteParams::default().validation(FieldValidation::Warn);
    api.replace("a", &warn, &misspelt).await.expect("replaced");
    let warnings = warnings.0.lock().expect("not poisoned");
    assert!(warnings.iter().any(|it| it.contains("spec.replicaz")), "{warnings:?}");
}

#[tokio::test]
async fn generated_names_begin_with_their_prefix_and_differ() {
    let (_client, _space, api) = config_maps().await;
    let nameless: ConfigMap = object(json!({ "metadata": { "generateName": "run-" } }));
    let mut made = Vec::new();
    for _ in 0..2 {
        let stored = api.create(&WriteParams::default(), &nameless).await.expect("created");
        made.push(stored.metadata.name.expect("the server names it"));
    }
    assert!(made.iter().all(|it| it.starts_with("run-") && it.len() > 4), "{made:?}");
    assert_ne!(made[0], made[1]);
}

#[tokio::test]
async fn a_deletion_with_preconditions_deletes_only_the_matching_object() {
    let (_client, _space, api) = config_maps().await;
    let stored = api.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    let other_uid = Preconditions::uid("00000000-0000-0000-0000-000000000000");
    let stale = {
        let patch = json!({ "data": { "key": "newer" } });
        api.patch("a", &PatchParams::default(), Patch::Merge(&patch)).await.expect("patched");
        Preconditions::version(&ResourceVersion::new(stored.metadata.resource_version.as_deref().unwrap()))
    };
    for preconditions in [other_uid, stale] {
        let params = DeleteParams::default().preconditions(preconditions);
        assert!(refused(api.delete("a", &params).await).is_conflict());
    }
    let same = Preconditions::uid(stored.metadata.uid.expect("stored objects have a uid"));
    api.delete("a", &DeleteParams::default().preconditions(same)).await.expect("the uid matches");
}

#[tokio::test]
async fn an_object_can_be_read_at_the_version_of_its_last_write() {
    let (_client, _space, api) = config_maps().await;
    let stored = api.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    let version = stored.metadata.resource_version.clone().expect("stored objects have a version");
    let read = api.get_with("a", &GetParams::at(version)).await.expect("the server has reached this version");
    assert_eq!(read, stored);
}

#[tokio::test]
async fn a_large_object_comes_back_whole_compressed_or_not() {
    // kube-apiserver compresses responses from 128 KiB on: k8s.io/apiserver v0.36.4
    // pkg/endpoints/handlers/responsewriters/writers.go.
    let text: String = (0..60_000).map(|it| format!("{it:x} ")).collect();
    for disable_compression in [false, true] {
        let mut config = config();
        config.disable_compression = disable_compression;
        let client = Client::new(config).expect("a client");
        let space = TestNamespace::new(&client).await;
        let api = space.api::<ConfigMap>(&client);
        let large: ConfigMap = object(json!({ "metadata": { "name": "a" }, "data": { "text": text } }));
        api.create(&WriteParams::default(), &large).await.expect("created");
        assert_eq!(api.get("a").await.expect("exists").data, large.data);
        assert_eq!(
            api.list(&ListParams::default().fields(dogwatch::api::FieldSelector::name("a")))
                .await
                .expect("listed")
                .items[0]
                .data,
            large.data
        );
    }
}

#[tokio::test]
async fn a_typed_object_and_a_dynamic_one_are_the_same_object() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let typed = space.api::<Deployment>(&client);
    let dynamic = Api::<DynamicObject>::dynamic(client.clone(), deployments()).in_namespace(&space.name);
    let stored = typed.create(&WriteParams::default(), &deployment("a")).await.expect("created");
    let read = dynamic.get("a").await.expect("exists");
    assert_eq!(read.metadata, stored.metadata);
    assert_eq!(read.types.as_ref().map(|it| (&*it.api_version, &*it.kind)), Some(("apps/v1", "Deployment")));
    assert_eq!(read.try_parse::<Deployment>().expect("a deployment"), stored);
}

#[tokio::test]
async fn a_pod_has_its_defaults_filled_in() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let stored = space.api::<Pod>(&client).create(&WriteParams::default(), &pod("a")).await.expect("created");
    assert_eq!(stored.spec.expect("a spec").restart_policy.as_deref(), Some("Always"));
    assert_eq!(stored.status.expect("a status").phase.as_deref(), Some("Pending"));
}
