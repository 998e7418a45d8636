//! A server of config maps in place of kube-apiserver, whose state and version a test sets: also
//! back, and without an event. Its watches stay open and send nothing.

use std::sync::Arc;

use bytes::Bytes;
use dogwatch_client::{Config, ResponseBody};
use http::{Method, Request, Response};
use http_body::Frame;
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::upstream_double::{pieces, serve, text};

/// The first bytes of a page that does not end.
pub(crate) const BEGIN_OF_LIST: &str = r#"{"kind":"ConfigMapList","items":["#;

/// A server of config maps.
pub(crate) struct MapServer {
    pub(crate) config: Config,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    version: u64,
    maps: Vec<Value>,
    /// The number of lists of whole objects.
    lists: usize,
    /// Bodies that stay open.
    open: Vec<UnboundedSender<Frame<Bytes>>>,
}

impl MapServer {
    /// Starts a server with maps of these names and versions.
    pub(crate) async fn start(version: u64, maps: &[(&str, u64)]) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let served = Arc::clone(&state);
        let config = serve(move |request: Request<Incoming>| {
            let answer = served.lock().answer(&request);
            async move { answer }
        });
        let server = Self { config: config.await, state };
        server.set(version, maps);
        server
    }

    /// Replaces the state.
    pub(crate) fn set(&self, version: u64, maps: &[(&str, u64)]) {
        let map = |(name, version): &(&str, u64)| {
            json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": {
                "name": name, "namespace": "default", "uid": format!("uid-{name}"),
                "resourceVersion": version.to_string() } })
        };
        let mut state = self.state.lock();
        (state.version, state.maps) = (version, maps.iter().map(map).collect());
    }

    /// Returns the number of lists of whole objects.
    pub(crate) fn lists(&self) -> usize {
        self.state.lock().lists
    }
}

impl State {
    fn answer(&mut self, request: &Request<Incoming>) -> Response<ResponseBody> {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let accept = request.headers().get("accept").and_then(|it| it.to_str().ok()).unwrap_or_default();
        let value = match path {
            "/api" => json!({ "kind": "APIVersions", "versions": ["v1"] }),
            "/apis" => json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [] }),
            "/api/v1" => json!({ "kind": "APIResourceList", "groupVersion": "v1", "resources": [{
                "name": "configmaps", "singularName": "configmap", "namespaced": true, "kind": "ConfigMap",
                "verbs": ["get", "list", "watch"] }] }),
            _ if request.method() == Method::POST && path.ends_with("/tokenreviews") => json!({
                "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1",
                "status": { "authenticated": true, "user": { "username": "alice", "groups": [] } } }),
            _ if request.method() == Method::POST => json!({ "status": { "allowed": true } }),
            _ if query.contains("sendInitialEvents=true") => return self.open(self.initial_events()),
            _ if query.contains("watch=") => return self.open(String::new()),
            _ if query.contains("continue=") => return self.open(BEGIN_OF_LIST.to_owned()),
            _ => {
                self.lists += usize::from(!accept.contains("PartialObjectMetadata"));
                json!({ "kind": "ConfigMapList", "apiVersion": "v1", "items": self.maps,
                    "metadata": { "resourceVersion": self.version.to_string() } })
            }
        };
        with(text(&value.to_string()))
    }

    /// Returns the events of the maps, and the bookmark after them.
    fn initial_events(&self) -> String {
        let bookmark = json!({ "type": "BOOKMARK", "object": { "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": { "resourceVersion": self.version.to_string(),
                "annotations": { "k8s.io/initial-events-end": "true" } } } });
        let events = self.maps.iter().map(|it| json!({ "type": "ADDED", "object": it })).chain([bookmark]);
        events.map(|it| format!("{it}\n")).collect()
    }

    fn open(&mut self, begin: String) -> Response<ResponseBody> {
        let (sender, body) = pieces();
        if !begin.is_empty() {
            sender.send(Frame::data(Bytes::from(begin))).expect("the body is not dropped yet");
        }
        self.open.push(sender);
        with(body)
    }
}

fn with(body: ResponseBody) -> Response<ResponseBody> {
    Response::builder().header("content-type", "application/json").body(body).expect("a response")
}
