//! The error statuses of the server, reason by reason, as the caller sees them.

use dogwatch::api::{
    DeleteParams, Deletion, ListParams, Patch, PatchParams, Reason, ResourceType, Scope, WriteParams,
};
use dogwatch::http::Method;
use dogwatch::k8s_openapi::api::authentication::v1::SelfSubjectReview;
use dogwatch::k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use dogwatch::{Api, Error};
use serde_json::{Value, json};

use crate::fixtures::{config_map, config_maps, object, pod};
use crate::support::{TestNamespace, client, refused};

#[tokio::test]
async fn not_found_names_the_missing_object() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let status = refused(space.api::<ConfigMap>(&client).get("nothing").await);
    assert_eq!((status.reason.clone(), status.code), (Reason::NotFound, 404));
    let details = status.details.expect("details");
    assert_eq!((details.name.as_str(), details.kind.as_str()), ("nothing", "configmaps"));
}

#[tokio::test]
async fn a_resource_that_is_not_served_is_not_found() {
    let resource = ResourceType::cluster(dogwatch::api::Gvk::new("nowhere.example", "v1", "Thing"), "things");
    let api = Api::<Value>::dynamic(client(), resource);
    assert!(refused(api.list(&ListParams::default()).await).is_not_found());
}

#[tokio::test]
async fn creating_in_a_missing_namespace_is_not_found() {
    let api = Api::<ConfigMap>::namespaced(client(), "conformance-nowhere");
    let status = refused(api.create(&WriteParams::default(), &config_map("a", json!({}))).await);
    assert!(status.is_not_found(), "{status:?}");
}

#[tokio::test]
async fn a_name_that_is_taken_already_exists() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let api = space.api::<ConfigMap>(&client);
    api.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    let status = refused(api.create(&WriteParams::default(), &config_map("a", json!({}))).await);
    assert_eq!((status.reason, status.code), (Reason::AlreadyExists, 409));
}

#[tokio::test]
async fn an_invalid_object_is_rejected_with_a_cause_for_each_field() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let mut wrong = pod("Not_A_Name");
    wrong.spec.as_mut().expect("a spec").restart_policy = Some("Perhaps".to_owned());
    let status = refused(space.api(&client).create(&WriteParams::default(), &wrong).await);
    assert_eq!((status.reason.clone(), status.code), (Reason::Invalid, 422));
    for field in ["metadata.name", "spec.restartPolicy"] {
        assert!(
            status.causes().iter().any(|it| it.field == field && !it.message.is_empty()),
            "{field}: {status:?}"
        );
    }
}

#[tokio::test]
async fn an_immutable_field_cannot_be_patched() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let api = space.api::<Pod>(&client);
    api.create(&WriteParams::default(), &pod("a")).await.expect("created");
    let patch = json!({ "spec": { "schedulerName": "another" } });
    let status = refused(api.patch("a", &PatchParams::default(), Patch::Merge(&patch)).await);
    assert!(
        status.is_invalid() && status.causes().iter().any(|it| it.field.starts_with("spec")),
        "{status:?}"
    );
}

#[tokio::test]
async fn a_malformed_body_and_a_name_that_contradicts_the_path_are_bad_requests() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let post = || client.post().resource(&config_maps()).namespace(&space.name);
    let torn = post().body("application/json", "{\"kind\":").send::<Value>().await;
    assert!(refused(torn).is_bad_request());
    let elsewhere = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "elsewhere" } });
    assert!(refused(post().json(&elsewhere).send::<Value>().await).is_bad_request());
    let other_kind = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" } });
    assert!(refused(post().json(&other_kind).send::<Value>().await).is_bad_request());
    let api = space.api::<ConfigMap>(&client);
    api.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    let renamed = api.replace("a", &WriteParams::default(), &config_map("b", json!({}))).await;
    assert!(refused(renamed).is_bad_request());
}

#[tokio::test]
async fn an_unsupported_verb_is_not_allowed() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let put = client.put().resource(&config_maps()).namespace(&space.name).json(&config_map("a", json!({})));
    let status = refused(put.send::<Value>().await);
    assert_eq!((status.reason, status.code), (Reason::MethodNotAllowed, 405));
    let reviews = ResourceType::of::<SelfSubjectReview>(&(), Scope::Cluster);
    assert!(refused(client.get().resource(&reviews).send::<Value>().await).is_method_not_allowed());
}

#[tokio::test]
async fn an_unknown_accept_type_is_not_acceptable() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let get = client.get().resource(&config_maps()).namespace(&space.name).accept("image/png");
    let status = refused(get.send::<Value>().await);
    assert!(status.is_not_acceptable() && status.code == 406, "{status:?}");
}

#[tokio::test]
async fn an_unknown_content_type_is_an_unsupported_media_type() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let post = client.post().resource(&config_maps()).namespace(&space.name).body("image/png", "png");
    let status = refused(post.send::<Value>().await);
    assert!(status.is_unsupported_media_type() && status.code == 415, "{status:?}");
    let api = space.api::<ConfigMap>(&client);
    api.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    let patch = client
        .patch("image/png")
        .resource(&config_maps())
        .namespace(&space.name)
        .name("a")
        .body("image/png", "png");
    assert!(refused(patch.send::<Value>().await).is_unsupported_media_type());
}

#[tokio::test]
async fn a_body_of_more_than_three_mebibytes_is_too_large() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let large: ConfigMap =
        object(json!({ "metadata": { "name": "a" }, "data": { "text": "x".repeat(3 << 20) } }));
    let status = refused(space.api(&client).create(&WriteParams::default(), &large).await);
    assert!(status.is_request_entity_too_large() && status.code == 413, "{status:?}");
}

#[tokio::test]
async fn an_object_larger_than_its_kind_allows_is_rejected() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let large: ConfigMap =
        object(json!({ "metadata": { "name": "a" }, "data": { "text": "x".repeat(1 << 21) } }));
    refused(space.api(&client).create(&WriteParams::default(), &large).await);
}

// The finalizer keeps the namespace terminating until the test has finished.
#[tokio::test]
async fn nothing_is_created_in_a_terminating_namespace() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let api = space.api::<ConfigMap>(&client);
    let held = json!({ "metadata": { "name": "held", "finalizers": ["conformance.example/hold"] } });
    api.create(&WriteParams::default(), &object(held)).await.expect("created");
    let deletion = Api::<Namespace>::all(client.clone()).delete(&space.name, &DeleteParams::default()).await;
    let Deletion::Terminating(namespace) = deletion.expect("accepted") else { panic!("gone at once") };
    assert_eq!(namespace.status.and_then(|it| it.phase).as_deref(), Some("Terminating"));

    let status = refused(api.create(&WriteParams::default(), &config_map("a", json!({}))).await);
    assert!(status.is_forbidden() && status.has_cause("NamespaceTerminating"), "{status:?}");
    let free = json!({ "metadata": { "finalizers": null } });
    api.patch("held", &PatchParams::default(), Patch::Merge(&free)).await.expect("freed");
}

#[tokio::test]
async fn names_that_would_change_the_path_are_never_sent() {
    let client = client();
    let api = Api::<ConfigMap>::namespaced(client.clone(), "default");
    for name in ["", ".", "..", "a/b", "a%2fb"] {
        assert!(matches!(api.get(name).await, Err(Error::InvalidRequest(_))), "{name:?}");
    }
    let nowhere = client.request(Method::GET).send::<Value>().await;
    assert!(matches!(nowhere, Err(Error::InvalidRequest(_))));
}
