//! Finalizers: an object stays until its cleanup is done, and no finalizer is added to a
//! terminating object.

use dogwatch::Api;
use dogwatch::api::{DeleteParams, Deletion, Patch, PatchParams, WriteParams};
use dogwatch::controller::Context;
use dogwatch::controller::finalizer::{Finalizer, Phase};
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::fixtures::config_map;
use crate::support::{TestNamespace, client, refused};

const OURS: &str = "example.com/ours";

async fn objects() -> (TestNamespace, Api<ConfigMap>, Finalizer<ConfigMap>) {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let api = space.api(&client);
    (space, api, Finalizer::new(Api::all(client), OURS).expect("a name"))
}

fn count(object: &ConfigMap) -> usize {
    object.metadata.finalizers.as_ref().map_or(0, Vec::len)
}

#[tokio::test]
async fn an_object_stays_until_its_cleanup_is_done() {
    let (_space, api, finalizer) = objects().await;
    let created = api.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    let Ok(Phase::Live(live)) = finalizer.phase(created, &Context::detached()).await else {
        panic!("the object is live")
    };
    assert!(finalizer.is_on(&live));
    let deletion = api.delete("a", &DeleteParams::default()).await.expect("accepted");
    assert!(matches!(deletion, Deletion::Terminating(_)), "{deletion:?}");
    // The stale copy has no deletion timestamp; only the server's copy does.
    let Ok(Phase::CleanUp(going)) =
        finalizer.phase(api.get("a").await.expect("exists"), &Context::detached()).await
    else {
        panic!("the object is terminating")
    };
    finalizer.done(&going, &Context::detached()).await.expect("finalizer removed");
    assert!(api.get_opt("a").await.expect("a response").is_none());
    finalizer.done(&going, &Context::detached()).await.expect("removing it again succeeds");
}

#[tokio::test]
async fn a_stale_copy_adds_the_finalizer_once_and_keeps_what_others_added() {
    let (_space, api, finalizer) = objects().await;
    let stale = api.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    let theirs = json!({ "metadata": { "finalizers": ["example.com/theirs"] } });
    api.patch("a", &PatchParams::default(), Patch::Merge(&theirs)).await.expect("patched");
    for _ in 0..2 {
        let Ok(Phase::Live(live)) = finalizer.phase(stale.clone(), &Context::detached()).await else {
            panic!("the object is live")
        };
        assert_eq!(count(&live), 2);
    }
    finalizer
        .done(&stale, &Context::detached())
        .await
        .expect("nothing to do for a copy without the finalizer");
    let current = api.get("a").await.expect("exists");
    assert_eq!(count(&current), 2);
    finalizer.done(&current, &Context::detached()).await.expect("finalizer removed");
    let none = json!({ "metadata": { "finalizers": null } });
    let left = api.patch("a", &PatchParams::default(), Patch::Merge(&none)).await.expect("patched");
    assert_eq!(count(&left), 0);
}

#[tokio::test]
async fn no_finalizer_is_added_to_a_terminating_object() {
    let (_space, api, finalizer) = objects().await;
    let mut object = config_map("a", json!({}));
    object.metadata.finalizers = Some(vec!["example.com/theirs".to_owned()]);
    let stale = api.create(&WriteParams::default(), &object).await.expect("created");
    api.delete("a", &DeleteParams::default()).await.expect("accepted");
    // The server rejects new finalizers on a terminating object, so the helper must not try.
    let both = json!({ "metadata": { "finalizers": ["example.com/theirs", OURS] } });
    let status = refused(api.patch("a", &PatchParams::default(), Patch::Merge(&both)).await);
    assert_eq!(status.code, 422, "{status:?}");
    assert!(matches!(finalizer.phase(stale, &Context::detached()).await, Ok(Phase::Ignored)));
    let none = json!({ "metadata": { "finalizers": null } });
    api.patch("a", &PatchParams::default(), Patch::Merge(&none)).await.expect("finalizers removed");
    assert!(api.get_opt("a").await.expect("a response").is_none());
}

#[tokio::test]
async fn another_object_of_the_same_name_is_left_alone() {
    let (_space, api, finalizer) = objects().await;
    let first = api.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    api.delete("a", &DeleteParams::default()).await.expect("deleted");
    assert!(matches!(finalizer.phase(first.clone(), &Context::detached()).await, Ok(Phase::Ignored)));
    api.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created again");
    assert!(matches!(finalizer.phase(first, &Context::detached()).await, Ok(Phase::Ignored)));
    assert_eq!(count(&api.get("a").await.expect("exists")), 0);
}
