//! A server of discovery documents by path, whose responses can change, fail and wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use dogwatch_client::{BoxError, Client, RequestBody, ResponseBody, boxed};
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{Request, Response};
use http_body_util::Full;
use tokio::sync::watch;
use tower::Service;

pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[derive(Clone, Debug)]
struct Answer {
    code: u16,
    content_type: String,
    tag: Option<String>,
    body: String,
}

/// The server; clones share it. Unknown paths are 404.
#[derive(Clone, Debug)]
pub(crate) struct DiscoveryServer {
    state: Arc<Mutex<State>>,
    open: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    answers: BTreeMap<String, Answer>,
    seen: Vec<RecordedRequest>,
    in_flight: usize,
    max_in_flight: usize,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) accept: String,
    pub(crate) if_none_match: Option<String>,
}

impl DiscoveryServer {
    pub(crate) fn new() -> Self {
        Self { state: Arc::default(), open: watch::Sender::new(true) }
    }

    /// A server of pods, deployments and jobs without aggregated discovery.
    pub(crate) fn legacy() -> Self {
        Self::new()
            .json("/api", r#"{"kind":"APIVersions","versions":["v1"]}"#)
            .json("/apis", &groups(&[("apps", &["v1"]), ("batch", &["v1", "v1beta1"])]))
            .json("/api/v1", &resources("v1", &["pods Pod po", "pods/status Pod"]))
            .json("/apis/apps/v1", &resources("apps/v1", &["deployments Deployment deploy"]))
            .json("/apis/batch/v1", &resources("batch/v1", &["jobs Job"]))
            .json("/apis/batch/v1beta1", &resources("batch/v1beta1", &["cronjobs CronJob cj"]))
    }

    /// The same with two aggregated documents.
    pub(crate) fn aggregated() -> Self {
        Self::new().document("/api", &items(&[("", "v1", "Current", &["pods Pod po"])]), "\"a1\"").document(
            "/apis",
            &items(&[
                ("apps", "v1", "Current", &["deployments Deployment deploy"]),
                ("batch", "v1", "Current", &["jobs Job"]),
            ]),
            "\"b1\"",
        )
    }

    pub(crate) fn json(self, path: &str, body: &str) -> Self {
        self.set(path, 200, "application/json", None, body);
        self
    }

    pub(crate) fn document(self, path: &str, body: &str, tag: &str) -> Self {
        self.set(path, 200, AGGREGATED, Some(tag), body);
        self
    }

    pub(crate) fn code(self, path: &str, code: u16) -> Self {
        self.set(path, code, "text/plain", None, "");
        self
    }

    /// Sets a response.
    pub(crate) fn set(&self, path: &str, code: u16, content_type: &str, tag: Option<&str>, body: &str) {
        let answer = Answer {
            code,
            content_type: content_type.to_owned(),
            tag: tag.map(str::to_owned),
            body: body.to_owned(),
        };
        self.lock().answers.insert(path.to_owned(), answer);
    }

    /// Holds back all responses until opened again.
    pub(crate) fn close(&self) {
        self.open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    pub(crate) fn client(&self) -> Client {
        Client::from_service("https://server.test/".parse().expect("a URL"), "default", self.clone())
    }

    /// Returns the requests since the last call.
    pub(crate) fn asked(&self) -> Vec<RecordedRequest> {
        std::mem::take(&mut self.lock().seen)
    }

    /// Returns the paths of the requests since the last call.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.asked().into_iter().map(|it| it.path).collect()
    }

    pub(crate) fn max_in_flight(&self) -> usize {
        self.lock().max_in_flight
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    fn answer(&self, path: &str, if_none_match: Option<&str>) -> Response<ResponseBody> {
        let missing = Answer {
            code: 404,
            content_type: "text/plain".into(),
            tag: None,
            body: "404 page not found".into(),
        };
        let mut answer = self.lock().answers.get(path).cloned().unwrap_or(missing);
        if if_none_match.is_some() && answer.tag.as_deref() == if_none_match {
            (answer.code, answer.body) = (304, String::new());
        }
        let mut response = Response::builder().status(answer.code).header(CONTENT_TYPE, answer.content_type);
        if let Some(tag) = answer.tag {
            response = response.header(ETAG, tag);
        }
        response.body(boxed(Full::from(answer.body))).expect("a valid response")
    }
}

impl Service<Request<RequestBody>> for DiscoveryServer {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let header =
                |name| request.headers().get(name).and_then(|it| it.to_str().ok()).map(str::to_owned);
            let ask = RecordedRequest {
                path: request.uri().path().to_owned(),
                query: request.uri().query().unwrap_or_default().to_owned(),
                accept: header(ACCEPT).unwrap_or_default(),
                if_none_match: header(IF_NONE_MATCH),
            };
            {
                let mut state = this.lock();
                state.seen.push(ask.clone());
                state.in_flight += 1;
                state.max_in_flight = state.max_in_flight.max(state.in_flight);
            }
            let mut open = this.open.subscribe();
            // Yields, so that requests made together are in progress together.
            tokio::task::yield_now().await;
            let _ = open.wait_for(|it| *it).await;
            this.lock().in_flight -= 1;
            Ok(this.answer(&ask.path, ask.if_none_match.as_deref()))
        })
    }
}

/// Creates an `APIGroupList`; the first version of a group is preferred.
pub(crate) fn groups(groups: &[(&str, &[&str])]) -> String {
    let name = |group: &str, version: &str| serde_json::json!({ "groupVersion": format!("{group}/{version}"), "version": version });
    let group = |(group, versions): &(&str, &[&str])| {
        serde_json::json!({
            "name": group,
            "versions": versions.iter().map(|it| name(group, it)).collect::<Vec<_>>(),
            "preferredVersion": versions.first().map(|it| name(group, it)),
        })
    };
    let groups: Vec<_> = groups.iter().map(group).collect();
    serde_json::json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }).to_string()
}

/// Creates an `APIResourceList` from `plural Kind short…`.
pub(crate) fn resources(group_version: &str, resources: &[&str]) -> String {
    let resource = |text: &&str| {
        let words: Vec<_> = text.split(' ').collect();
        serde_json::json!({
            "name": words[0], "singularName": "", "namespaced": true, "kind": words[1],
            "verbs": ["get", "list"], "shortNames": &words[2..], "categories": ["all"],
        })
    };
    let resources: Vec<_> = resources.iter().map(resource).collect();
    let list = serde_json::json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources,
    });
    list.to_string()
}

/// Creates an `APIGroupDiscoveryList` from group, version, freshness and `plural Kind short…`;
/// adjacent versions of one group are merged.
pub(crate) fn items(versions: &[(&str, &str, &str, &[&str])]) -> String {
    let mut items: Vec<serde_json::Value> = Vec::new();
    for (group, version, freshness, resources) in versions {
        let resource = |text: &&str| {
            let words: Vec<_> = text.split(' ').collect();
            serde_json::json!({
                "resource": words[0], "responseKind": {"group": "", "version": "", "kind": words[1]},
                "scope": "Namespaced", "singularResource": words[1].to_lowercase(),
                "verbs": ["get", "list"], "shortNames": &words[2..], "categories": ["all"],
                "subresources": [{
                    "subresource": "scale", "verbs": ["get"],
                    "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                }],
            })
        };
        let version = serde_json::json!({
            "version": version, "freshness": freshness,
            "resources": resources.iter().map(resource).collect::<Vec<_>>(),
        });
        match items.last_mut().filter(|it| it["metadata"]["name"] == *group) {
            Some(item) => item["versions"].as_array_mut().expect("a list").push(version),
            None => items.push(serde_json::json!({ "metadata": {"name": group}, "versions": [version] })),
        }
    }
    let list = serde_json::json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items,
    });
    list.to_string()
}
