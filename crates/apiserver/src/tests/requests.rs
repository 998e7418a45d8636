//! Requests to a server in this process, over a pipe or by direct call, and a reader of watches. It
//! uses no Kubernetes client: a test sees exactly what the server sends.

use std::time::Duration;

use crate::ApiServer;
use crate::serving::{BoxError, Connector, InProcess};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::timeout;
use tower_service::Service as _;

/// Longer than anything that completes at all. The clock is paused, so waiting costs nothing.
const TIMEOUT: Duration = Duration::from_secs(600);

type ReplyBody = UnsyncBoxBody<Bytes, BoxError>;

/// The way requests reach a server.
#[derive(Clone)]
pub(crate) enum Transport {
    /// Requests are function calls.
    Direct(InProcess),
    /// HTTP/1.1 or HTTP/2 over a pipe in memory.
    Wire(Box<Client<Connector, Full<Bytes>>>),
}

/// A response: its status code, Retry-After header and body.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Value,
}

/// The error of a request whose connection was cut.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConnectionCut;

/// An open watch.
pub(crate) struct WatchReader {
    body: ReplyBody,
    buffer: Vec<u8>,
    /// The sizes of the chunks in which the data arrived.
    pub(crate) chunks: Vec<usize>,
    over: bool,
}

/// The next item of a watch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WatchItem {
    Event {
        kind: String,
        object: Value,
    },
    /// The watch ended cleanly.
    End,
    /// The connection was cut.
    Cut,
}

impl Transport {
    pub(crate) fn direct(server: &ApiServer) -> Self {
        Self::Direct(server.service())
    }

    pub(crate) fn wire(server: &ApiServer, http2: bool) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .retry_canceled_requests(false)
            .http2_only(http2)
            .build(server.connector());
        Self::Wire(Box::new(client))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<ReplyBody>, ConnectionCut> {
        let response = match self {
            Self::Direct(service) => timeout(TIMEOUT, service.clone().call(request))
                .await
                .expect("a reply")
                .map_err(|_| ConnectionCut)?,
            Self::Wire(client) => {
                let response = timeout(TIMEOUT, client.request(request)).await.expect("a reply");
                response.map_err(|_| ConnectionCut)?.map(|body| body.map_err(Into::into).boxed_unsync())
            }
        };
        Ok(response)
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Reply, ConnectionCut> {
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let bytes = body.map(|it| Bytes::from(it.to_string())).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(format!("http://server.test{path}"))
            .header("content-type", media)
            .body(Full::new(bytes))
            .unwrap();
        let response = self.exchange(request).await?;
        let code = response.status().as_u16();
        let retry_after = response.headers().get("retry-after").map(|it| it.to_str().unwrap().to_owned());
        let bytes = response.into_body().collect().await.map_err(|_| ConnectionCut)?.to_bytes();
        // Some errors are plain text.
        let text = || Value::from(String::from_utf8_lossy(&bytes));
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
        Ok(Reply { code, retry_after, body })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Reply, ConnectionCut> {
        self.send(Method::GET, path, None).await
    }

    /// Opens a watch. Returns the response if the server rejects it.
    pub(crate) async fn watch(&self, path: &str) -> Result<Result<WatchReader, Reply>, ConnectionCut> {
        let request = Request::get(format!("http://server.test{path}")).body(Full::default()).unwrap();
        let response = self.exchange(request).await?;
        if response.status().is_success() {
            return Ok(Ok(WatchReader {
                body: response.into_body(),
                buffer: Vec::new(),
                chunks: Vec::new(),
                over: false,
            }));
        }
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.map_err(|_| ConnectionCut)?.to_bytes();
        let body = serde_json::from_slice(&bytes).expect("responses are JSON");
        Ok(Err(Reply { code, retry_after: None, body }))
    }
}

impl WatchReader {
    /// Returns the next item as soon as it arrives.
    pub(crate) async fn next(&mut self) -> WatchItem {
        loop {
            if let Some(end) = self.buffer.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let mut event: Value = serde_json::from_slice(&line).expect("a line of JSON");
                let kind = event["type"].as_str().expect("an event").to_owned();
                return WatchItem::Event { kind, object: event["object"].take() };
            }
            match self.body.frame().await {
                None => {
                    assert!(self.buffer.is_empty(), "a watch ended in the middle of an event");
                    self.over = true;
                    return WatchItem::End;
                }
                Some(Err(_)) => {
                    self.over = true;
                    return WatchItem::Cut;
                }
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    self.chunks.push(data.len());
                    self.buffer.extend_from_slice(&data);
                }
            }
        }
    }

    /// Returns true if the watch has ended or was cut.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Returns the type and the object name of the next event.
    pub(crate) async fn event(&mut self) -> (String, String) {
        match timeout(TIMEOUT, self.next()).await.expect("an event in time") {
            WatchItem::Event { kind, object } => {
                (kind, object["metadata"]["name"].as_str().unwrap_or_default().to_owned())
            }
            other => panic!("not an event: {other:?}"),
        }
    }

    /// Returns the next item if one arrives within a second.
    pub(crate) async fn next_within_a_second(&mut self) -> Option<WatchItem> {
        timeout(Duration::from_secs(1), self.next()).await.ok()
    }
}

/// Returns the version of an object or a list.
pub(crate) fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|it| it.parse().ok()).unwrap_or_else(|| panic!("no version in {object}"))
}
