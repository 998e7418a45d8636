//! The test cluster: our own API server, the endpoint slices of one service, and the number of its
//! watches.

use std::net::IpAddr;

use anyhow::{Context, Error, Result, ensure};
use dogwatch::api::PatchParams;
use dogwatch::{Api, Client};
use dogwatch_apiserver::ApiServer;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use tower::ServiceExt;

/// The name of the service.
pub(super) const SERVICE: &str = "echo";

/// An API server on loopback, over plain HTTP, where every client is an administrator.
pub(super) struct TestCluster {
    server: ApiServer,
    slices: Api<EndpointSlice>,
    port: u16,
}

/// A pod in an endpoint slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlicePod {
    pub(super) id: String,
    pub(super) address: IpAddr,
    /// It still serves but is shutting down. Otherwise it is ready.
    pub(super) terminating: bool,
}

impl TestCluster {
    /// Starts a cluster whose pods have this port.
    pub(super) async fn start(port: u16) -> Result<Self> {
        let server = ApiServer::start().await.context("cannot start the API server")?;
        // Writes go to the service in process: only the caller uses a socket.
        let client = Client::from_service(server.url().parse()?, "default", server.service());
        Ok(Self { slices: Api::default_namespaced(client), server, port })
    }

    pub(super) fn url(&self) -> &str {
        self.server.url()
    }

    /// Creates or replaces one slice of the service.
    pub(super) async fn write<'a>(
        &self,
        number: usize,
        pods: impl IntoIterator<Item = &'a SlicePod>,
    ) -> Result<()> {
        let params = PatchParams::apply("soak").force();
        let name = format!("{SERVICE}-{number}");
        self.slices.apply(&name, &params, &slice(self.port, pods)).await.map(drop)?;
        Ok(())
    }

    /// Returns the number of watches over HTTP, from the server's metrics.
    pub(super) async fn watches(&self) -> Result<u64> {
        let request = http::Request::get("/metrics").body(Empty::<Bytes>::new())?;
        let answer = self.server.service().oneshot(request).await.map_err(Error::from_boxed)?;
        ensure!(answer.status().is_success(), "/metrics returned {}", answer.status());
        let text = answer.into_body().collect().await.map_err(Error::from_boxed)?.to_bytes();
        Ok(watches(&String::from_utf8_lossy(&text)))
    }
}

fn slice<'a>(port: u16, pods: impl IntoIterator<Item = &'a SlicePod>) -> Value {
    let endpoint = |it: &SlicePod| {
        let conditions = json!({ "ready": !it.terminating, "serving": true, "terminating": it.terminating });
        json!({
            "addresses": [it.address],
            "conditions": conditions,
            "targetRef": { "kind": "Pod", "name": it.id, "uid": it.id },
        })
    };
    json!({
        "metadata": { "labels": { "kubernetes.io/service-name": SERVICE } },
        "addressType": "IPv4",
        "ports": [{ "name": "grpc", "port": port, "protocol": "TCP" }],
        "endpoints": pods.into_iter().map(endpoint).collect::<Vec<_>>(),
    })
}

/// Adds up the gauges of watches in a text in Prometheus format.
fn watches(text: &str) -> u64 {
    let gauges = text
        .lines()
        .filter(|it| it.starts_with("apiserver_longrunning_requests{") && it.contains("verb=\"WATCH\""));
    gauges.filter_map(|it| it.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_watches_are_counted_of_all_resources() {
        let text = "# TYPE apiserver_longrunning_requests gauge\n\
            apiserver_longrunning_requests{group=\"\",resource=\"pods\",verb=\"WATCH\"} 2\n\
            apiserver_longrunning_requests{group=\"discovery.k8s.io\",resource=\"endpointslices\",verb=\"WATCH\"} 1\n\
            apiserver_request_total{code=\"200\",group=\"\",resource=\"pods\",verb=\"WATCH\"} 40\n";
        assert_eq!(watches(text), 3);
        assert_eq!(watches(""), 0);
    }

    #[tokio::test]
    async fn the_number_of_watches_follows_the_server() {
        let cluster = TestCluster::start(80).await.unwrap();
        assert_eq!(cluster.watches().await.unwrap(), 0);
        let watch = cluster.slices.watch(&dogwatch::api::WatchParams::default()).await.unwrap();
        assert_eq!(cluster.watches().await.unwrap(), 1);
        drop(watch);
        while cluster.watches().await.unwrap() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn a_terminating_pod_still_serves() {
        let pod = |terminating| SlicePod { id: "a".into(), address: [127, 0, 0, 1].into(), terminating };
        let written = slice(80, &[pod(false), pod(true)]);
        let conditions = |it: usize| written["endpoints"][it]["conditions"].clone();
        assert_eq!(conditions(0), json!({ "ready": true, "serving": true, "terminating": false }));
        assert_eq!(conditions(1), json!({ "ready": false, "serving": true, "terminating": true }));
    }
}
