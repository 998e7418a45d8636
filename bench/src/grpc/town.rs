//! Where pods are known: our own API server, and the slices of the services that the pods belong to.

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result};
use dogwatch::{Api, Client, PatchParams};
use dogwatch_apiserver::ApiServer;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::pods::Pods;

/// An API server on the loopback, in the clear, where everybody is the administrator.
pub(super) struct Town {
    server: ApiServer,
    slices: Api<EndpointSlice>,
    kubeconfig: NamedTempFile,
}

/// What a slice says of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Ready,
    Terminating,
}

impl Town {
    pub(super) async fn start() -> Result<Self> {
        let server = ApiServer::start().await.context("the API server does not start")?;
        let kubeconfig = NamedTempFile::new().context("cannot make a kubeconfig")?;
        std::fs::write(kubeconfig.path(), server.kubeconfig())?;
        // Writes take the short way, so that the time of a change is that of its event.
        let client = Client::from_service(server.url().parse()?, "default", server.service());
        Ok(Self { slices: Api::default_namespaced(client), server, kubeconfig })
    }

    pub(super) fn url(&self) -> &str {
        self.server.url()
    }

    /// For those who cannot be told a URL.
    pub(super) fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// Writes one slice of a service, over what it was. Its port is called `grpc`.
    pub(super) async fn write(
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

    /// Makes a service of all pods, at most so many to a slice.
    pub(super) async fn list(&self, service: &str, pods: &Pods, most: usize) -> Result<()> {
        let all: Vec<_> = pods.all().iter().map(|it| (it.address, Condition::Ready)).collect();
        for (number, endpoints) in all.chunks(most).enumerate() {
            self.write(service, number, pods.port, endpoints).await?;
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
