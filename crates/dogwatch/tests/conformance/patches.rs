//! The four patch types, and field ownership after an apply.

use dogwatch::Api;
use dogwatch::api::{ApplyConflict, ApplyError, Patch, PatchParams, WriteParams};
use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::fixtures::{config_map, deployment, object};
use crate::support::{TestNamespace, client, refused};

async fn config_maps() -> (TestNamespace, Api<ConfigMap>) {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let api = space.api(&client);
    (space, api)
}

async fn deployments() -> (TestNamespace, Api<Deployment>) {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let api = space.api(&client);
    (space, api)
}

fn data(object: &ConfigMap) -> Value {
    serde_json::to_value(&object.data).expect("data is JSON")
}

#[tokio::test]
async fn a_json_patch_applies_all_operations_or_none() {
    let (_space, api) = config_maps().await;
    api.create(&WriteParams::default(), &config_map("a", json!({ "old": "1" }))).await.expect("created");
    let operations = json!([
        { "op": "test", "path": "/data/key", "value": "value" },
        { "op": "replace", "path": "/data/key", "value": "new" },
        { "op": "add", "path": "/data/more", "value": "1" },
        { "op": "remove", "path": "/metadata/labels/old" },
    ]);
    let patched = api.patch("a", &PatchParams::default(), Patch::Json(&operations)).await.expect("patched");
    assert_eq!(data(&patched), json!({ "key": "new", "more": "1" }));
    assert!(patched.metadata.labels.unwrap_or_default().is_empty());

    let failing = json!([
        { "op": "replace", "path": "/data/key", "value": "newer" },
        { "op": "test", "path": "/data/more", "value": "2" },
    ]);
    refused(api.patch("a", &PatchParams::default(), Patch::Json(&failing)).await);
    assert_eq!(data(&api.get("a").await.expect("exists")), json!({ "key": "new", "more": "1" }));
}

#[tokio::test]
async fn a_merge_patch_sets_and_removes_fields_and_replaces_whole_lists() {
    let (_space, api) = deployments().await;
    api.create(&WriteParams::default(), &deployment("a")).await.expect("created");
    let patch = json!({
        "metadata": { "annotations": { "note": "1" } },
        "spec": { "replicas": 2, "template": { "spec": { "containers": [{ "name": "other", "image": "example.invalid/other" }] } } },
    });
    let patched = api.patch("a", &PatchParams::default(), Patch::Merge(&patch)).await.expect("patched");
    let spec = patched.spec;
    assert_eq!(spec.replicas, Some(2));
    let containers = spec.template.spec.expect("a spec").containers;
    assert_eq!(containers.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["other"]);

    let removal = json!({ "metadata": { "annotations": { "note": null } } });
    let patched = api.patch("a", &PatchParams::default(), Patch::Merge(&removal)).await.expect("patched");
    assert!(!patched.metadata.annotations.unwrap_or_default().contains_key("note"));
}

#[tokio::test]
async fn a_strategic_patch_merges_lists_by_their_key() {
    let (_space, api) = deployments().await;
    api.create(&WriteParams::default(), &deployment("a")).await.expect("created");
    let containers = |list: Value| json!({ "spec": { "template": { "spec": { "containers": list } } } });
    let images = |it: Deployment| -> Vec<(String, Option<String>)> {
        let spec = it.spec.template.spec.expect("a spec");
        let mut images: Vec<_> = spec.containers.into_iter().map(|it| (it.name, it.image)).collect();
        images.sort();
        images
    };
    let side = containers(json!([{ "name": "side", "image": "example.invalid/side" }]));
    let patched = api.patch("a", &PatchParams::default(), Patch::Strategic(&side)).await.expect("patched");
    let image = |it: &str| Some(format!("example.invalid/{it}"));
    assert_eq!(images(patched), [("main".to_owned(), image("main")), ("side".to_owned(), image("side"))]);

    let removal = containers(
        json!([{ "name": "side", "$patch": "delete" }, { "name": "main", "image": "example.invalid/new" }]),
    );
    let patched = api.patch("a", &PatchParams::default(), Patch::Strategic(&removal)).await.expect("patched");
    assert_eq!(images(patched), [("main".to_owned(), image("new"))]);
}

#[tokio::test]
async fn a_patch_of_a_missing_object_is_not_found_and_a_stale_one_a_conflict() {
    let (_space, api) = config_maps().await;
    let patch = json!({ "data": { "key": "new" } });
    assert!(refused(api.patch("a", &PatchParams::default(), Patch::Merge(&patch)).await).is_not_found());
    let first = api.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    api.patch("a", &PatchParams::default(), Patch::Merge(&patch)).await.expect("patched");
    let stale = json!({ "metadata": { "resourceVersion": first.metadata.resource_version }, "data": { "key": "stale" } });
    assert!(refused(api.patch("a", &PatchParams::default(), Patch::Merge(&stale)).await).is_conflict());
}

fn state(data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
}

#[tokio::test]
async fn an_apply_creates_an_object_and_owns_its_fields() {
    let (_space, api) = config_maps().await;
    let params = PatchParams::apply("ours");
    let made = api.apply("a", &params, &state(json!({ "x": "1", "y": "1" }))).await.expect("applied");
    assert_eq!(data(&made), json!({ "x": "1", "y": "1" }));

    let less = api.apply("a", &params, &state(json!({ "x": "2" }))).await.expect("applied");
    assert_eq!(data(&less), json!({ "x": "2" }), "a field that is no longer applied is removed");

    let owned = api.clone().with_managed_fields().get("a").await.expect("exists");
    let managers = owned.metadata.managed_fields.expect("the server tracks managers");
    assert!(
        managers
            .iter()
            .any(|it| it.manager.as_deref() == Some("ours") && it.operation.as_deref() == Some("Apply"))
    );
    assert_eq!(api.get("a").await.expect("exists").metadata.managed_fields, None, "left out by default");
}

#[tokio::test]
async fn an_apply_leaves_fields_of_other_managers_alone() {
    let (_space, api) = config_maps().await;
    api.apply("a", &PatchParams::apply("ours"), &state(json!({ "x": "1" }))).await.expect("applied");
    let both =
        api.apply("a", &PatchParams::apply("theirs"), &state(json!({ "y": "1" }))).await.expect("applied");
    assert_eq!(data(&both), json!({ "x": "1", "y": "1" }));
    let less = api.apply("a", &PatchParams::apply("theirs"), &state(json!({}))).await.expect("applied");
    assert_eq!(data(&less), json!({ "x": "1" }));
}

#[tokio::test]
async fn an_apply_of_a_field_of_another_manager_is_a_conflict_that_names_both() {
    let (_space, api) = config_maps().await;
    api.apply("a", &PatchParams::apply("theirs"), &state(json!({ "x": "1" }))).await.expect("applied");
    let agreed = api.apply("a", &PatchParams::apply("ours"), &state(json!({ "x": "1" }))).await;
    agreed.expect("the same value is no conflict");

    let wanted = state(json!({ "x": "2" }));
    let error = api.apply("a", &PatchParams::apply("others"), &wanted).await.expect_err("owned by two");
    let ApplyError::Conflict(conflicts) = error else { panic!("{error:?}") };
    let conflict = |manager: &str| ApplyConflict { field: ".data.x".to_owned(), manager: manager.to_owned() };
    assert!(
        conflicts.contains(&conflict("theirs")) && conflicts.contains(&conflict("ours")),
        "{conflicts:?}"
    );
    assert_eq!(conflicts.len(), 2);

    let taken = api.apply("a", &PatchParams::apply("others").force(), &wanted).await.expect("taken over");
    assert_eq!(data(&taken), json!({ "x": "2" }));
    let back = api.apply("a", &PatchParams::apply("ours"), &state(json!({ "x": "1" }))).await;
    assert!(matches!(back, Err(ApplyError::Conflict(it)) if it == [conflict("others")]));
}

#[tokio::test]
async fn a_typed_object_can_be_applied_as_it_is() {
    let (_space, api) = deployments().await;
    let mut wanted = deployment("a");
    let made = api.apply("a", &PatchParams::apply("ours"), &wanted).await.expect("applied");
    assert_eq!(made.spec.replicas, Some(1));
    wanted.spec.replicas = Some(3);
    let changed = api.apply("a", &PatchParams::apply("ours"), &wanted).await.expect("applied");
    assert_eq!(changed.spec.replicas, Some(3));
}

#[tokio::test]
async fn an_apply_may_omit_kind_and_name() {
    let (_space, api) = config_maps().await;
    let made =
        api.apply("a", &PatchParams::apply("ours"), &json!({ "data": { "x": "1" } })).await.expect("applied");
    assert_eq!((made.metadata.name.as_deref(), data(&made)), (Some("a"), json!({ "x": "1" })));
}

#[tokio::test]
async fn a_dry_apply_stores_nothing() {
    let (_space, api) = config_maps().await;
    let dry = PatchParams::apply("ours").dry_run();
    let returned = api.apply("a", &dry, &state(json!({ "x": "1" }))).await.expect("would be applied");
    assert_eq!(data(&returned), json!({ "x": "1" }));
    assert!(api.get_opt("a").await.expect("a response").is_none());
}

#[tokio::test]
async fn an_object_with_managed_fields_cannot_be_applied() {
    let (_space, api) = config_maps().await;
    let api = api.with_managed_fields();
    let made: ConfigMap =
        api.create(&WriteParams::default(), &object(state(json!({ "x": "1" })))).await.expect("created");
    let outcome = api.apply("a", &PatchParams::apply("ours"), &made).await;
    assert!(matches!(outcome, Err(ApplyError::Other(dogwatch::Error::InvalidRequest(_)))), "{outcome:?}");
}
