//! The HTTP layer without a socket: a request in, a response out.

mod test_webhook;

mod extreme_numbers;
mod conversion;
mod nesting_depth;
mod admission_webhooks;
mod races;
mod panics;
mod pod_resources;
mod preconditions;
mod protobuf;
mod read;
mod shards;
mod non_resource;
mod watch;
mod write;

use std::sync::Arc;
use std::time::Duration;

use crate::auth::{Anonymous, Authenticator};
use crate::cluster::{Cluster, Source};
use crate::faults::FaultInjector;
use crate::http::{Cut, ResponseBody, Service, Settings};
use bytes::{Buf, Bytes};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const JSON: (&str, &str) = ("content-type", "application/json");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

/// The HTTP service of a cluster.
struct Server {
    service: Service,
    faults: FaultInjector,
}

/// A response that was read to its end.
#[derive(Debug)]
struct FullResponse {
    code: StatusCode,
    headers: HeaderMap,
    bytes: Bytes,
}

/// An open watch.
struct WatchReader {
    code: StatusCode,
    headers: HeaderMap,
    body: ResponseBody,
    /// Bytes that do not form a whole line yet.
    rest: Vec<u8>,
    /// The number of bytes of each write.
    writes: Vec<usize>,
}

impl Server {
    async fn start() -> Self {
        Self::with(Settings::default()).await
    }

    async fn with(settings: Settings) -> Self {
        let cluster = Cluster::new(Source::seeded(1, "2026-01-02T03:04:05Z".parse().expect("a time")));
        cluster.bootstrap().await;
        let faults = FaultInjector::default();
        let authenticator = Authenticator::new().anonymous(Anonymous::Admin);
        let service =
            Service::new(Arc::new(cluster), authenticator).fault_injector(faults.clone()).settings(settings);
        Self { service, faults }
    }

    async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<http::Response<ResponseBody>, Cut> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.service.respond(request.body(Full::new(body.into())).unwrap(), None).await
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> FullResponse {
        let response = self.raw(method, path, headers, body.to_owned()).await.expect("not cut");
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("not cut").to_bytes();
        FullResponse { code: parts.status, headers: parts.headers, bytes }
    }

    async fn get(&self, path: &str) -> FullResponse {
        self.send("GET", path, &[], "").await
    }

    async fn get_as(&self, path: &str, accept: &str) -> FullResponse {
        self.send("GET", path, &[("accept", accept)], "").await
    }

    async fn post(&self, path: &str, object: Value) -> FullResponse {
        self.send("POST", path, &[JSON], &object.to_string()).await
    }

    /// Creates a ConfigMap in the namespace `default` and returns its version.
    async fn config_map(&self, name: &str, labels: Value) -> u64 {
        let object = json!({ "metadata": { "name": name, "labels": labels }, "data": { "k": "v" } });
        let response = self.post("/api/v1/namespaces/default/configmaps", object).await;
        assert_eq!(response.code, 201, "{response:?}");
        response.version()
    }

    async fn merge(&self, path: &str, patch: Value) -> FullResponse {
        self.send("PATCH", path, &[MERGE], &patch.to_string()).await
    }

    async fn watch(&self, path: &str) -> WatchReader {
        self.watch_as(path, "application/json").await
    }

    async fn watch_as(&self, path: &str, accept: &str) -> WatchReader {
        let response = self.raw("GET", path, &[("accept", accept)], "").await.expect("not cut");
        let (parts, body) = response.into_parts();
        WatchReader { code: parts.status, headers: parts.headers, body, rest: Vec::new(), writes: Vec::new() }
    }
}

impl FullResponse {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |it| it.to_str().unwrap())
    }

    fn version(&self) -> u64 {
        self.json()["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }

    /// Returns the code and the message of an error.
    fn error(&self) -> (u16, String) {
        (self.code.as_u16(), self.json()["message"].as_str().unwrap_or_default().to_owned())
    }
}

impl WatchReader {
    /// Returns the next event, or `None` when the watch has ended or was cut.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("an event"));
            }
            let data = self.body.frame().await?.ok()?.into_data().expect("no trailers");
            self.writes.push(data.remaining());
            self.rest.extend_from_slice(&data.concat());
        }
    }

    /// Returns the type, the name and the version of the next event.
    async fn next_event(&mut self) -> (String, String, u64) {
        let event = self.next().await.expect("an event");
        let metadata = &event["object"]["metadata"];
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let version = text(&metadata["resourceVersion"]).parse().unwrap_or_default();
        (text(&event["type"]), text(&metadata["name"]), version)
    }

    /// Panics if an event arrives within a tenth of a second.
    async fn assert_silent(&mut self) {
        let next = tokio::time::timeout(Duration::from_millis(100), self.next()).await;
        assert!(next.is_err(), "{next:?}");
    }
}
