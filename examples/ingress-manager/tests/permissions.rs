//! The ingress manager with exactly the permissions of `deploy/rbac.yaml`, as its service account.

use std::time::Duration;

use dogwatch::api::{Patch, PatchParams, WriteParams};
use dogwatch::config::Impersonation;
use dogwatch::controller::{CancellationToken, LeaderElector, Manager};
use dogwatch::k8s_openapi::api::core::v1::{Secret, Service};
use dogwatch::k8s_openapi::api::networking::v1::Ingress;
use dogwatch::{Api, Client};
use dogwatch_apiserver::{Anonymous, ApiServer, AuthorizationMode};
use ingress_manager::ANNOTATION;
use serde_json::{from_value, json};

const NAMESPACE: &str = "ingress-manager";

/// Longer than anything takes, on a paused clock.
const LIMIT: Duration = Duration::from_secs(60);

/// Starts a server that enforces roles, with the manifests. Returns it with an administrator's
/// client and one with the permissions of the service account.
async fn installed() -> anyhow::Result<(ApiServer, Client, Client)> {
    let builder = ApiServer::builder().in_process().seed(7);
    // Requests of the test itself are the administrator's, which may impersonate others.
    let builder = builder.authorization(AuthorizationMode::Rbac).anonymous(Anonymous::Admin);
    let builder = builder.yaml(include_str!("../deploy/rbac.yaml"));
    let server = builder.yaml(include_str!("../deploy/deployment.yaml")).start().await?;
    let admin = Client::from_service(server.url().parse()?, "default", server.service());
    let user = Some(format!("system:serviceaccount:{NAMESPACE}:{NAMESPACE}"));
    let groups = vec!["system:serviceaccounts".to_owned(), "system:authenticated".to_owned()];
    let manager = admin.acting_as(Impersonation { user, groups, ..Default::default() });
    Ok((server, admin, manager))
}

fn host_of(ingress: &Ingress) -> Option<&str> {
    ingress.spec.as_ref()?.rules.as_ref()?.first()?.host.as_deref()
}

#[tokio::test(start_paused = true)]
async fn the_roles_of_the_manager_permit_everything_that_it_does() -> anyhow::Result<()> {
    let (server, admin, client) = installed().await?;
    let elector = LeaderElector::builder(client.clone(), "ingress-manager").namespace(NAMESPACE).build()?;
    let manager = Manager::new(client.clone());
    let controller = ingress_manager::controller(&manager, client);
    let manager = manager.controller(controller).leader_election(elector);
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run_until(stop.clone().cancelled_owned()));

    let services = Api::<Service>::default_namespaced(admin.clone());
    let ingresses = Api::<Ingress>::default_namespaced(admin);
    let service = json!({
        "metadata": { "name": "web", "annotations": { ANNOTATION: "a.test" } },
        "spec": { "ports": [{ "port": 80 }] },
    });
    services.create(&WriteParams::default(), &from_value(service)?).await?;
    // An Ingress that is created, changed, and deleted.
    for host in [Some("a.test"), Some("b.test"), None] {
        let patch = json!({ "metadata": { "annotations": { ANNOTATION: host } } });
        services.patch("web", &PatchParams::default(), Patch::Merge(&patch)).await?;
        let is_there = |ingress: Option<&Ingress>| ingress.and_then(host_of) == host;
        tokio::time::timeout(LIMIT, ingresses.wait_for("web", is_there)).await??;
    }
    stop.cancel();
    running.await??;

    let forbidden = server.requests().forbidden();
    assert_eq!(forbidden.count(), 0, "{:?}", forbidden.last());
    let verbs = |verb: &str| server.requests().resource("ingresses").filter(|it| it.verb == verb).count();
    assert_eq!(["create", "update", "delete"].map(verbs), [1, 1, 1]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_manager_may_not_do_more_than_its_roles_permit() -> anyhow::Result<()> {
    let (_server, _admin, client) = installed().await?;
    let secrets = Api::<Secret>::namespaced(client.clone(), NAMESPACE);
    let error = secrets.get("any").await.expect_err("no role permits it");
    assert!(error.is_forbidden(), "{error}");
    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    let services = Api::<Service>::default_namespaced(client);
    let written = services.patch("kubernetes", &PatchParams::default(), Patch::Merge(&patch)).await;
    assert!(written.is_err_and(|it| it.is_forbidden()));
    Ok(())
}
