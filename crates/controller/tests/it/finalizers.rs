//! Finalizers on a server, with stale caches.

use dogwatch_apiserver::faults::Rule;
use dogwatch_client::Api;
use dogwatch_client::api::Patch;
use dogwatch_controller::finalizer::{Finalizer, Phase};
use dogwatch_controller::{Action, BoxError, Context, Controller};
use dogwatch_core::{DeleteParams, ObjectKey, PatchParams, WriteParams};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::in_process::{config_map, server};
use crate::test_cluster::{Calls, Running, SECOND, TestCluster};

const OURS: &str = "example.com/ours";

async fn objects() -> (dogwatch_apiserver::ApiServer, Api<ConfigMap>, Finalizer<ConfigMap>) {
    let (server, client) = server().await;
    let api = Api::default_namespaced(client.clone());
    let finalizer = Finalizer::new(Api::all(client), OURS).expect("a name");
    (server, api, finalizer)
}

fn finalizers(object: &ConfigMap) -> Vec<&str> {
    object.metadata.finalizers.iter().flatten().map(String::as_str).collect()
}

#[tokio::test]
async fn a_finalizer_is_a_qualified_name_with_or_without_a_domain() {
    let (_server, client) = server().await;
    let is_accepted = |name: &str| Finalizer::<ConfigMap>::new(Api::all(client.clone()), name).is_ok();
    for name in ["example.com/cleanup", "example/cleanup", "documents.kube.rs", "cleanup"] {
        assert!(is_accepted(name), "{name}");
    }
    for name in ["", "example.com/", "/cleanup", "example.com/a/b", "a b", "-a", "Example.com/a"] {
        assert!(!is_accepted(name), "{name}");
    }
}

#[tokio::test]
async fn an_object_is_live_then_cleaned_up_then_gone() {
    let (_server, api, finalizer) = objects().await;
    let created = api.create(&WriteParams::default(), &config_map("a")).await.expect("created");
    let Phase::Live(live) = finalizer.phase(created, &Context::detached()).await.expect("a response") else {
        panic!("the object is not live")
    };
    assert_eq!(finalizers(&live), [OURS]);
    api.delete("a", &DeleteParams::default()).await.expect("deletion requested");
    let going = api.get("a").await.expect("still there");
    let Phase::CleanUp(going) = finalizer.phase(going, &Context::detached()).await.expect("a response")
    else {
        panic!("the object is not in clean-up")
    };
    finalizer.done(&going, &Context::detached()).await.expect("removed");
    assert!(api.get_opt("a").await.expect("a response").is_none());
    finalizer.done(&going, &Context::detached()).await.expect("a second call has no effect");
}

#[tokio::test]
async fn a_stale_object_is_evaluated_in_its_newest_state() {
    let (_server, api, finalizer) = objects().await;
    let stale = api.create(&WriteParams::default(), &config_map("a")).await.expect("created");
    let touch = json!({ "metadata": { "finalizers": ["example.com/theirs"] } });
    api.patch("a", &PatchParams::default(), Patch::Merge(&touch)).await.expect("patched");
    let Phase::Live(live) = finalizer.phase(stale.clone(), &Context::detached()).await.expect("a response")
    else {
        panic!("the object is not live")
    };
    assert_eq!(finalizers(&live), ["example.com/theirs", OURS], "other finalizers are kept");
    let Phase::Live(again) = finalizer.phase(stale, &Context::detached()).await.expect("a response") else {
        panic!("the object is not live")
    };
    assert_eq!(finalizers(&again).len(), 2, "added once");
}

#[tokio::test]
async fn no_finalizer_is_added_to_an_object_that_is_being_deleted_even_from_a_stale_cache() {
    let (_server, api, finalizer) = objects().await;
    let mut object = config_map("a");
    object.metadata.finalizers = Some(vec!["example.com/theirs".to_owned()]);
    let stale = api.create(&WriteParams::default(), &object).await.expect("created");
    api.delete("a", &DeleteParams::default()).await.expect("deletion requested");
    assert!(matches!(finalizer.phase(stale, &Context::detached()).await, Ok(Phase::Ignored)));
    assert_eq!(
        finalizers(&api.get("a").await.expect("it waits for the other finalizer")),
        ["example.com/theirs"]
    );
}

#[tokio::test]
async fn a_deleted_object_and_a_new_one_of_its_name_are_left_alone() {
    let (_server, api, finalizer) = objects().await;
    let first = api.create(&WriteParams::default(), &config_map("a")).await.expect("created");
    api.delete("a", &DeleteParams::default()).await.expect("deleted");
    assert!(matches!(finalizer.phase(first.clone(), &Context::detached()).await, Ok(Phase::Ignored)));
    api.create(&WriteParams::default(), &config_map("a")).await.expect("created again");
    assert!(matches!(finalizer.phase(first, &Context::detached()).await, Ok(Phase::Ignored)));
    assert_eq!(finalizers(&api.get("a").await.expect("there")), [""; 0]);
}

#[tokio::test]
async fn only_our_own_finalizer_is_removed_despite_conflicts() {
    let (server, api, finalizer) = objects().await;
    let mut object = config_map("a");
    object.metadata.finalizers = Some(vec![OURS.to_owned()]);
    let stale = api.create(&WriteParams::default(), &object).await.expect("created");
    let touch = json!({ "metadata": { "finalizers": [OURS, "example.com/theirs"] } });
    api.patch("a", &PatchParams::default(), Patch::Merge(&touch)).await.expect("patched");
    server.faults().rule(Rule::on("patch").resource("configmaps").times(2).refuse(409));
    finalizer.done(&stale, &Context::detached()).await.expect("removed");
    assert_eq!(finalizers(&api.get("a").await.expect("there")), ["example.com/theirs"]);
    server.faults().rule(Rule::on("patch").resource("configmaps").refuse(409));
    let error = finalizer
        .phase(api.get("a").await.expect("there"), &Context::detached())
        .await
        .expect_err("always in conflict");
    assert!(error.is_conflict(), "{error}");
}

/// The cache still shows the object without the finalizer: a second reconcile from it would repeat
/// the write in vain.
#[tokio::test(start_paused = true)]
async fn the_next_reconcile_waits_until_the_cache_shows_the_finalizer() {
    let cluster = TestCluster::with(&["a"]).await;
    let (maps, calls) = (cluster.informer(), Calls::new());
    cluster.informers.start();
    maps.synced().await.expect("synced");
    cluster.server.faults().rule(Rule::on("watch").resource("configmaps").lag(5 * SECOND));
    cluster.server.faults().cut_watches();
    let finalizer = Finalizer::<ConfigMap>::new(Api::all(cluster.client.clone()), OURS).expect("a name");
    let (lister, recorded) = (maps.lister(), calls.clone());
    let running = Running::new(Controller::of(&maps).build(move |key: ObjectKey, context: Context| {
        let (finalizer, object, calls) = (finalizer.clone(), lister.get(&key), recorded.clone());
        async move {
            let object = object.ok_or("not in the cache")?;
            calls.add(finalizers(&object).join(","));
            finalizer.phase(object, &context).await?;
            Ok::<_, BoxError>(Action::RequeueAfter(SECOND))
        }
    }));
    tokio::time::sleep(30 * SECOND).await;
    running.stop().await.expect("clean shutdown");
    let seen = calls.take();
    assert_eq!(seen.iter().filter(|it| it.is_empty()).count(), 1, "{seen:?}");
    assert!(seen.iter().any(|it| it == OURS), "{seen:?}");
}

/// kube-apiserver stores such names on custom resources, with a warning.
#[tokio::test]
async fn a_name_without_a_domain_is_accepted_and_an_invalid_name_is_not() {
    let (_server, client) = server().await;
    let finalizer = |name: &str| Finalizer::<ConfigMap>::new(Api::all(client.clone()), name);
    assert!(finalizer("documents.kube.rs").is_ok());
    let error = finalizer("example.com/a/b").expect_err("two slashes").to_string();
    assert_eq!(
        error,
        "\"example.com/a/b\" is not a valid finalizer name: use a form like example.com/cleanup"
    );
}

/// Regression test: a webhook may deny with 404, which was taken as "the object is gone", so that
/// it was never deleted.
#[tokio::test]
async fn a_write_that_is_refused_with_404_is_an_error_while_the_object_exists() {
    let (server, api, finalizer) = objects().await;
    let created = api.create(&WriteParams::default(), &config_map("a")).await.expect("created");
    let refuse = || server.faults().rule(Rule::on("patch").resource("configmaps").refuse(404));
    let refused = refuse();
    let error = finalizer.phase(created.clone(), &Context::detached()).await.expect_err("refused");
    assert!(error.is_not_found());
    refused.remove();
    let Phase::Live(live) = finalizer.phase(created, &Context::detached()).await.expect("a response") else {
        panic!("the object is not live")
    };
    api.delete("a", &DeleteParams::default()).await.expect("deletion requested");
    let refused = refuse();
    finalizer.done(&live, &Context::detached()).await.expect_err("refused");
    refused.remove();
    finalizer.done(&live, &Context::detached()).await.expect("removed");
    assert!(api.get_opt("a").await.expect("a response").is_none());
}
