//! Tests of mirrors: a feed on one side, requests on the other.

mod fold;
mod forms;
mod limits;
mod versions;
mod views;

use std::time::Duration;

use bytes::Buf;
use dogwatch_wire::{WatchDecoder, WatchEvent};
use futures_util::FutureExt;
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::mirror::{
    Freshness, Mirror, MirrorEvent, MirrorEventType, MirrorObject, MirrorSettings, MirroredResource, Pending,
    View,
};
use crate::{ApiError, ResponseBody, protobuf};

/// The newest version of the mirrored server.
struct Newest(u64);

impl Freshness for Newest {
    fn newest(&self) -> Pending<'_, Result<u64, ApiError>> {
        Box::pin(std::future::ready(Ok(self.0)))
    }
}

/// A mirror of config maps.
struct Maps {
    mirror: Mirror,
}

/// A response: its code and its body.
#[derive(Debug)]
struct Reply {
    code: u16,
    retry_after: Option<String>,
    body: Vec<u8>,
}

/// An open watch. What it receives is read without waiting.
struct Watching {
    body: ResponseBody,
    decoder: WatchDecoder<Value>,
}

/// An event as a test sees it.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Added(Value),
    Modified(Value),
    Deleted(Value),
    Bookmark(u64, bool),
    Error(u16),
    End,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    fn names(&self) -> Vec<String> {
        let list = self.json();
        let items = list["items"].as_array().expect("a list").iter();
        items.map(|it| it["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
    }

    fn version(&self) -> u64 {
        version_of(&self.json())
    }
}

impl Maps {
    fn new() -> Self {
        Self::with(MirrorSettings::default())
    }

    fn with(settings: MirrorSettings) -> Self {
        let resource = MirroredResource::new("", "v1", "configmaps", "ConfigMap").namespaced();
        Self { mirror: Mirror::new(resource, settings) }
    }

    /// Returns a mirror with a list at this version.
    fn listed(version: u64, objects: &[Value]) -> Self {
        let maps = Self::new();
        maps.replace(version, objects);
        maps
    }

    fn replace(&self, version: u64, objects: &[Value]) {
        let objects = objects.iter().map(MirrorObject::from_value).collect();
        self.mirror.replace(version, objects).expect("the list is newer");
    }

    fn apply(&self, event_type: MirrorEventType, object: &Value) {
        let event = MirrorEvent::new(event_type, MirrorObject::from_value(object));
        self.mirror.apply(&event).expect("the event is newer");
    }

    /// Sends a request for the newest version that the mirror has.
    async fn get(&self, path: &str) -> Reply {
        self.ask(path, "application/json", View::unchanged(), self.mirror.version().unwrap_or(0)).await
    }

    async fn ask(&self, path: &str, accept: &str, view: View, newest: u64) -> Reply {
        let response = self.mirror.respond(request(path, accept), view, &Newest(newest)).await;
        let code = response.status().as_u16();
        let retry_after = response.headers().get("retry-after").map(|it| it.to_str().unwrap().to_owned());
        let body = response.into_body().collect().await.expect("no fault").to_bytes().to_vec();
        Reply { code, retry_after, body }
    }

    async fn watch(&self, query: &str) -> Watching {
        self.watch_as(query, "application/json", View::unchanged()).await
    }

    async fn watch_as(&self, query: &str, accept: &str, view: View) -> Watching {
        let path = format!("/api/v1/configmaps?watch=1&{query}");
        let newest = Newest(self.mirror.version().unwrap_or(0));
        let response = self.mirror.respond(request(&path, accept), view, &newest).await;
        assert_eq!(response.status(), 200, "{path}");
        let decoder = match accept.contains("protobuf") {
            true => WatchDecoder::protobuf(),
            false => WatchDecoder::json(),
        };
        Watching { body: response.into_body(), decoder }
    }
}

impl Watching {
    /// Reads a response in JSON.
    fn of(response: http::Response<ResponseBody>) -> Self {
        Self { body: response.into_body(), decoder: WatchDecoder::json() }
    }

    /// Returns everything that the watch has to send now.
    fn now(&mut self) -> Vec<Seen> {
        let (mut seen, mut idle) = (Vec::new(), 0);
        // A step may let other tasks run first, which takes a second poll.
        while idle < 3 {
            match self.body.frame().now_or_never() {
                None => idle += 1,
                Some(None) => {
                    seen.push(Seen::End);
                    return seen;
                }
                Some(Some(frame)) => {
                    let mut data = frame.expect("no fault").into_data().expect("data");
                    let bytes = data.copy_to_bytes(data.remaining());
                    let fed = self.decoder.feed(&bytes, |it| seen.push(Seen::of(it.expect("it decodes"))));
                    fed.expect("a well-formed watch");
                }
            }
        }
        seen
    }

    /// Waits for the next events; fails if there are none for two hours of the paused clock.
    async fn next(&mut self) -> Vec<Seen> {
        let seen = self.now();
        if !seen.is_empty() {
            return seen;
        }
        let frame = tokio::time::timeout(Duration::from_secs(7200), self.body.frame()).await;
        let Some(frame) = frame.expect("the watch sends something") else { return vec![Seen::End] };
        let mut data = frame.expect("no fault").into_data().expect("data");
        let bytes = data.copy_to_bytes(data.remaining());
        let mut seen = Vec::new();
        let fed = self.decoder.feed(&bytes, |it| seen.push(Seen::of(it.expect("it decodes"))));
        fed.expect("a well-formed watch");
        seen
    }
}

impl Seen {
    fn of(event: WatchEvent<Value>) -> Self {
        match event {
            WatchEvent::Added(object) => Self::Added(object),
            WatchEvent::Modified(object) => Self::Modified(object),
            WatchEvent::Deleted(object) => Self::Deleted(object),
            WatchEvent::Bookmark(it) => {
                let ends_initial = it.annotations.contains_key("k8s.io/initial-events-end");
                Self::Bookmark(it.version.as_str().parse().expect("a number"), ends_initial)
            }
            WatchEvent::Error(status) => Self::Error(status.code),
            other => panic!("{other:?}"),
        }
    }
}

fn request(path: &str, accept: &str) -> Request<()> {
    Request::get(path).header("accept", accept).body(()).expect("a request")
}

fn version_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().expect("a version").parse().expect("a number")
}

fn key_of(object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}

/// Returns a config map as a watch of the server sends it.
fn map(name: &str, version: u64, colour: &str) -> Value {
    json!({ "kind": "ConfigMap", "apiVersion": "v1", "data": { "colour": colour },
        "metadata": { "name": name, "namespace": "default", "uid": format!("uid-{name}"),
            "resourceVersion": version.to_string(), "labels": { "colour": colour } } })
}

/// Returns an object in protobuf.
fn in_protobuf(object: &Value) -> MirrorObject {
    MirrorObject::protobuf(protobuf::encode(object).expect("a built-in kind"))
}
