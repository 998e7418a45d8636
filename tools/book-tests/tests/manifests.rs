//! The manifests of the book on a server that enforces roles.

use std::time::Duration;

use dogwatch::config::Impersonation;
use dogwatch::grpc::{Resolver, Unavailable};
use dogwatch::testing::{Anonymous, ApiServer, AuthorizationMode, TestCluster};

const ENDPOINTS: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Service, metadata: {name: greeter, namespace: shop},
 spec: {ports: [{name: grpc, port: 80, targetPort: 50051}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4,
 metadata: {name: greeter-1, namespace: shop, labels: {kubernetes.io/service-name: greeter}},
 ports: [{name: grpc, port: 50051}], endpoints: [{addresses: [10.0.0.7]}]}";

/// Resolves a target as the service account of the manifest.
async fn resolved(roles: &str, target: &str) -> anyhow::Result<Result<usize, Unavailable>> {
    let builder = ApiServer::builder().in_process().seed(7).yaml(ENDPOINTS);
    let builder = builder.authorization(AuthorizationMode::Rbac).anonymous(Anonymous::Admin);
    let cluster = TestCluster::start(builder.yaml(roles)).await?;
    let user = Some("system:serviceaccount:front:front".to_owned());
    let client = cluster.client().acting_as(Impersonation { user, ..Impersonation::default() });
    let mut watch = Resolver::new(client).watch(&target.parse()?);
    let set = tokio::time::timeout(Duration::from_secs(60), watch.known()).await?;
    Ok(match set.unavailable.clone() {
        Some(reason) => Err(reason),
        None => Ok(set.usable().count()),
    })
}

#[tokio::test(start_paused = true)]
async fn the_role_of_a_grpc_client_permits_targets_with_names_and_numbers() -> anyhow::Result<()> {
    let roles = include_str!("../../../docs/book/manifests/call-services.yaml");
    for target in ["kubernetes:///greeter.shop:grpc", "kubernetes:///greeter.shop:80"] {
        assert_eq!(resolved(roles, target).await?, Ok(1), "{target}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn without_the_role_the_endpoints_may_not_be_read() -> anyhow::Result<()> {
    let reason = resolved("", "kubernetes:///greeter.shop:grpc").await?;
    assert!(matches!(reason, Err(Unavailable::Forbidden(_))), "{reason:?}");
    Ok(())
}
