//! The HTTP layer without a socket: a request in, an answer out.

mod test_webhook;

mod extreme_numbers;
mod conversion;
mod nesting_depth;
mod admission_webhooks;
mod races;
mod panics;
mod read;
mod shards;
mod non_resource;
mod watch;
mod write;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use dogwatch_apiserver::auth::{Anonymous, Authenticator};
use dogwatch_apiserver::cluster::{Cluster, Source};
use dogwatch_apiserver::faults::Lab;
use dogwatch_apiserver::http::{AnswerBody, Cut, Service, Settings};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const JSON: (&str, &str) = ("content-type", "application/json");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

/// A cluster that answers.
struct Server {
    service: Service,
    lab: Lab,
}

/// An answer that came to its end.
#[derive(Debug)]
struct Whole {
    code: StatusCode,
    headers: HeaderMap,
    bytes: Bytes,
}

/// A watch.
struct Events {
    code: StatusCode,
    headers: HeaderMap,
    body: AnswerBody,
    /// What was read and does not make a line yet.
    rest: Vec<u8>,
    /// How many bytes each write had.
    writes: Vec<usize>,
}

impl Server {
    async fn start() -> Self {
        Self::with(Settings::default()).await
    }

    async fn with(settings: Settings) -> Self {
        let cluster = Cluster::new(Source::seeded(1, "2026-01-02T03:04:05Z".parse().expect("a time")));
        cluster.bootstrap().await;
        let lab = Lab::default();
        let authenticator = Authenticator::new().anonymous(Anonymous::Admin);
        let service = Service::new(Arc::new(cluster), authenticator).lab(lab.clone()).settings(settings);
        Self { service, lab }
    }

    async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<http::Response<AnswerBody>, Cut> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.service.respond(request.body(Full::new(body.into())).unwrap(), None).await
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Whole {
        let answer = self.raw(method, path, headers, body.to_owned()).await.expect("not cut");
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await.expect("not cut").to_bytes();
        Whole { code: parts.status, headers: parts.headers, bytes }
    }

    async fn get(&self, path: &str) -> Whole {
        self.send("GET", path, &[], "").await
    }

    async fn get_as(&self, path: &str, accept: &str) -> Whole {
        self.send("GET", path, &[("accept", accept)], "").await
    }

    async fn post(&self, path: &str, object: Value) -> Whole {
        self.send("POST", path, &[JSON], &object.to_string()).await
    }

    /// Makes a ConfigMap in the namespace `default`; gives its version.
    async fn config_map(&self, name: &str, labels: Value) -> u64 {
        let object = json!({ "metadata": { "name": name, "labels": labels }, "data": { "k": "v" } });
        let answer = self.post("/api/v1/namespaces/default/configmaps", object).await;
        assert_eq!(answer.code, 201, "{answer:?}");
        answer.version()
    }

    async fn merge(&self, path: &str, patch: Value) -> Whole {
        self.send("PATCH", path, &[MERGE], &patch.to_string()).await
    }

    async fn watch(&self, path: &str) -> Events {
        self.watch_as(path, "application/json").await
    }

    async fn watch_as(&self, path: &str, accept: &str) -> Events {
        let answer = self.raw("GET", path, &[("accept", accept)], "").await.expect("not cut");
        let (parts, body) = answer.into_parts();
        Events { code: parts.status, headers: parts.headers, body, rest: Vec::new(), writes: Vec::new() }
    }
}

impl Whole {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
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

    /// The code and the message of a refusal.
    fn refusal(&self) -> (u16, String) {
        (self.code.as_u16(), self.json()["message"].as_str().unwrap_or_default().to_owned())
    }
}

impl Events {
    /// The next event, or nothing when the watch is over. A connection that is cut is over, too.
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

    /// The next event as its type, name and version.
    async fn seen(&mut self) -> (String, String, u64) {
        let event = self.next().await.expect("an event");
        let metadata = &event["object"]["metadata"];
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let version = text(&metadata["resourceVersion"]).parse().unwrap_or_default();
        (text(&event["type"]), text(&metadata["name"]), version)
    }

    /// Fails if anything comes in the next tenth of a second.
    async fn is_silent(&mut self) {
        let next = tokio::time::timeout(Duration::from_millis(100), self.next()).await;
        assert!(next.is_err(), "{next:?}");
    }
}
