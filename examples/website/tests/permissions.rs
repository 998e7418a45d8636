//! The operator with exactly the permissions of `deploy/rbac.yaml`, as its service account.

use std::time::Duration;

use dogwatch::api::{DeleteParams, PatchParams};
use dogwatch::config::Impersonation;
use dogwatch::controller::{CancellationToken, LeaderElector};
use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::testing::{Anonymous, ApiServer, AuthorizationMode, TestCluster};
use dogwatch::{Api, Client, Manager};
use serde_json::json;
use website::{Website, WebsiteSpec};

const NAMESPACE: &str = "website-operator";

/// Starts a cluster that enforces roles, with the manifests of the operator. Returns a client with
/// the permissions of its service account.
async fn installed() -> anyhow::Result<(TestCluster, Client)> {
    let builder = ApiServer::builder().in_process().seed(7);
    // Requests of the test itself are the administrator's, which may impersonate others.
    let builder = builder.authorization(AuthorizationMode::Rbac).anonymous(Anonymous::Admin);
    let builder = builder.yaml(include_str!("../deploy/rbac.yaml"));
    let cluster = TestCluster::start(builder.yaml(include_str!("../deploy/deployment.yaml"))).await?;
    let user = Some(format!("system:serviceaccount:{NAMESPACE}:{NAMESPACE}"));
    let groups = vec!["system:serviceaccounts".to_owned(), "system:authenticated".to_owned()];
    let operator = cluster.client().acting_as(Impersonation { user, groups, ..Default::default() });
    Ok((cluster, operator))
}

#[tokio::test(start_paused = true)]
async fn the_roles_of_the_operator_permit_everything_that_it_does() -> anyhow::Result<()> {
    let (cluster, client) = installed().await?;
    website::install(&client).await?;
    let elector = LeaderElector::builder(client.clone(), "website-operator").namespace(NAMESPACE).build()?;
    let manager = Manager::new(client.clone());
    let controller = website::controller(&manager, client)?;
    let manager = manager.controller(controller).leader_election(elector);
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run_until(stop.clone().cancelled_owned()));

    let limit = Duration::from_secs(60);
    let sites = Api::<Website>::default_namespaced(cluster.client());
    for html in ["<p>Hello</p>", "<p>Hello again</p>"] {
        let spec = WebsiteSpec { title: "Home".to_owned(), html: html.to_owned() };
        sites.apply("home", &PatchParams::apply("test").force(), &json!({ "spec": spec })).await?;
        let maps = Api::<ConfigMap>::default_namespaced(cluster.client());
        let is_shown = |map: Option<&ConfigMap>| {
            map.and_then(|it| it.data.as_ref()).is_some_and(|it| it["index.html"] == html)
        };
        tokio::time::timeout(limit, maps.wait_for("home-page", is_shown)).await??;
    }
    sites.delete("home", &DeleteParams::default()).await?;
    tokio::time::timeout(limit, sites.wait_for("home", |site| site.is_none())).await??;
    stop.cancel();
    running.await??;

    let forbidden = cluster.server().requests().forbidden();
    assert_eq!(forbidden.count(), 0, "{:?}", forbidden.last());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_operator_may_not_do_more_than_its_roles_permit() -> anyhow::Result<()> {
    let (_cluster, client) = installed().await?;
    let deployments = Api::<Deployment>::namespaced(client, NAMESPACE);
    let error = deployments.get("website-operator").await.expect_err("no role permits it");
    assert!(error.is_forbidden(), "{error}");
    Ok(())
}
