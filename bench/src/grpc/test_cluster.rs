//! The test cluster: our own API server, and the endpoint slices of the services.

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result};
use dogwatch::api::PatchParams;
use dogwatch::{Api, Client};
use dogwatch_apiserver::ApiServer;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::pods::Pods;

/// An API server on loopback, over plain HTTP, where every client is an administrator.
pub(super) struct TestCluster {
    server: ApiServer,
    slices: Api<EndpointSlice>,
    kubeconfig: NamedTempFile,
}

/// The condition of an endpoint in its slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Ready,
    Terminating,
}

impl TestCluster {
    pub(super) async fn start() -> Result<Self> {
        let server = ApiServer::start().await.context("cannot start the API server")?;
        let kubeconfig = NamedTempFile::new().context("cannot create a kubeconfig")?;
        std::fs::write(kubeconfig.path(), server.kubeconfig())?;
        // Writes go to the service in process, so that the time of a write is close to that of its
        // event.
        let client = Client::from_service(server.url().parse()?, "default", server.service());
        Ok(Self { slices: Api::default_namespaced(client), server, kubeconfig })
    }

    pub(super) fn url(&self) -> &str {
        self.server.url()
    }

    /// The kubeconfig, for callers that do not take a URL.
    pub(super) fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// Creates or replaces one slice of a service. Its port is named `grpc`.
    pub(super) async fn write_slice(
        &self,
        service: &str,
        number: usize,
        port: u16,
        endpoints: &[(Ipv4Addr, Condition)],
    ) -> Result<()> {
        let params = PatchParams::apply("bench").force();
        let name = format!("{service}-{number}");
        self.slices.apply(&name, &params, &slice(service, port, endpoints)).await.map(drop)?;
        Ok(())
    }

    /// Publishes all pods as endpoints of a service, at most `most` per slice.
    pub(super) async fn publish_pods(&self, service: &str, pods: &Pods, most: usize) -> Result<()> {
        let all: Vec<_> = pods.all().iter().map(|it| (it.address, Condition::Ready)).collect();
        for (number, endpoints) in all.chunks(most).enumerate() {
            self.write_slice(service, number, pods.port, endpoints).await?;
        }
        Ok(())
    }
}

fn slice(service: &str, port: u16, endpoints: &[(Ipv4Addr, Condition)]) -> Value {
    let endpoint = |(address, condition): &(Ipv4Addr, Condition)| {
        let ready = *condition == Condition::Ready;
        let name = format!("{service}-{}", address.octets()[3]);
        json!({
            "addresses": [address],
            "conditions": { "ready": ready, "serving": true, "terminating": !ready },
            "targetRef": { "kind": "Pod", "name": name, "uid": name },
        })
    };
    json!({
        "metadata": { "labels": { "kubernetes.io/service-name": service } },
        "addressType": "IPv4",
        "ports": [{ "name": "grpc", "port": port, "protocol": "TCP" }],
        "endpoints": endpoints.iter().map(endpoint).collect::<Vec<_>>(),
    })
}
