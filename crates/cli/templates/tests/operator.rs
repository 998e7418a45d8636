//! The operator on an API server in the process of the test, with the permissions of its manifests.

use std::time::Duration;

use dogwatch::api::{DeleteParams, ListParams};
use dogwatch::config::Impersonation;
use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::k8s_openapi::api::events::v1::Event;
use dogwatch::kube_core::CustomResourceExt;
use dogwatch::testing::{ApiServer, AuthorizationMode, TestCluster};
use dogwatch::{Api, Client};
use serde_json::Value;

use __crate__::{__Kind__, __Kind__Spec};

const DEFINITION: &str = include_str!("../manifests/01-crd.yaml");
const ACCESS: &str = include_str!("../manifests/02-rbac.yaml");
const DEPLOYMENT: &str = include_str!("../manifests/03-deployment.yaml");

#[test]
fn the_manifest_of_the_definition_is_that_of_the_type() -> anyhow::Result<()> {
    let manifest: Value = serde_saphyr::from_str(DEFINITION)?;
    let current = serde_json::to_value(__Kind__::crd())?;
    assert_eq!(manifest, current, "run `cargo run -- crd > manifests/01-crd.yaml`");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_object_gets_pods_that_are_gone_before_it() -> anyhow::Result<()> {
    let server = ApiServer::builder().in_process().authorization(AuthorizationMode::Rbac);
    let server = server.yaml(DEFINITION).yaml(ACCESS).yaml(DEPLOYMENT);
    let cluster = TestCluster::start(server).await?;
    let simulator = cluster.simulator().nodes(1).start();

    // The operator as in its pod: its namespace, and its service account.
    let (url, service) = (cluster.client().server().clone(), cluster.server().service());
    let user = Some("system:serviceaccount:__name__:__name__".to_owned());
    let account = Impersonation { user, ..Impersonation::default() };
    let client = Client::from_service(url, "__name__", service).acting_as(account);
    let manager = __crate__::manager(client)?;

    // The clock is paused: it takes no time to wait.
    let life = tokio::time::timeout(Duration::from_secs(600), life_of_an_object(&cluster));
    let stop = async { life.await.expect("it ends in time").expect("no request fails") };
    manager.run_until(stop).await?;
    simulator.stop().await;
    Ok(())
}

async fn life_of_an_object(cluster: &TestCluster) -> anyhow::Result<()> {
    let objects = Api::<__Kind__>::namespaced(cluster.client(), "default");
    let deployments = Api::<Deployment>::namespaced(cluster.client(), "default");
    let spec = __Kind__Spec { image: "example.com/web:1".to_owned(), replicas: 2 };
    cluster.create(&__Kind__::new("web", spec)).await?;
    let ready = |it: &__Kind__| it.status.as_ref().is_some_and(|it| it.ready_replicas == 2);
    objects.wait_for("web", |it| it.is_some_and(ready)).await?;
    assert!(deployments.get("web").await?.metadata.owner_references.is_some());

    objects.delete("web", &DeleteParams::default()).await?;
    objects.wait_for("web", |it| it.is_none()).await?;
    assert!(deployments.get_opt("web").await?.is_none());

    let events = Api::<Event>::namespaced(cluster.client(), "default");
    for reason in ["Available", "CleanedUp"] {
        let has_reason = |it: &Event| it.reason.as_deref() == Some(reason);
        events.wait_until(&ListParams::default(), |all| all.values().any(has_reason)).await?;
    }
    Ok(())
}
