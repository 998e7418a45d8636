//! Subresources: status, scale, eviction, tokens, logs, binding.

use std::time::Duration;

use dogwatch::api::{DeleteParams, Deletion, GetParams, LogParams, Patch, PatchParams, WriteParams};
use dogwatch::config::{AuthSettings, Impersonation};
use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::k8s_openapi::api::authentication::v1::TokenRequest;
use dogwatch::k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use dogwatch::{Api, Client};
use serde_json::{Value, json};

use crate::fixtures::{deployment, object, pod};
use crate::support::{TestNamespace, client, config, refused, whoami};

/// Creates a pod called `a` that is never scheduled.
async fn pods() -> (TestNamespace, Api<Pod>) {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let api = space.api(&client);
    api.create(&WriteParams::default(), &pod("a")).await.expect("created");
    (space, api)
}

async fn deployments() -> (TestNamespace, Api<Deployment>) {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let api = space.api(&client);
    api.create(&WriteParams::default(), &deployment("a")).await.expect("created");
    (space, api)
}

/// Binds the pod `a` to a node, as a scheduler does.
async fn bind(api: &Api<Pod>) {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "a" },
        "target": { "apiVersion": "v1", "kind": "Node", "name": "no-such-node" },
    });
    let _: Value =
        api.create_subresource("a", "binding", &WriteParams::default(), &binding).await.expect("bound");
}

#[tokio::test]
async fn replacing_the_status_keeps_the_spec_and_vice_versa() {
    let (_space, api) = pods().await;
    let mut pod = api.get_status("a").await.expect("exists");
    pod.status.get_or_insert_default().message = Some("from the node".to_owned());
    pod.spec.as_mut().expect("a spec").active_deadline_seconds = Some(7);
    let stored = api.replace_status("a", &WriteParams::default(), &pod).await.expect("replaced");
    assert_eq!(stored.status.as_ref().and_then(|it| it.message.as_deref()), Some("from the node"));
    assert_eq!(stored.spec.as_ref().expect("a spec").active_deadline_seconds, None);

    let mut pod = stored;
    pod.status.as_mut().expect("a status").message = Some("from elsewhere".to_owned());
    pod.spec.as_mut().expect("a spec").active_deadline_seconds = Some(7);
    let stored = api.replace("a", &WriteParams::default(), &pod).await.expect("replaced");
    assert_eq!(stored.status.and_then(|it| it.message).as_deref(), Some("from the node"));
    assert_eq!(stored.spec.expect("a spec").active_deadline_seconds, Some(7));
}

#[tokio::test]
async fn replacing_a_stale_status_is_a_conflict() {
    let (_space, api) = pods().await;
    let stale = api.get("a").await.expect("exists");
    let patch = json!({ "status": { "message": "newer" } });
    api.patch_status("a", &PatchParams::default(), Patch::Merge(&patch)).await.expect("patched");
    let mut stale = stale;
    stale.status.get_or_insert_default().message = Some("stale".to_owned());
    assert!(refused(api.replace_status("a", &WriteParams::default(), &stale).await).is_conflict());
}

#[tokio::test]
async fn a_status_can_be_patched_and_applied() {
    let (_space, api) = pods().await;
    let patch = json!({ "status": { "message": "patched" }, "spec": { "activeDeadlineSeconds": 7 } });
    let patched =
        api.patch_status("a", &PatchParams::default(), Patch::Merge(&patch)).await.expect("patched");
    assert_eq!(patched.status.and_then(|it| it.message).as_deref(), Some("patched"));
    assert_eq!(patched.spec.expect("a spec").active_deadline_seconds, None);

    let state = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" },
        "status": { "conditions": [{ "type": "Ready", "status": "False", "reason": "Applied" }] },
    });
    let applied =
        api.apply_subresource("a", "status", &PatchParams::apply("ours"), &state).await.expect("applied");
    let status = applied.status.expect("a status");
    assert_eq!(status.message.as_deref(), Some("patched"));
    let ready = status.conditions.unwrap_or_default().into_iter().find(|it| it.type_ == "Ready");
    assert_eq!(ready.and_then(|it| it.reason).as_deref(), Some("Applied"));
}

#[tokio::test]
async fn a_change_of_the_spec_increments_the_generation_and_one_of_the_labels_does_not() {
    let (_space, api) = deployments().await;
    let first = api.get("a").await.expect("exists").metadata.generation;
    let labels = json!({ "metadata": { "labels": { "note": "1" } } });
    let noted = api.patch("a", &PatchParams::default(), Patch::Merge(&labels)).await.expect("patched");
    assert_eq!(noted.metadata.generation, first);
    let spec = json!({ "spec": { "paused": true } });
    let paused = api.patch("a", &PatchParams::default(), Patch::Merge(&spec)).await.expect("patched");
    assert_eq!(paused.metadata.generation, first.map(|it| it + 1));
}

#[tokio::test]
async fn a_scale_can_be_read_set_and_replaced() {
    let (space, api) = deployments().await;
    let scale = api.get_scale("a").await.expect("a scale");
    assert_eq!(scale.metadata.namespace.as_ref(), Some(&space.name));
    assert_eq!(scale.spec.as_ref().and_then(|it| it.replicas), Some(1));

    let set = api.set_replicas("a", &PatchParams::default(), 4).await.expect("set");
    assert_eq!(set.spec.and_then(|it| it.replicas), Some(4));
    assert_eq!(api.get("a").await.expect("exists").spec.replicas, Some(4));

    let mut next = api.get_scale("a").await.expect("a scale");
    next.spec.as_mut().expect("a spec").replicas = Some(0);
    api.replace_scale("a", &WriteParams::default(), &next).await.expect("replaced");
    assert_eq!(api.get("a").await.expect("exists").spec.replicas, Some(0));
    assert!(refused(api.replace_scale("a", &WriteParams::default(), &next).await).is_conflict());
    assert!(refused(api.get_scale("b").await).is_not_found());
}

#[tokio::test]
async fn a_pod_can_be_evicted() {
    let (_space, api) = pods().await;
    api.evict("a", &DeleteParams::default().dry_run()).await.expect("would be evicted");
    assert!(api.get_opt("a").await.expect("a response").is_some());
    api.evict("a", &DeleteParams::default()).await.expect("evicted");
    assert!(api.get_opt("a").await.expect("a response").is_none());
    assert!(refused(api.evict("a", &DeleteParams::default()).await).is_not_found());
}

#[tokio::test]
async fn a_bound_pod_is_deleted_with_its_grace_period() {
    let (_space, api) = pods().await;
    bind(&api).await;
    let bound = api.get("a").await.expect("exists");
    assert_eq!(bound.spec.expect("a spec").node_name.as_deref(), Some("no-such-node"));

    let grace = DeleteParams::default().grace_period(Duration::from_secs(3600));
    let deletion = api.delete("a", &grace).await.expect("accepted");
    let Deletion::Terminating(going) = deletion else { panic!("{deletion:?}") };
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(3600));
    assert!(api.get_opt("a").await.expect("a response").is_some());
    api.delete("a", &DeleteParams::default().grace_period(Duration::ZERO)).await.expect("accepted");
    assert!(api.get_opt("a").await.expect("a response").is_none());
}

#[tokio::test]
async fn the_log_of_a_pod_on_a_missing_node_is_an_error() {
    let (_space, api) = pods().await;
    bind(&api).await;
    let status = refused(api.logs("a", &LogParams::default().container("main").tail(1)).await);
    assert!(!status.message.is_empty(), "{status:?}");
    assert!(api.log_lines("a", &LogParams::default().follow()).await.is_err());
    assert!(refused(api.logs("b", &LogParams::default()).await).is_not_found());
}

#[tokio::test]
async fn the_log_of_an_unknown_container_is_a_bad_request() {
    let (_space, api) = pods().await;
    bind(&api).await;
    let status = refused(api.logs("a", &LogParams::default().container("nothing")).await);
    assert!(status.is_bad_request() && status.message.contains("nothing"), "{status:?}");
}

#[tokio::test]
async fn a_token_of_a_service_account_logs_in_as_that_account() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let accounts = space.api::<ServiceAccount>(&client);
    accounts
        .create(&WriteParams::default(), &object(json!({ "metadata": { "name": "robot" } })))
        .await
        .expect("created");
    let request: TokenRequest = object(json!({ "spec": { "audiences": [], "expirationSeconds": 3600 } }));
    let response = accounts.create_token("robot", &request).await.expect("a token");
    let status = response.status.expect("the token is in the status");

    let mut config = config();
    config.tls.identity = None;
    config.impersonate = Impersonation::default();
    config.auth = AuthSettings::default();
    config.auth.token = status.token.map(Into::into);
    let user = whoami(&Client::new(config).expect("a client")).await.expect("authenticated");
    assert_eq!(user.username, Some(format!("system:serviceaccount:{}:robot", space.name)));
    let groups = user.groups.unwrap_or_default();
    assert!(groups.contains(&format!("system:serviceaccounts:{}", space.name)), "{groups:?}");
    assert!(refused(accounts.create_token("nothing", &request).await).is_not_found());
}

#[tokio::test]
async fn an_unknown_subresource_is_not_found() {
    let (_space, api) = pods().await;
    let response = api.get_subresource::<Value>("a", "nonsense", &GetParams::default()).await;
    assert!(refused(response).is_not_found());
}
